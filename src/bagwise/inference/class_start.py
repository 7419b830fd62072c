"""Where expectation propagation over classes begins (theory section 16).

With narrow candidate sets the iteration mostly finds its way from the prior. Where a bag excludes few classes it does
not: all columns stay alike, every bag is "one of them", and that is a fixed point. So there is a second start. A guess
is made first, and the trust in what the model itself has found rises step by step:

1. a ridge regression, instance by instance, of the candidates' shares on the features; the guess of a bag is the
   candidate with the largest value among its instances;
2. a few times: some sweeps with the guesses taken for classes, then new guesses;
3. the sets themselves.

Which of the two starts is better is judged by the log evidence. Not so where sets are broad: they are then explained
almost as well by a model that tells nothing apart, so the guess is the only start, and kernels are judged by the
evidence of the guesses (``guessed_classes``) instead.
"""

from collections.abc import Sequence
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from bagwise.bag_models.classes import ProbitClasses, odds_of
from bagwise.bags import Bags
from bagwise.evidence.classes import ClassEvidence
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Features
from bagwise.inference.chunks import Chunk, in_memory
from bagwise.inference.class_propagation import ClassPropagation

BROAD = 0.5  # share of the classes that a bag excludes, on average, below which sets are broad
_ROUNDS, _SWEEPS = 3, 4  # of guesses, and of looks at the bags for each


def starts_of(table: Tensor) -> tuple[bool, ...]:
    """Where to begin with these candidates: at the prior (False), at a guess (True), or at both."""
    if is_broad(table):
        return (True,)
    return (False, True) if bool((table.sum(1) > 1).any()) else (False,)


def is_broad(table: Tensor) -> bool:
    """Whether bags exclude so few of the classes that a model which tells nothing apart explains them, too."""
    unsure = table.sum(1) > 1
    return bool(unsure.any()) and float((~table[unsure, :-1]).double().mean()) < BROAD


def guess_first(engine: ClassPropagation, chunks: Sequence[Chunk]) -> Tensor:
    """Move an engine that has not begun to where guesses lead it, and return the last of them, (B, K + 1)."""
    tables = [chunk.evidence.table for chunk in chunks]
    scores = _regressed(chunks)
    for _ in range(_ROUNDS):
        engine.table = _guesses(tables, scores)
        for _ in range(_SWEEPS):
            engine.step()
        mean = engine.belief.mean.T
        scores = [_ratio(chunk, mean) for chunk in chunks]
    engine.table = torch.cat(tables)
    engine.calm()
    return _guesses(tables, scores)


def guessed_classes(features: Features, bags: Bags, evidence: ClassEvidence, seed: int) -> ClassEvidence:
    """Evidence in which every bag that states something has one class: what guesses lead to at this kernel.

    Where sites fail on the way it is what the regression alone leads to.
    """
    chosen = np.flatnonzero(evidence.observed()[:, 0])
    chunks = in_memory(features, bags[chosen], ProbitClasses(evidence.of_bags(chosen))).chunks
    table = evidence.table.copy()
    with torch.no_grad():
        try:
            found = guess_first(ClassPropagation(chunks, features.n_columns, features.device, seed), chunks)
        except NumericalError:
            found = _guesses([chunk.evidence.table for chunk in chunks], _regressed(chunks))
    table[chosen] = found.cpu().numpy()
    return ClassEvidence(table, evidence.offsets)


def _guesses(tables: Sequence[Tensor], scores: Sequence[Tensor]) -> Tensor:
    return torch.cat([_best(table, score) for table, score in zip(tables, scores, strict=True)])


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
