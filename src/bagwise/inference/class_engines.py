"""The inferences that bags of one class out of many have, each run to its end on some features (theory section 16)."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch

from bagwise.bag_models.classes import ProbitClasses
from bagwise.bags import Bags
from bagwise.evidence.classes import ClassEvidence
from bagwise.exceptions import ConvergenceWarning, NumericalError, warn_user
from bagwise.gp.features import Features
from bagwise.inference.chunks import Chunk, in_memory
from bagwise.inference.class_left_out import LeftOut, StatedBags
from bagwise.inference.class_mean_field import ClassMeanField
from bagwise.inference.class_propagation import ClassPropagation
from bagwise.inference.class_start import guess_classes, leaves_choice
from bagwise.inference.engines import Inferred, Limits, climbed_bound
from bagwise.inference.loop import iterate


def by_class_sites(
    features: Features,
    bags: Bags,
    evidence: ClassEvidence,
    limits: Limits,
    seed: int,
    left_out: LeftOut | None = None,
) -> Inferred:
    """One site per bag and class: from guesses, where bags have several candidates, and given these or given the sets.

    Bags left out say which of the two (``left_out`` is what they have said already, by the same features). Where it
    does not settle the other one may, and then the one that is reached from the prior: an error if that does not
    settle.
    """
    chosen = np.flatnonzero(evidence.observed()[:, 0])
    stated = StatedBags(bags, evidence) if len(chosen) == len(bags) else StatedBags(bags, evidence).some(chosen)
    chunks = in_memory(features, stated.bags, ProbitClasses(stated.evidence)).chunks
    engine = ClassPropagation(chunks, features.n_columns, features.device, seed)
    if leaves_choice(engine.table):
        asked = LeftOut(features, stated, seed) if left_out is None else left_out
        found = _from_guesses(engine, chunks, limits, on_to_sets=asked.prefers_sets)
        if found is not None:
            return found
        engine = ClassPropagation(chunks, features.n_columns, features.device, seed)
    return _settled(engine, limits)


def _from_guesses(
    engine: ClassPropagation, chunks: Sequence[Chunk], limits: Limits, *, on_to_sets: bool
) -> Inferred | None:
    """The answer given the guesses, or the one given the sets that is reached from there; else the other one."""
    sets, found = engine.table, None
    with suppress(NumericalError):
        guesses = guess_classes(engine, chunks)
        for table in (guesses, sets):
            with suppress(NumericalError):
                engine.table = table
                engine.calm()
                found = _settled(engine, limits)
            if found is not None and (found.trace.interrupted or not on_to_sets):
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
