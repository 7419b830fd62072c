"""Learning the kernel from bag evidence by a log evidence (theory sections 1, 4.1 and 4.2).

The mean-field bound charges for every instance as if it had been observed and drives the kernel to zero; EP's evidence
does not. At converged messages its total derivative in the kernel is the partial one (section 4), so one inference and
one backward pass through the features give value and gradient. Messages are kept from one kernel to the next. Where
counts are pinned down messages do not settle, and the moments of the counts judge instead.
"""

import copy
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bag_models.counts import ProbitCounts
from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Design, Features, assemble, traced_design
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference.chunks import Chunk, InMemory
from bagwise.inference.expectation_propagation import ExpectationPropagation, evidence_at_sites
from bagwise.inference.kernel_learning.by_moments import MomentEvidence
from bagwise.inference.kernel_learning.search import Block, EvidenceSearch
from bagwise.inference.loop import Trace, Watch, iterate
from bagwise.numerics.segments import Segments

LEARNING_ROWS = 3000  # instances to learn from; more bags than that add time and little else
_ITERATIONS, _MOST_ITERATIONS = 50, 200  # the first and one more for every parameter, at most the second
_SWEEPS, _TOLERANCE = 600, 1e-5
_TOLERANCE_PINNED = 1e-3  # messages about pinned counts settle slowly; the evidence is right long before they do


class TensorBlock:
    """A tensor that is learned as it is, without a prior."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor.requires_grad_()
        self.centre, self.spread = np.zeros(tensor.numel()), np.full(tensor.numel(), np.inf)

    def get(self) -> NDArray[np.float64]:
        """The current values."""
        return self._tensor.detach().cpu().double().numpy().ravel().copy()

    def set(self, vector: NDArray[np.float64]) -> None:
        """Put values in place."""
        with torch.no_grad():
            self._tensor.copy_(torch.as_tensor(vector).reshape(self._tensor.shape))

    def gradient(self) -> NDArray[np.float64]:
        """What ``backward`` left."""
        found = self._tensor.grad
        return np.zeros(self._tensor.numel()) if found is None else found.cpu().double().numpy().ravel()

    def clear(self) -> None:
        """Forget the gradient."""
        self._tensor.grad = None


class LearningSettings(NamedTuple):
    """How to search."""

    n_restarts: int
    learn_inducing: bool
    random: np.random.RandomState
    pinned: bool = False  # whether counts are pinned down


class Learned(NamedTuple):
    """Features with their new kernel, and how the search for it went; None where nothing was free."""

    features: Features
    trace: Trace | None


def learn_features(
    features: Features, bags: Bags, evidence: CountEvidence, settings: LearningSettings, watch: Watch
) -> Learned:
    """Find kernel parameters (and inducing inputs) of high evidence, on a subset of the bags where there are many."""
    kernel, inducing = copy.deepcopy(features.kernel), features.inducing.clone()
    blocks: list[Block] = [KernelParameters(kernel, inducing.shape[1])]
    if settings.learn_inducing:
        blocks.append(TensorBlock(inducing))
    free = sum(len(block.get()) for block in blocks)
    if free == 0:
        return Learned(features, None)
    chosen = _subset(bags, evidence, settings.random)
    objective = _judge(kernel, inducing, features, bags[chosen], evidence.of_bags(chosen), pinned=settings.pinned)
    trace = EvidenceSearch(blocks, objective).run(settings.n_restarts, iteration_limit(free), settings.random, watch)
    made = assemble(
        kernel,
        inducing.detach(),
        features.shift,
        features.scale,
        bias=features.bias,
        jitter=features.jitter,
        origin=f"{features.origin}, then learned" if settings.learn_inducing else features.origin,
    )
    return Learned(made, trace)


def _judge(*parts: Any, pinned: bool) -> "_Objective":
    """EP's evidence, the better judge; moments where counts are pinned down and messages do not settle at first."""
    by_messages = _ByMessages(*parts, pinned=pinned)
    if not pinned:
        return by_messages
    try:
        by_messages()
    except NumericalError:
        return _ByMoments(*parts)
    return by_messages


class _Objective(ABC):
    """A log evidence as a differentiable function of the kernel it was given."""

    def __init__(self, kernel: Any, inducing: Tensor, features: Features, bags: Bags, evidence: CountEvidence) -> None:
        self._kernel, self._inducing, self._features = kernel, inducing, features
        self._x = features.standardised(bags.X)
        self._segments = Segments(torch.from_numpy(bags.offsets.copy()).to(features.device))
        self._evidence = ProbitCounts(evidence).chunk(slice(0, len(bags)), features.dtype, features.device)
        self._ceiling = torch.as_tensor(evidence.ceiling(), device=features.device)

    def __call__(self) -> Tensor:
        return self._log_evidence(self._design())

    @abstractmethod
    def _log_evidence(self, design: Design) -> Tensor:
        """The log evidence at some features."""

    def _design(self) -> Design:
        return traced_design(
            self._kernel,
            self._inducing,
            self._x,
            self._segments,
            bias=self._features.bias,
            jitter=self._features.jitter,
        )


class _ByMoments(_Objective):
    """The evidence (4.7) of pinned counts."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._log_evidence_of = MomentEvidence(self._evidence, self._segments)

    def _log_evidence(self, design: Design) -> Tensor:
        return self._log_evidence_of(design)


class _ByMessages(_Objective):
    """The evidence (4.4) of expectation propagation."""

    def __init__(self, *parts: Any, pinned: bool = False) -> None:
        super().__init__(*parts)
        self._tolerance = _TOLERANCE_PINNED if pinned else _TOLERANCE
        self._remembered: list[Any] = [None]

    def _log_evidence(self, design: Design) -> Tensor:
        fixed = Design(design.phi.detach(), design.kappa.detach(), self._segments)
        with torch.no_grad():
            sites = self._converged(Chunk(fixed, self._evidence))
        return evidence_at_sites(Chunk(design, self._evidence), sites.tau, sites.nu).sum()

    def _converged(self, chunk: Chunk) -> Any:
        """Messages at the current kernel, from the last ones or, should that fail, from nothing."""
        for start in (self._remembered, [None]) if self._remembered[0] is not None else ([None],):
            chunks = InMemory([chunk], start)
            if self._settle(chunks, chunk, resume=start[0] is not None):
                self._remembered = chunks.remembered
                return chunks.remembered[0]
        raise NumericalError("expectation propagation does not settle at this kernel.")

    def _settle(self, chunks: InMemory, chunk: Chunk, *, resume: bool) -> bool:
        try:
            engine = ExpectationPropagation(
                chunks, chunk.design.phi.shape[1], chunk.evidence.labels.shape[1], chunk.design.phi.device
            )
            if resume:
                engine.resume()
            trace = iterate(engine.step, name="log evidence", max_iter=_SWEEPS, tol=self._tolerance)
        except NumericalError:
            return False
        if trace.interrupted:
            raise KeyboardInterrupt
        return trace.converged and engine.plausible(self._ceiling)


def iteration_limit(free: int) -> int:
    """Iterations that a search over so many parameters may take."""
    return min(_ITERATIONS + free, _MOST_ITERATIONS)


def _subset(bags: Bags, evidence: CountEvidence, random: np.random.RandomState) -> NDArray[np.int64]:
    speaks: NDArray[np.bool_] = np.asarray(evidence.observed().any(axis=1))
    return learning_subset(bags, speaks, LEARNING_ROWS, random)


def learning_subset(
    bags: Bags, speaks: NDArray[np.bool_], rows: int, random: np.random.RandomState
) -> NDArray[np.int64]:
    """Bags that say something, where they hold more than so many instances a random choice of bags that fit."""
    speaking = np.flatnonzero(speaks)
    if bags.sizes[speaking].sum() <= rows:
        return speaking
    order, room, chosen = random.permutation(speaking), rows, []
    for bag, size in zip(order, bags.sizes[order], strict=True):
        if size <= room:
            chosen.append(bag)
            room -= size
    return np.sort(np.array(chosen or order[:1], dtype=np.int64))
