"""Where expectation propagation over classes begins (theory section 16).

With narrow candidate sets the iteration mostly finds its way from the prior. Where a bag excludes few classes it does
not: all columns stay alike, every bag is "one of them", and that is a fixed point. So there is a second start. A guess
is made first, and the trust in what the model itself has found rises step by step:

1. a ridge regression, instance by instance, of the candidates' shares on the features; the guess of a bag is the
   candidate with the largest value among its instances;
2. a few times: some sweeps with the guesses taken for classes, then new guesses;
3. the sets themselves.

Which of the two starts is better is then judged by the log evidence.
"""

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from bagwise.bag_models.classes import odds_of
from bagwise.inference.chunks import Chunk
from bagwise.inference.class_propagation import ClassPropagation

BROAD = 0.5  # share of the classes that a bag excludes, on average, below which both starts are learned from
_ROUNDS, _SWEEPS = 3, 4  # of guesses, and of looks at the bags for each


def starts_of(table: Tensor) -> tuple[bool, ...]:
    """Where to begin with these candidates: at the prior (False) and, where a bag has several, at a guess (True)."""
    return (False, True) if bool((table.sum(1) > 1).any()) else (False,)


def is_broad(table: Tensor) -> bool:
    """Whether bags exclude so few of the classes that each start may ask for a kernel of its own."""
    unsure = table.sum(1) > 1
    return bool(unsure.any()) and float((~table[unsure, :-1]).double().mean()) < BROAD


def guess_first(engine: ClassPropagation, chunks: Sequence[Chunk]) -> None:
    """Move an engine that has not begun to where guesses lead it."""
    tables = [chunk.evidence.table for chunk in chunks]
    scores = _regressed(chunks)
    for _ in range(_ROUNDS):
        guesses = [_best(table, score) for table, score in zip(tables, scores, strict=True)]
        engine.table = torch.cat(guesses)
        for _ in range(_SWEEPS):
            engine.step()
        mean = engine.belief.mean.T
        scores = [_ratio(chunk, mean) for chunk in chunks]
    engine.table = torch.cat(tables)
    engine.calm()


def _regressed(chunks: Sequence[Chunk]) -> list[Tensor]:
    """The largest value of every class in every bag, (b, K), of a ridge regression of the candidates' shares."""
    gram = reduce(torch.add, [chunk.design.phi.T @ chunk.design.phi for chunk in chunks])
    pull = reduce(torch.add, [chunk.design.phi.T @ _shares(chunk) for chunk in chunks])
    eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    weights = torch.linalg.solve(eye + gram, pull)
    return [chunk.design.segments.max(chunk.design.phi @ weights) for chunk in chunks]


def _shares(chunk: Chunk) -> Tensor:
    table = chunk.evidence.table[:, :-1].to(chunk.design.phi.dtype)
    shares = table / table.sum(1, keepdim=True).clamp(min=1.0) - 1.0 / table.shape[1]
    return chunk.design.segments.spread(shares)


def _ratio(chunk: Chunk, mean: Tensor) -> Tensor:
    """log(Z1/Z0) of every class at the mean of v, (b, K)."""
    design = chunk.design
    odds = odds_of(design.phi @ mean.to(design.phi.dtype) / torch.sqrt(1.0 + design.kappa)[:, None], design.segments)
    return odds.some - odds.none


def _best(table: Tensor, score: Tensor) -> Tensor:
    """The candidate of the largest score as the only one; "none of them" where there is no other."""
    best = score.masked_fill(~table[:, :-1], -torch.inf).argmax(1)
    alone = ~table[:, :-1].any(1)
    best = torch.where(alone, torch.full_like(best, table.shape[1] - 1), best)
    return torch.nn.functional.one_hot(best, table.shape[1]).bool()
