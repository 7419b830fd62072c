"""The inferences that bags of one class out of many have, each run to its end on some features (theory section 16)."""

from collections.abc import Sequence

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
from bagwise.inference.class_start import guess_first, starts_of
from bagwise.inference.engines import Inferred, Limits, climbed_bound
from bagwise.inference.loop import iterate


def by_class_sites(features: Features, bags: Bags, evidence: ClassEvidence, limits: Limits, seed: int) -> Inferred:
    """One site per bag and class, from the prior and, where sets leave a choice, from a guess.

    The one of the higher log evidence is the answer; an error where neither settles.
    """
    chosen = np.flatnonzero(evidence.observed()[:, 0])
    model = ProbitClasses(evidence.of_bags(chosen))
    chunks = in_memory(features, bags if len(chosen) == len(bags) else bags[chosen], model).chunks
    found, failures = [], []
    for guessed in starts_of(torch.from_numpy(evidence.table[chosen])):
        try:
            found.append(_settled(chunks, features, limits, seed, guessed))
        except NumericalError as error:
            failures.append(error)
    if not found:
        raise failures[-1]
    return max(found, key=lambda one: float(one.log_evidence.sum()))


def _settled(chunks: Sequence[Chunk], features: Features, limits: Limits, seed: int, guessed: bool) -> Inferred:
    engine = ClassPropagation(chunks, features.n_columns, features.device, seed)
    if guessed:
        guess_first(engine, chunks)
    trace = iterate(engine.step, name="log evidence", **limits.of("bag-ep"))
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
