"""The inferences that probit instances have, each run to its end on some features, and which of them suits what.

"ep"      expectation propagation with a message to every instance (theory section 4)
"bag-ep"  expectation propagation with one site per bag, for labels in large bags (section 13.3)
"vi"      mean field (section 1): where counts are pinned down, or there is too much for messages
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bagwise.bag_models.counts import ProbitCounts
from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import ConvergenceWarning, NumericalError, warn_user
from bagwise.gp.features import Features
from bagwise.gp.posterior import GaussianPosterior
from bagwise.inference.bag_curves import curve_step, turn_step
from bagwise.inference.bag_propagation import BagPropagation, joined_posterior
from bagwise.inference.chunks import OfColumn, PiecesOfColumn
from bagwise.inference.expectation_propagation import ExpectationPropagation
from bagwise.inference.loop import Trace, Watch, iterate, one_after_the_other
from bagwise.inference.mean_field import MeanField
from bagwise.inference.places import chunks_of

LARGE_BAG = 20.0  # mean size of the bag of an instance above which messages may take hundreds of sweeps
LARGEST_MESSAGES = 50_000  # instances × label columns above which the mean field is preferred to messages
_CAP = {"ep": 500, "bag-ep": 200, "vi": 2000}
_TOLERANCE = {"ep": 1e-4, "bag-ep": 1e-3, "vi": 1e-6}
_LOST = 3.0  # nats of log evidence, below that of lines, at which sites that match moments have gone astray
PIECES = 1_000  # of all negative bags together, about: each is a row to work on
NEARLY = 1e-2  # standard deviations of the prior by which the mean of v may still move; no probability feels it


class Limits(NamedTuple):
    """When to stop (None: where the inference itself would), and who looks on."""

    max_iter: int | None
    tol: float | None
    watch: Watch
    nearly: float = 0.0  # a residual of one site per bag that is good enough for an answer, though not for a judge

    def of(self, engine: str, reachable: float = 0.0) -> dict[str, Any]:
        """As the loop takes them; no tolerance is below what the arithmetic can reach."""
        return {
            "max_iter": _CAP[engine] if self.max_iter is None else self.max_iter,
            "tol": max(_TOLERANCE[engine] if self.tol is None else self.tol, reachable),
            "watch": self.watch,
            "open_end": self.max_iter is None,
        }


class Inferred(NamedTuple):
    """What an inference leaves behind."""

    posterior: GaussianPosterior
    trace: Trace
    log_evidence: torch.Tensor  # (K,); the bound of the mean field


def engine_for(bags: Bags, evidence: CountEvidence, tight: bool) -> str:
    """The rule of ``inference="auto"``; ``tight`` says that counts are pinned down from both sides."""
    if tight or evidence.has_light_bags():
        return "vi"
    labelled = ~np.isnan(evidence.labels).all(axis=1)
    if labelled.any() and size_of_own_bag(bags.sizes[labelled]) > LARGE_BAG:
        return "bag-ep"
    return "vi" if bags.n_instances * evidence.labels.shape[1] > LARGEST_MESSAGES else "ep"


def size_of_own_bag(sizes: NDArray[np.int64]) -> float:
    """The mean, over instances, of the size of the bag that they are in."""
    return float(np.square(sizes, dtype=np.float64).sum() / sizes.sum())


def by_messages(features: Features, bags: Bags, evidence: CountEvidence, limits: Limits) -> Inferred:
    """Messages to every instance, label column after label column; an error where they do not settle or claim the
    impossible.
    """
    chunks = chunks_of(features, bags, ProbitCounts(evidence))
    parts: list[Inferred] = []
    for column in range(evidence.labels.shape[1]):
        state = ExpectationPropagation(chunks.through(OfColumn(column)), features.n_columns, 1, features.device)
        trace = iterate(state.step, name="log evidence", **limits.of("ep"))
        if not trace.interrupted:
            state.finish()
            _judge(trace, state.plausible(_ceiling(features, evidence)[[column]]), "messages")
        parts.append(Inferred(state.posterior(), trace, state.log_evidence))
        if trace.interrupted:
            break
    return _side_by_side(parts, evidence.labels.shape[1])


def by_bag_sites(
    features: Features, bags: Bags, evidence: CountEvidence, limits: Limits, seed: int, *, curved: bool = False
) -> Inferred:
    """One site per labelled bag, label column after label column; an error where they do not settle.

    ``curved`` then goes on to sites that match the moments of the label instead of those of a line.
    """
    chunks = chunks_of(features, bags, ProbitCounts(evidence, pieces=PIECES))
    parts: list[Inferred] = []
    for column in range(evidence.labels.shape[1]):
        state = BagPropagation(chunks.through(PiecesOfColumn(column)), features.n_columns, features.device, seed)
        ceiling = _ceiling(features, evidence)[[column]]
        found = _settled_sites(state, limits, ceiling)
        parts.append(_by_curves(state, found, limits, ceiling) if curved and found.trace.converged else found)
        if parts[-1].trace.interrupted:
            break
    return _side_by_side(parts, evidence.labels.shape[1])


def _settled_sites(state: BagPropagation, limits: Limits, ceiling: torch.Tensor) -> Inferred:
    trace = iterate(state.step, name="log evidence", **limits.of("bag-ep"))
    if not trace.interrupted:
        state.finish()
        _judge(trace, state.plausible(ceiling), "sites", limits.nearly)
    return Inferred(state.posterior(), trace, state.log_evidence)


def _by_curves(state: BagPropagation, lines: Inferred, limits: Limits, ceiling: torch.Tensor) -> Inferred:
    """Sites that match moments, from where lines have settled; the answer of lines where these do not settle.

    Where they are right their log evidence is a little higher: a line says more about v than the label does. It is far
    lower where v is so uncertain that a few draws of it do not show how probable the labels are.
    """
    state.look_by(turn_step, curve_step)
    try:
        found = _settled_sites(state, limits, ceiling)
        lost = float(lines.log_evidence.sum() - found.log_evidence.sum())
        if lost > _LOST and not found.trace.interrupted:
            raise NumericalError(f"their log evidence is {lost:.0f} nats lower than before")
    except NumericalError as error:
        warn_user(
            f"sites that match the moments of labels did not succeed ({error}); the answer is that of lines instead, "
            "and ranges may be too narrow where most labels are certain.",
            ConvergenceWarning,
        )
        return lines
    return found._replace(trace=one_after_the_other([lines.trace, found.trace]))


def _side_by_side(parts: list[Inferred], n_labels: int) -> Inferred:
    """All label columns; those that an interruption left out keep the prior."""
    posteriors = [part.posterior for part in parts]
    prior = posteriors[0]
    while len(posteriors) < n_labels:
        eye = torch.eye(prior.factors.shape[1], dtype=prior.factors.dtype, device=prior.factors.device)
        posteriors.append(GaussianPosterior(torch.zeros_like(prior.mean), eye[None], prior.factor_of, prior.link))
    trace = one_after_the_other([part.trace for part in parts])
    log_evidence = torch.cat([part.log_evidence for part in parts])
    return Inferred(joined_posterior(posteriors), trace, log_evidence)


def by_mean_field(features: Features, bags: Bags, evidence: CountEvidence, limits: Limits) -> Inferred:
    """The mean field, f integrated out beforehand; warns where its bound has not settled."""
    observed = torch.as_tensor(evidence.observed(), device=features.device)
    state = MeanField(chunks_of(features, bags, ProbitCounts(evidence), integrated=True), observed)
    return climbed_bound(state, limits)


def climbed_bound(state: MeanField, limits: Limits) -> Inferred:
    """The mean field where its bound is highest; warns where that has not settled."""
    trace = iterate(state.lbfgs_step, name="bound", **limits.of("vi", state.reachable))
    if not trace.converged and not trace.interrupted:
        warn_user(
            f"the bound had not settled after {len(trace)} iterations (gradient {trace.residuals[-1]:.1e}).",
            ConvergenceWarning,
        )
    return Inferred(state.posterior(), trace, state.bound())


def _judge(trace: Trace, plausible: bool, what: str, nearly: float = 0.0) -> None:
    """An error where the answer is none; a warning where the last sweep moved it by no more than ``nearly``."""
    moved = f"its {what} still moved by {trace.residuals[-1]:.1e} after {len(trace)} sweeps"
    if not trace.converged and trace.residuals[-1] > nearly:
        raise NumericalError(moved)
    if not plausible:
        raise NumericalError("it claims a log evidence above the highest that there can be")
    if not trace.converged:
        warn_user(f"expectation propagation has nearly settled: {moved}.", ConvergenceWarning)


def _ceiling(features: Features, evidence: CountEvidence) -> torch.Tensor:
    return torch.as_tensor(evidence.ceiling(), device=features.device)
