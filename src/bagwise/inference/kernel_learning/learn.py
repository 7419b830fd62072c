"""Learning a kernel from bags: which rows, and when it is enough."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bags import Bags, ragged_ranges
from bagwise.evidence.classes import ClassEvidence
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Features, reassembled
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference.kernel_learning.by_bags import ROUGH, ByBags
from bagwise.inference.kernel_learning.judges import LearningSet, judge_of
from bagwise.inference.kernel_learning.search import (
    NOWHERE,
    Block,
    Elsewhere,
    EvidenceSearch,
    Vector,
    as_matrix,
    iteration_limit,
    joined_traces,
)
from bagwise.inference.kernel_learning.settings import AnyEvidence, LearningSettings
from bagwise.inference.loop import Trace, Watch
from bagwise.inference.rows_at_hand import gather_rows

STAGES = (3_000, 30_000)  # rows of the first searches; the last one is of as many as matter
LATER_STAGES = (300_000, 3_000_000, 30_000_000)  # between them, where at least three times as many are to come
LEAST_BAGS = 60  # however large they are …
LEAST_OF_A_CLASS = 12  # … and so many for every class
MOST_OF_A_BAG = 500  # rows of a single bag before the last search
_STAYS = 0.05  # nats that more rows promise for another kernel, below which it stays …
_STAYS_OF_MANY = 0.5  # … and where more rows are judged than in the first stages
_NEGLIGIBLE = 0.003  # nats of log-likelihood of a bag: two models so far apart are told apart by some 2,700 new bags
_FEW_PARAMETERS = 200  # whose curvature is a matrix

Ints = NDArray[np.int64]


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


class Stage(NamedTuple):
    """What a search has found out that one of more rows can use."""

    n_bags: int
    inverse_curvature: Callable[[Vector], Vector]


class Learned(NamedTuple):
    """Features with their new kernel, and how the search for it went; None where nothing was free."""

    features: Features
    trace: Trace | None
    last: Stage | None = None


def learn_features(
    features: Features,
    bags: Bags,
    evidence: AnyEvidence,
    settings: LearningSettings,
    watch: Watch,
    begin: Features | None = None,
    after: Learned | None = None,
) -> Learned:
    """Find kernel parameters (and inducing inputs) of high evidence: from few rows first, then from more.

    A search among more rows begins where the last one ended, and only where these rows ask for another kernel; where it
    sees more bags, and not very many rows, it looks at the usual starts as well. The first one begins at the kernel of
    ``begin``, where there is one of the same kind; priors are those of ``features``. ``after`` is what the same judge
    has learned from the first rows: where that settled it goes on from there.
    """
    begin = begin if after is None else after.features
    kernel = copy.deepcopy(features.kernel)
    inducing = (features if after is None else after.features).inducing.clone()
    parameters = KernelParameters(kernel, inducing.shape[1], features.takes_rows_as_they_come)
    starts = parameters.starts()
    blocks: list[Block] = [parameters]
    if settings.learn_inducing:
        blocks.append(TensorBlock(inducing))
    if begin is not None:
        parameters.set(KernelParameters(copy.deepcopy(begin.kernel), inducing.shape[1]).get())
    free = sum(len(block.get()) for block in blocks)
    if free == 0:
        return Learned(features, None)
    _gather(bags, evidence, settings, free)
    stages = _stages(bags, evidence, settings, free)
    traces, last = list[Trace](), None
    if after is not None and after.trace is not None and after.trace.converged:
        traces, last = [after.trace], after.last
        next(stages)
    for some, stated, share in stages:
        judge = judge_of(LearningSet(features, kernel, inducing, some, stated, share), settings)
        search = EvidenceSearch(blocks, judge, ROUGH if settings.by_bags else 0.0)
        if isinstance(judge, ByBags) and (begin is None if last is None else _tells_more(some, last)):
            found = parameters.get()
            start = _best_start(parameters, judge, starts if last is None else [found, *starts])
            parameters.set(start)
            last = last if start is found else None
        trace = _searched(search, last, some, settings, watch, _elsewhere(parameters, blocks[1:], settings))
        if trace is None:
            break
        traces.append(trace)
        last = Stage(len(some), search.inverse_curvature)
        if trace.interrupted or not trace.converged:
            break
    origin = f"{features.origin}, then learned" if settings.learn_inducing else None
    made = reassembled(features, kernel=kernel, inducing=inducing.detach(), origin=origin)
    return Learned(made, joined_traces(traces), last)


def _tells_more(now: Bags, last: Stage) -> bool:
    """Whether there are more bags than in the last search, and not so many rows that a look at them is dear."""
    return len(now) > last.n_bags and now.n_instances <= STAGES[-1]


def _best_start(parameters: KernelParameters, judge: ByBags, starts: Sequence[Vector]) -> Vector:
    """Where to begin: large bags teach nothing at many kernels, and the evidence is flat around these.

    To few large bags all kernels may be alike. So the second search, too, looks at all of them, beside what the first
    one has found.
    """
    values: list[tuple[float, Vector]] = []
    for start in starts:
        parameters.set(start)
        away = (start - parameters.centre) / parameters.spread
        with suppress(NumericalError):
            values.append((judge.value() - 0.5 * float(away @ away), start))
    return max(values, key=lambda pair: pair[0])[1] if values else starts[0]


def _elsewhere(kernel: KernelParameters, others: Sequence[Block], settings: LearningSettings) -> Elsewhere:
    """Other starts for the kernel; all else begins where it is."""
    if settings.too_little is None:
        return NOWHERE
    here = [block.get() for block in others]
    return Elsewhere([np.concatenate([start, *here]) for start in kernel.other_starts()], settings.too_little)


def _searched(
    search: EvidenceSearch,
    last: Stage | None,
    now: Bags,
    settings: LearningSettings,
    watch: Watch,
    elsewhere: Elsewhere,
) -> Trace | None:
    """The course of a search; None where these bags promise too little to leave the kernel that fewer have found.

    More rows are judged a few times only: the curvature that fewer have shown, as many times larger as there are more
    bags, says where to look.
    """
    limit = iteration_limit(search.free)
    if last is None:
        return search.run(settings.n_restarts, limit, settings.random, watch, elsewhere)
    share = last.n_bags / len(now)
    with suppress(NumericalError):
        if search.free <= _FEW_PARAMETERS:
            curvature = share * as_matrix(last.inverse_curvature, search.free)
            trace, steps = search.refine(curvature, _enough(now), limit, watch)
            return trace if steps or trace.interrupted else None
        if search.expected_gain(last.inverse_curvature, share) < _enough(now):
            return None
    return search.run(1, limit, settings.random, watch)


def _enough(now: Bags) -> float:
    """Nats that another kernel must promise.

    A parameter that is a third of the standard deviation of its posterior away from the best value costs a twentieth of
    a nat, and one that is a whole standard deviation away half a nat. Of very many rows that deviation is small, and
    what counts is how much a single bag gains.
    """
    return _STAYS if now.n_instances <= STAGES[-1] else max(_STAYS_OF_MANY, _NEGLIGIBLE * len(now))


# ---------------------------------------------------------------- rows


class _Stage(NamedTuple):
    """Bags to learn from, and whether a part of each may stand for it."""

    chosen: Ints
    may_be_thinned: bool


class _StageBags(NamedTuple):
    """The bags of a stage, what they state, and their share of the rows that could be learned from."""

    bags: Bags
    evidence: AnyEvidence
    share: float


def _stages(bags: Bags, evidence: AnyEvidence, settings: LearningSettings, free: int) -> Iterator[_StageBags]:
    """Nested sets of bags that say something, from few rows to as many as matter for so many free parameters."""
    most = _most_rows(bags, evidence, settings)
    for stage in _planned(bags, evidence, settings, free):
        some = bags[stage.chosen], evidence.of_bags(stage.chosen)
        share = min(some[0].n_instances / most, 1.0)
        yield _StageBags(*(thinned(*some, settings) if stage.may_be_thinned else some), share)


def _stating(evidence: AnyEvidence) -> Ints:
    return np.flatnonzero(np.asarray(evidence.observed().any(axis=1)))


def _most_rows(bags: Bags, evidence: AnyEvidence, settings: LearningSettings) -> int:
    total = int(bags.sizes[_stating(evidence)].sum())
    return total if settings.rows is None else min(settings.rows, total)


def _planned(bags: Bags, evidence: AnyEvidence, settings: LearningSettings, free: int) -> Iterator[_Stage]:
    """Which bags the searches are of: no more of them than matter.

    Parameters that m bags have told deviate from what B bags would tell by as much as costs p/2 (1/m − 1/B) nats for
    every bag on average, p of them being free. Where that is negligible more bags need not be asked.
    """
    last: _Stage | None = None
    for stage in _possible(bags, evidence, settings):
        many = bags.sizes[stage.chosen].sum() > STAGES[-1]
        if many and last is not None and _sees_all(bags, evidence, settings, last):
            costs = 0.5 * free * (1.0 / len(last.chosen) - 1.0 / len(stage.chosen))
            if costs < _NEGLIGIBLE:
                return
        yield stage
        last = stage


def _sees_all(bags: Bags, evidence: AnyEvidence, settings: LearningSettings, stage: _Stage) -> bool:
    """Whether all rows of its bags take part."""
    thins = stage.may_be_thinned and may_be_thinned(evidence, settings)
    return not thins or bags.sizes[stage.chosen].max() <= MOST_OF_A_BAG


def _possible(bags: Bags, evidence: AnyEvidence, settings: LearningSettings) -> Iterator[_Stage]:
    """From few rows to all of them (or to as many as are allowed).

    Pinned counts are learned from the first of them alone (``one_stage``): their judge sees all rows at once.
    """
    stating, most = _stating(evidence), _most_rows(bags, evidence, settings)
    order = settings.random.permutation(stating)
    kept = np.minimum(bags.sizes, MOST_OF_A_BAG) if may_be_thinned(evidence, settings) else bags.sizes
    allowed = len(order) if settings.rows is None else bags_within(kept[order], settings.rows, 1)
    before = 0
    for limit in _row_limits(most)[: 1 if settings.one_stage else None]:
        if limit == bags.sizes[stating].sum():
            yield _Stage(stating, may_be_thinned=False)
            return
        later = limit in LATER_STAGES and limit < most
        count = min(bags_within((bags.sizes if later else kept)[order], limit, _least_bags(evidence)), allowed)
        if count > before:
            yield _Stage(np.sort(order[:count]), may_be_thinned=not later)
        if count == len(stating) and bags.sizes[stating].max() <= MOST_OF_A_BAG:
            return
        before = count


def _gather(bags: Bags, evidence: AnyEvidence, settings: LearningSettings, free: int) -> None:
    """Read the rows of all searches at once, as far as there is room: single bags lie all over a file."""
    if bags.stays_in_file:
        searches = _planned(bags, evidence, settings._replace(random=copy.deepcopy(settings.random)), free)
        gather_rows(bags, reversed([search.chosen for search in searches]))


def _row_limits(most: int) -> list[int]:
    """How many rows the searches are of, ``most`` in the last."""
    later = [rows for rows in LATER_STAGES if 3 * rows <= most]
    return [*(rows for rows in STAGES if rows < most), *later, most]


def _least_bags(evidence: AnyEvidence) -> int:
    n_classes = evidence.table.shape[1] - 1 if isinstance(evidence, ClassEvidence) else 0
    return max(LEAST_BAGS, LEAST_OF_A_CLASS * n_classes)


def some_bags(bags: Bags, states: NDArray[np.bool_], rows: int, random: np.random.RandomState) -> Ints:
    """Bags that say something; where they hold more than so many rows a random choice, whatever their sizes."""
    order = random.permutation(np.flatnonzero(states))
    if bags.sizes[order].sum() <= rows:
        return np.sort(order)
    return np.sort(order[: bags_within(bags.sizes[order], rows)])


def bags_within(sizes: Ints, rows: int, least: int = LEAST_BAGS) -> int:
    """How many of the bags, in their order, make no more than so many rows; but at least ``least``."""
    enough = int(np.searchsorted(np.cumsum(sizes), rows, side="right"))
    return min(max(enough, least), len(sizes))


def may_be_thinned(evidence: AnyEvidence, settings: LearningSettings) -> TypeGuard[CountEvidence]:
    """Whether a part of a bag may stand for it: where labels are all that bags state."""
    return settings.by_bags and isinstance(evidence, CountEvidence) and evidence.only_labels()


def thinned(bags: Bags, evidence: AnyEvidence, settings: LearningSettings) -> tuple[Bags, AnyEvidence]:
    """The same bags with at most ``MOST_OF_A_BAG`` random rows of each, where that may be."""
    if bags.sizes.max() <= MOST_OF_A_BAG or not may_be_thinned(evidence, settings):
        return bags, evidence
    keys = settings.random.random_sample(bags.n_instances)
    order = np.lexsort((keys, bags.index))
    kept = np.minimum(bags.sizes, MOST_OF_A_BAG)
    rows = np.sort(order[ragged_ranges(bags.offsets[:-1], kept)])
    fewer = Bags(bags.X[rows], bags.index[rows], feature_names=bags.feature_names)
    return fewer, CountEvidence(evidence.labels, kept, label_noise=evidence.label_noise, weight=evidence.weight)
