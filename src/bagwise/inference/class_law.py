"""How often classes are guessed: about as often as they are named (theory section 16, law of the guesses).

Classes that are candidates of the same bags again and again are hard to tell apart at first. Whichever is guessed a
little more often explains the next bag, too, and in the end it has them all: the fewer classes there are in use, the
easier bags are to explain, so neither the log evidence nor bags that are left out object. What objects is how often
classes are named. A bag of m candidates names each of them 1/m times; added up over bags this is the law n_k.

With odds o_bk of the candidates of bag b and one factor ω_k for every class, bag b has class k with probability

    w_bk = ω_k o_bk / Σ_{j ∈ S_b} ω_j o_bj,     ω_k such that  Σ_b w_bk = n_k ω_k^(−slack).                      (16.3)

Without slack all classes are guessed as often as they are named. (w_bk = 1/m does that, so there is a solution.) With
slack 1 a class that is guessed e times as often is held back by one nat, ω_k = n_k / Σ_b w_bk, which plain odds outdo:
classes that really are more frequent than they are named will be guessed more often.
"""

import torch
from torch import Tensor

_ROUNDS, _TOLERANCE = 200, 1e-3  # of the iteration for log ω, which guesses need roughly only


def held_to_law(table: Tensor, scores: Tensor, slack: float) -> Tensor:
    """Log odds (B, K + 1) plus log ω of (16.3); "none of them", last, is under no law."""
    return scores + torch.nn.functional.pad(_log_weights(*_under_law(table, scores), slack), (0, 1))


def departure(table: Tensor, scores: Tensor) -> float:
    """By how many nats an answer departs from the law, at slack 1: Σ_k c_k log(c_k / n_k), c_k = Σ_b w_bk of ω = 1.

    Answers that use few classes explain the sets of bags left out as well as right ones do; this tells them apart.
    """
    logs, law = _under_law(table, scores)
    guessed = torch.softmax(logs, dim=1).sum(0)
    return float(torch.special.xlogy(guessed, guessed / law.clamp(min=torch.finfo(law.dtype).tiny)).sum())


def _under_law(table: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Log odds of the candidates (b, K), −∞ for others, and the law n (K,), of the bags that have candidates."""
    named = table[:, :-1].any(1)
    possible = table[named, :-1]
    logs = scores[named, :-1].double().masked_fill(~possible, -torch.inf)
    return logs, (possible / possible.sum(1, keepdim=True, dtype=torch.float64)).sum(0)


def _log_weights(logs: Tensor, law: Tensor, slack: float) -> Tensor:
    """log ω by the scaling of Sinkhorn: Σ_b w_bk = ω_k a_k gives log ω_k = (log n_k − log a_k) / (1 + slack)."""
    weights, named = torch.zeros_like(law), law > 0
    for _ in range(_ROUNDS):
        log_a = torch.logsumexp(logs - torch.logsumexp(logs + weights, dim=1, keepdim=True), dim=0)
        last, weights = weights, torch.where(named, (law.log() - log_a) / (1.0 + slack), 0.0)
        if float((weights - last).abs().max()) < _TOLERANCE:
            break
    return weights
