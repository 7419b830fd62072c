"""The inferences that bags of one class out of many have, each run to its end on some features (theory section 16)."""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import torch

from bagwise.bag_models.classes import ProbitClasses
from bagwise.bags import Bags
from bagwise.evidence.classes import ClassEvidence
from bagwise.exceptions import ConvergenceWarning, NumericalError, warn_user
from bagwise.gp.features import Features
from bagwise.inference.chunks import Chunk, in_memory
from bagwise.inference.class_mean_field import ClassMeanField
from bagwise.inference.class_propagation import ClassPropagation
from bagwise.inference.class_start import guess_classes, judged_left_out, leaves_choice
from bagwise.inference.engines import Inferred, Limits, climbed_bound
from bagwise.inference.loop import iterate


def by_class_sites(features: Features, bags: Bags, evidence: ClassEvidence, limits: Limits, seed: int) -> Inferred:
    """One site per bag and class: from guesses, given these and given the sets, where bags have several candidates.

    The answer is the one that explains the sets of bags left out better (``judged_left_out``). Where neither settles,
    and where every bag has one class, it is the one that is reached from the prior: an error if that does not settle.
    """
    chosen = np.flatnonzero(evidence.observed()[:, 0])
    model = ProbitClasses(evidence.of_bags(chosen))
    chunks = in_memory(features, bags if len(chosen) == len(bags) else bags[chosen], model).chunks
    engine = ClassPropagation(chunks, features.n_columns, features.device, seed)
    found = _from_guesses(engine, chunks, limits) if leaves_choice(engine.table) else []
    if found:
        return max(found, key=lambda one: one.left_out).inferred
    return _settled(ClassPropagation(chunks, features.n_columns, features.device, seed), limits)


class _Answer(NamedTuple):
    inferred: Inferred
    left_out: float


def _from_guesses(engine: ClassPropagation, chunks: Sequence[Chunk], limits: Limits) -> list[_Answer]:
    """The answer given the guesses and, from there, the one given the sets; as far as they settle."""
    sets, found = engine.table, list[_Answer]()
    with suppress(NumericalError):
        guesses = guess_classes(engine, chunks)
        for table in (guesses, sets):
            engine.table = table
            engine.calm()
            inferred = _settled(engine, limits)
            found.append(_Answer(inferred, judged_left_out(engine, sets)))
            if inferred.trace.interrupted:
                break
    return found


def _settled(engine: ClassPropagation, limits: Limits) -> Inferred:
    trace = iterate(engine.step, name="log evidence", **limits.of("bag-ep"))
    engine.finish()
    if not trace.interrupted:
        moved = f"its sites still moved by {trace.residuals[-1]:.1e} after {len(trace)} sweeps"
        if not trace.converged and trace.residuals[-1] > limits.nearly:
            raise NumericalError(moved)
        if not engine.plausible():
            raise NumericalError("it claims a log evidence above the highest that there can be")
        if not trace.converged:
            warn_user(f"expectation propagation has nearly settled: {moved}.", ConvergenceWarning)
    return Inferred(engine.posterior(), trace, engine.log_evidence)


def by_class_mean_field(features: Features, bags: Bags, evidence: ClassEvidence, limits: Limits) -> Inferred:
    """The mean field, f integrated out beforehand; warns where its bound has not settled."""
    chunks = in_memory(features, bags, ProbitClasses(evidence), integrated=True)
    observed = torch.as_tensor(evidence.observed(), device=features.device)
    return climbed_bound(ClassMeanField(chunks, observed), limits)
