"""How many instances of a bag are positive: its predictive law, chances of ranges, fractions (theory section 1.6)."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.gp.features import Design
from bagwise.gp.latent import LatentBags
from bagwise.gp.posterior import Posterior
from bagwise.numerics.counting.law import summed_count_laws
from bagwise.predict.points import Fitted
from bagwise.predict.totals import chance_up_to, is_small, quantiles

_SAME_CHANCE = 1e-10  # chances closer than this count as equal, so that rounding never moves a quantile

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class FractionSummary(NamedTuple):
    """Of the fraction of positives in every bag, each (B, K)."""

    mean: Array
    lower: Array
    upper: Array


def count_distribution(fitted: Fitted, bags: Bags) -> Array:
    """P(k positives in the bag) for k = 0 … n_b, flat with n_b + 1 entries per bag: (Σ (n_b + 1), K).

    The average over draws of v of the Poisson-binomial law given v, so the dependence of the instances through v is
    in it. The draws are those of ``bag_probability``; a bag's law depends neither on its company nor on any order.
    """
    return np.concatenate([law for _, law in _laws(fitted, bags)])


def count_probability(fitted: Fitted, bags: Bags, lo: Any, hi: Any) -> Array:
    """P(lo <= number of positives <= hi), (B, K).

    ``lo`` and ``hi`` are whole numbers: one for all bags, or one per bag; ``hi=None`` sets no upper limit. One number
    for all is a question to bags of any size, and counts that a bag cannot reach have probability 0. A number given
    for one bag must not exceed the size of that bag.
    """
    lowest, highest = check_count_range(lo, hi, bags)
    if bags.weight is not None:
        return _by_size(bags, lambda some, rows: _total_probability(fitted, rows, lowest[some], highest[some]))
    return _exact_probability(fitted, bags, lowest, highest)


def _exact_probability(fitted: Fitted, bags: Bags, lowest: Ints, highest: Ints) -> Array:
    chance = []
    for part, law in _laws(fitted, bags):
        chance.append(chance_of_range(law, bags.sizes[part], lowest[part], highest[part]))
    return np.concatenate(chance)


def chance_of_range(law: Array, sizes: Ints, lowest: Ints, highest: Ints) -> Array:
    """P(lowest <= k <= highest) of bags with the given laws, (b, K)."""
    bag, count = _owners_and_counts(sizes)
    wanted = (lowest[bag] <= count) & (count <= highest[bag])
    found: Array = np.add.reduceat(np.where(wanted[:, None], law, 0.0), _starts(sizes))
    return found


def fraction_summary(fitted: Fitted, bags: Bags, level: float) -> FractionSummary:
    """Expected fraction of positives in every bag, and a central interval for the fraction that is really there.

    The mean is exact: the average of the instance probabilities. The interval is that of the realised fraction k / n_b
    of this very bag, not of a rate behind it: with α = 1 - level it runs from the smallest count with P(k <= count) >=
    α/2 to the smallest with P(k <= count) >= 1 - α/2. So at most α/2 lies beyond each end, and the interval covers
    ``level`` or more; counts being whole, often more. A skewed law may have its mean outside.
    """
    tail = 0.5 * (1.0 - check_level(level))
    if bags.weight is None:
        lower, upper = _exact_interval(fitted, bags, tail)
    else:
        ends = _by_size(bags, lambda _, rows: np.stack(_total_interval(fitted, rows, tail), axis=1))
        lower, upper = ends[:, 0], ends[:, 1]
    means = [_mean_probability(fitted.posterior, design, bags[part]) for part, design in fitted.features.designs(bags)]
    return FractionSummary(np.concatenate(means), lower, upper)


def _mean_probability(posterior: Posterior, design: Design, bags: Bags) -> Array:
    """Mean probability of the individuals of every bag, (b, K)."""
    each = posterior.probability(design.phi, design.kappa).cpu().numpy()
    people = each if bags.weight is None else each * bags.weight[:, None]
    mean: Array = np.add.reduceat(people, bags.offsets[:-1]) / bags.totals[:, None]
    return mean


def _by_size(bags: Bags, answer: Callable[[NDArray[np.bool_], Bags], Array]) -> Array:
    """Answers for bags of weighted rows: small totals with a row for every individual, the others as they are."""
    small = is_small(bags)
    parts = [
        (some, bags[some].repeated() if few else bags[some])
        for few, some in ((True, small), (False, ~small))
        if some.any()
    ]
    found = [answer(some, rows) for some, rows in parts]
    whole = np.empty((len(bags), *found[0].shape[1:]))
    for (some, _), values in zip(parts, found, strict=True):
        whole[some] = values
    return whole


def _total_probability(fitted: Fitted, bags: Bags, lowest: Ints, highest: Ints) -> Array:
    if bags.weight is None:
        return _exact_probability(fitted, bags, lowest, highest)
    ends = (np.repeat(end[:, None], fitted.posterior.mean.shape[1], axis=1) for end in (highest, lowest - 1))
    upper, lower = (chance_up_to(fitted, bags, end.astype(np.float64)) for end in ends)
    upper = np.where((highest >= bags.totals)[:, None], 1.0, upper)
    return np.clip(upper - np.where((lowest <= 0)[:, None], 0.0, lower), 0.0, 1.0)


def _total_interval(fitted: Fitted, bags: Bags, tail: float) -> tuple[Array, Array]:
    if bags.weight is None:
        return _exact_interval(fitted, bags, tail)
    low, high = quantiles(fitted, bags, (tail, 1.0 - tail))
    return low / bags.totals[:, None], high / bags.totals[:, None]


def _exact_interval(fitted: Fitted, bags: Bags, tail: float) -> tuple[Array, Array]:
    intervals = [central_fractions(law, bags.sizes[part], tail) for part, law in _laws(fitted, bags)]
    lower, upper = (np.concatenate(ends) for ends in zip(*intervals, strict=True))
    return lower, upper


def check_level(level: Any) -> float:
    """The share an interval is to cover, strictly between 0 and 1."""
    number = float(level) if isinstance(level, float | np.floating) else np.nan
    if not 0.0 < number < 1.0:
        raise BagDataError(f"level={level!r}: expected a number between 0 and 1, for example 0.9.")
    return number


def check_count_range(lo: Any, hi: Any, bags: Bags) -> tuple[Ints, Ints]:
    """A range of counts for every bag, from what ``count_probability`` takes."""
    lowest, highest = _counts("lo", lo, bags), bags.totals if hi is None else _counts("hi", hi, bags)
    empty = np.flatnonzero(lowest > highest)
    if hi is not None and len(empty):
        bag = empty[0]
        raise BagDataError(
            f"bag {bags.ids[bag]!r}: the range from lo={lowest[bag]} to hi={highest[bag]} holds no count; "
            "expected lo <= hi."
        )
    return lowest, highest


def _counts(name: str, given: Any, bags: Bags) -> Ints:
    values = np.asarray(given)
    if values.dtype.kind not in "iuf" or values.shape not in ((), (len(bags),)):
        raise BagDataError(
            f"{name}: expected a whole number, or one per bag ({len(bags)}), got {_described(given, values)}."
        )
    everyone = np.broadcast_to(values, len(bags))
    wrong = np.flatnonzero(~((everyone >= 0) & (everyone < 2**62) & (everyone == np.floor(everyone))))
    if len(wrong):
        where = f"{name} of bag {bags.ids[wrong[0]]!r}" if values.ndim else name
        raise BagDataError(f"{where} is {everyone[wrong[0]]}; expected a whole number from 0 on.")
    beyond = np.flatnonzero(everyone > bags.totals)
    if values.ndim and len(beyond):
        bag = beyond[0]
        raise BagDataError(
            f"{name} of bag {bags.ids[bag]!r} is {everyone[bag]:g}, but the bag holds {bags.totals[bag]} instances; "
            "one entry per bag must not exceed the bag (a single number may)."
        )
    return everyone.astype(np.int64)


def _described(given: Any, values: NDArray[Any]) -> str:
    return repr(given) if values.ndim == 0 else f"an array of {values.dtype} of shape {values.shape}"


# ---------------------------------------------------------------- the law, part by part


def _laws(fitted: Fitted, bags: Bags) -> Iterator[tuple[slice, Array]]:
    """Runs of bags with their laws, (Σ (n_b + 1), K) each."""
    start = 0
    for latent in fitted.latent(bags):
        columns = [_mean_law(latent, column) for column in range(latent.n_labels)]
        stop = start + len(latent.bags)
        law, some = torch.stack(columns, dim=1).cpu().numpy(), fitted.rule.probability(latent).cpu().numpy()
        yield slice(start, stop), _agreeing(law, some, latent.bags.sizes)
        start = stop


def _mean_law(latent: LatentBags, column: int) -> Tensor:
    laws = [summed_count_laws(scores, latent.segments.sizes, latent.link) for _, scores in latent.scores(column)]
    return torch.stack(laws).sum(0) / latent.points.weights.shape[2]


def _agreeing(law: Array, some: Array, sizes: Ints) -> Array:
    """Laws in which P(at least one positive) is that of the bag, which is known better than by the draws alone."""
    starts = _starts(sizes)
    first = np.zeros(len(law), dtype=bool)
    first[starts] = True
    counted = np.add.reduceat(np.where(first[:, None], 0.0, law), starts)
    factor = np.divide(some, counted, out=np.ones_like(some), where=counted > 0)
    bag, _ = _owners_and_counts(sizes)
    agreed = law * factor[bag]
    agreed[starts] = 1.0 - np.where(counted > 0, some, 0.0)
    return agreed


def _starts(sizes: Ints) -> Ints:
    """Where the law of each bag begins."""
    starts: Ints = np.cumsum(sizes + 1) - sizes - 1
    return starts


def _owners_and_counts(sizes: Ints) -> tuple[Ints, Ints]:
    """The number of the bag and the count k that each entry of the laws stands for."""
    bag = np.repeat(np.arange(len(sizes)), sizes + 1)
    return bag, np.arange(len(bag)) - _starts(sizes)[bag]


def central_fractions(law: Array, sizes: Ints, tail: float) -> tuple[Array, Array]:
    """Fractions at the lower and the upper quantile of every bag, each (b, K)."""
    starts = _starts(sizes)
    bag, _ = _owners_and_counts(sizes)
    running = np.cumsum(law, axis=0)
    before = running[starts] - law[starts]
    below = running - before[bag]  # P(k <= count), from 0 to 1 within each bag
    ends = []
    for quantile in (tail, 1.0 - tail):
        short = below < quantile - _SAME_CHANCE
        reached = np.minimum(np.add.reduceat(short, starts, dtype=np.int64), sizes[:, None])
        ends.append(reached / sizes[:, None])
    return ends[0], ends[1]
