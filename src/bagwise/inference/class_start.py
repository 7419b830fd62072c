"""Guesses at the classes of bags that have several candidates (theory section 16).

A set of candidates says little: with few bags, or few excluded classes, it is explained almost as well by a model that
tells nothing apart, and expectation propagation, which averages over all classes that a bag may have, tends to find
that one. A labelling of all bags is not explained by such a model. So classes are guessed:

1. a ridge regression, instance by instance, of the candidates' shares on the features; the guess of a bag is the
   candidate with the largest value among its instances;
2. again and again: some sweeps with the guesses taken for classes; the new guess of a bag is its most probable
   candidate by what all OTHER bags say (its cavity), so that no guess confirms itself.

Every class is guessed about as often as it is named (``class_law.py``): strictly so at first, loosely later on.

Kernels are learned by the log evidence of the guesses, which lies below that of the sets. Kernels that led to different
guesses are compared by how probable they make the sets of bags left out (``judged_left_out``). The posterior given the
guesses and the one given the sets, reached from there, are compared by halves of the bags (``class_left_out.py``).
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bagwise.bag_models.classes import ProbitClasses
from bagwise.bags import Bags
from bagwise.evidence.classes import ClassEvidence
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Features
from bagwise.inference.chunks import Chunk, in_memory
from bagwise.inference.class_law import departure, held_to_law
from bagwise.inference.class_propagation import ClassPropagation

_ROUNDS, _STEPS = 12, 2  # of guesses at most, and of the engine for each
_STRICT, _SLACK = 4, 1.0  # rounds in which classes are guessed as often as they are named, and how loosely afterwards


def leaves_choice(table: Tensor) -> bool:
    """Whether some bag has several candidates."""
    return bool((table.sum(1) > 1).any())


def guess_classes(engine: ClassPropagation, chunks: Sequence[Chunk]) -> Tensor:
    """Move an engine that has not begun to where guesses lead it; returns the last of them, (B, K + 1), its table."""
    sets, scores = engine.table, _regressed(chunks)
    for rounds in range(_ROUNDS):
        guesses = _best(sets, held_to_law(sets, scores, 0.0 if rounds < _STRICT else _SLACK))
        if torch.equal(guesses, engine.table) and rounds >= _STRICT:
            break
        engine.table = guesses
        engine.calm()
        for _ in range(_STEPS):
            engine.step()
        scores = engine.left_out_odds()
    engine.calm()
    return engine.table


def judged_left_out(engine: ClassPropagation, sets: Tensor) -> float:
    """How well the sets of bags left out are explained, less what the answer departs from the law of the guesses."""
    return engine.left_out(sets) - departure(sets, engine.left_out_odds())


class Guessed(NamedTuple):
    """What guesses lead to at some kernel."""

    evidence: ClassEvidence  # every bag that states something has one class
    left_out: float  # by ``judged_left_out``; −∞ where sites failed on the way


def guessed_classes(features: Features, bags: Bags, evidence: ClassEvidence, seed: int) -> Guessed:
    """Guesses at this kernel; where sites fail on the way they are what the regression alone leads to."""
    chosen = np.flatnonzero(evidence.observed()[:, 0])
    chunks = in_memory(features, bags[chosen], ProbitClasses(evidence.of_bags(chosen))).chunks
    table = evidence.table.copy()
    with torch.no_grad():
        engine = ClassPropagation(chunks, features.n_columns, features.device, seed)
        sets = engine.table
        try:
            found, left_out = guess_classes(engine, chunks), judged_left_out(engine, sets)
        except NumericalError:
            found, left_out = _best(sets, held_to_law(sets, _regressed(chunks), 0.0)), -math.inf
    table[chosen] = found.cpu().numpy()
    return Guessed(ClassEvidence(table, evidence.offsets), left_out)


def _regressed(chunks: Sequence[Chunk]) -> Tensor:
    """The largest value of every class in every bag of a ridge regression of the candidates' shares, (B, K + 1).

    "None of them", last, is below all others: only a bag that has no other candidate begins there.
    """
    gram = functools.reduce(torch.add, (chunk.design.phi.T @ chunk.design.phi for chunk in chunks))
    pull = functools.reduce(torch.add, (chunk.design.phi.T @ _shares(chunk) for chunk in chunks))
    eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    weights = torch.linalg.solve(eye + gram, pull)
    values = torch.cat([chunk.design.segments.max(chunk.design.phi @ weights) for chunk in chunks])
    return torch.nn.functional.pad(values, (0, 1), value=torch.finfo(values.dtype).min)


def _shares(chunk: Chunk) -> Tensor:
    table = chunk.evidence.table[:, :-1].to(chunk.design.phi.dtype)
    shares = table / table.sum(1, keepdim=True).clamp(min=1.0) - 1.0 / table.shape[1]
    return chunk.design.segments.spread(shares)


def _best(table: Tensor, score: Tensor) -> Tensor:
    """The candidate of the largest score as the only one."""
    best = score.masked_fill(~table, -torch.inf).argmax(1)
    return torch.nn.functional.one_hot(best, table.shape[1]).bool()
