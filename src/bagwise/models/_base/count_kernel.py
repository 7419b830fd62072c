"""How the kernel of ``BagGP`` is learned from labels, fractions and counts: sizes, its kind, its parameters."""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from bagwise.bags import Bags
from bagwise.evidence.reading import CountInput
from bagwise.gp.features import Features
from bagwise.inference.engines import engine_for
from bagwise.inference.kernel_learning.learn import Learned, learn_features
from bagwise.inference.kernel_learning.settings import LearningSettings
from bagwise.inference.kernel_learning.size_effect import LEAST_GAIN, gain_of_sizes, may_have_sizes
from bagwise.inference.loop import Trace, Watch
from bagwise.models._base.by_left_out_bags import prefer_second
from bagwise.models._base.first_features import (
    asks_for_sizes,
    features_beside,
    first_features,
    kinds_in_question,
    wants_sizes,
    with_sizes,
)
from bagwise.models._base.flat_evidence import is_simpler, stays, too_little, unless_flat

CLOSE = 3.0  # nats between two kernels within which their sum is tried; it has more to learn and must gain as many
_SUM = "rbf+linear"


def learned_features(model: Any, bags: Bags, counts: CountInput) -> Learned:
    """Whether there is a column of sizes, the kind of kernel and its parameters, in that order.

    Where numbers of positives are stated exactly the log evidence of kinds is Laplace's, and can be off by more than
    they differ. So bags that were left out may ask for the usual kind instead.
    """
    kinds = kinds_in_question(model, bags)
    first, sized, plain = first_features(model, bags, kinds[0]), wants_sizes(model), None
    if asks_for_sizes(model) and model.learn and may_have_sizes(bags, counts.evidence):
        plain = _learned(model, first, bags, counts, choosing=len(kinds) > 1)
        sized = gain_of_sizes(plain.features, bags, counts.evidence, model.seed_) > LEAST_GAIN
        if not sized and len(kinds) == 1:
            return plain
    begin = None if plain is None else plain.features
    if len(kinds) == 1:
        return _learned(model, with_sizes(first, bags, sized), bags, counts, begin)

    @cache
    def of_kind(kind: str) -> Features:
        return first if kind == kinds[0] else features_beside(first, model, bags, kind, rows_of_first=kind == _SUM)

    def reached(kind: str) -> tuple[float, Learned]:
        own, learned = with_sizes(of_kind(kind), bags, sized), plain if kind == kinds[0] and not sized else None
        if learned is None:
            learned = _learned(model, own, bags, counts, begin if kind == kinds[0] else None, choosing=True)
        least = _too_little(own, None, counts)
        if kind == kinds[0]:
            learned = unless_flat(own, learned, least)
        return _worth(learned, least), learned

    tried = {kind: reached(kind) for kind in kinds}
    kind, best = _best_kind(tried, reached)
    usual = tried[kinds[0]][1]
    asks = counts.tight and kind != kinds[0]
    if asks and prefer_second(model, best.features, usual.features, bags, counts.evidence):
        kind, best = kinds[0], usual
    return _learned(model, with_sizes(of_kind(kind), bags, sized), bags, counts, after=best)


def _best_kind(
    tried: dict[str, tuple[float, Learned]], reached: Callable[[str], tuple[float, Learned]]
) -> tuple[str, Learned]:
    """The kind that is worth most by the log evidence (with log prior) of the first rows, and what was learned there.

    Where two kinds are close their sum is tried, too.
    """
    values = [value for value, _ in tried.values()]
    if max(values) - min(values) < CLOSE:
        value, learned = reached(_SUM)
        tried[_SUM] = value - CLOSE, learned
    best = max(tried, key=lambda kind: tried[kind][0])
    return best, tried[best][1]


def _too_little(features: Features, begin: Features | None, counts: CountInput) -> float | None:
    """Nats that leave the first kernel where it is; None where numbers of positives are not stated exactly."""
    if not counts.tight:
        return None
    return too_little(features, begin, int(counts.evidence.observed().any(axis=1).sum()))


def _worth(learned: Learned, least: float | None) -> float:
    """By which kinds of kernel are compared: the log evidence that a search reached, less what it has to gain.

    A first kernel that stays has nothing to gain. That may be the one of the usual kind alone: another kind that is
    taken has paid for what it has learned.
    """
    highest = highest_reached(learned.trace)
    if least is None or learned.trace is None:
        return highest
    return float(learned.trace.values[0]) if stays(learned.trace) else highest - least


def highest_reached(trace: Trace | None) -> float:
    """The log evidence that a search among kinds of kernels reached; an interrupted one leaves no model."""
    if trace is not None and trace.interrupted:
        raise KeyboardInterrupt("fit was interrupted while choosing the kernel; there is no model yet.")
    return float(trace.values.max()) if trace is not None and len(trace) else -math.inf


def _learned(
    model: Any,
    features: Features,
    bags: Bags,
    counts: CountInput,
    begin: Features | None = None,
    *,
    choosing: bool = False,
    after: Learned | None = None,
) -> Learned:
    """Features with a learned kernel, judged by the engine that suits the bags; kinds of kernel by bags alone.

    It begins at the kernel of ``begin``, or goes on ``after`` a search among kinds of kernel.
    Where messages can judge no kernel at all, one site per bag does. Where numbers of positives are stated exactly and
    hardly tell one kernel from another, the first one stays unless the other is simpler, or bags left out prefer it.
    """
    if not model.learn or not counts.evidence.observed().any():
        return Learned(features, None)
    only_labels = counts.evidence.only_labels()
    by_bags = only_labels and (choosing or _has_large_bags(model, bags, counts))
    begin = begin if after is None else after.features
    least = _too_little(features, begin, counts)
    found_flat = after is not None and after.trace is not None and stays(after.trace)
    by_moments = counts.tight and (choosing or found_flat)
    how = SearchFor(begin, after if by_bags else None, by_bags, by_moments, choosing, least)
    learned = _search(model, features, bags, counts, how)
    if only_labels and not by_bags and learned.trace is not None and _found_nothing(learned.trace):
        learned = _search(model, features, bags, counts, how._replace(by_bags=True, after=after))
    if choosing:
        return learned
    simpler = partial(is_simpler, features, bags=bags)
    preferred = partial(prefer_second, model, features, bags=bags, evidence=counts.evidence)
    return unless_flat(features, learned, least, simpler, preferred)


def _has_large_bags(model: Any, bags: Bags, counts: CountInput) -> bool:
    return model.inference == "bag-ep" or engine_for(bags, counts.evidence, counts.tight) == "bag-ep"


def _found_nothing(trace: Trace) -> bool:
    return not trace.interrupted and not bool(np.isfinite(trace.values).any())


class SearchFor(NamedTuple):
    """How to search for a kernel."""

    begin: Features | None  # where, if not at the first kernel
    after: Learned | None  # what the same judge has learned from the first rows
    by_bags: bool
    by_moments: bool  # whatever else might judge: of kinds of kernel, and of other starts where these are all alike
    choosing: bool  # among kinds of kernels
    too_little: float | None  # nats that leave the first kernel where it is


def _search(model: Any, features: Features, bags: Bags, counts: CountInput, how: SearchFor) -> Learned:
    settings = LearningSettings(
        model.n_restarts,
        model.learn_inducing,
        np.random.RandomState(model.seed_),
        by_bags=how.by_bags,
        pinned=counts.tight,
        by_moments=how.by_moments,
        rows=model.learn_rows,
        one_stage=counts.tight or how.choosing or counts.evidence.has_light_bags(),
        too_little=None if how.choosing else how.too_little,
    )
    watch = Watch("learning the kernel", model.verbose)
    return learn_features(features, bags, counts.evidence, settings, watch, how.begin, how.after)
