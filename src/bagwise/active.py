"""Which bag, or which single instance, to label next (theory section 1.7)."""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.special
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from bagwise import _validation as check
from bagwise.bag_models.rules import OneOfTheClasses
from bagwise.bags import Bags, as_bags
from bagwise.exceptions import BagDataError
from bagwise.gp.posterior import Posterior
from bagwise.metrics import positive_proba
from bagwise.pipeline import without_steps
from bagwise.predict.bag_classes import class_information
from bagwise.predict.points import Fitted

QUERIES = ("bags", "instances")
STRATEGIES = ("bald", "entropy", "random")
# Joint outcomes are enumerated within a batch of this size. It is as many as 512 draws can tell apart: what the sixth
# of labels about independent things adds is found .3 % too small at most, what a ninth would add 5 %.
LARGEST_EXACT_BATCH = 6
_DECIMALS = 10  # utilities that agree so far are ties
_SHORTLIST = 4096  # queries × label columns whose draws are held together, …
_LEAST_LISTED = 64  # … but at least so many queries

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Suggestions:
    """What to label next, the best first.

    ``gains`` belong to the chosen ones: of each, what it adds to those before it (nats for "bald" and "entropy").
    ``utilities`` belong to every query, each judged by itself; NaN for an instance whose label is known already.
    """

    what: str
    strategy: str
    indices: Ints  # numbers of bags, or of rows of bags.X
    ids: tuple[str, ...]  # the bag of each
    rows: Ints | None  # of instances: their rows in the original table
    gains: Floats
    utilities: Floats
    meta: pd.DataFrame | None = None  # of instances: what describes them

    def __len__(self) -> int:
        return len(self.indices)

    def to_frame(self) -> pd.DataFrame:
        """One row per suggestion: its bag, of an instance the row of the original table, and what it adds.

        Instances with metadata are described by it as well.
        """
        place = {} if self.rows is None else {"row": self.rows}
        whole = {"bag": list(self.ids)} | place | {"utility": self.gains}
        names = [] if self.meta is None else [name for name in self.meta if name not in whole]
        table = pd.DataFrame(whole)
        return table if self.meta is None else pd.concat([table, self.meta[names]], axis=1)


def suggest(
    model: Any,
    bags: Any,
    *,
    what: str = "bags",
    n: int = 1,
    strategy: str = "bald",
    random_state: Any = None,
) -> Suggestions:
    """The bags (or instances) whose labels would teach a fitted model most.

    Parameters
    ----------
    model : any fitted model of this library with a Gaussian or sampled posterior, or a ``BagPipeline`` with one
    bags : the unlabelled bags to choose from
    what : "bags", or "instances" for the label of a single row; rows with a known label (``bags.known``) are left out
    n : how many
    strategy : "bald": the information that the label carries about the model, which ignores bags that are uncertain by
        nature; "entropy": the uncertainty of the label; "random": for comparison
    random_state : decides between equally good queries (without it the first in order wins), and is all that
        "random" goes by

    With several label columns the utilities are summed over them, as all are learned when a bag is labelled.

    A batch of "bald" is chosen one after the other by what each adds to those before it, so copies of one bag are not
    all chosen. The joint outcomes of the batch are enumerated exactly up to n = 6 (``LARGEST_EXACT_BATCH``). In larger
    batches each query is held against every group of five chosen before it, and the smallest of the informations
    that these leave over is taken, which is an upper bound of what it really adds. "entropy" and "random" have no
    notion of a batch: the n best are chosen. So are they where the model is one of classes: the information is then
    that about the class, all classes being possible.
    """
    check.check_option("what", what, QUERIES)
    check.check_option("strategy", strategy, STRATEGIES)
    wanted = check.check_count("n", n)
    model, bags = without_steps(model, bags)
    given = _checked_bags(model, bags)
    queries = _queries(given, what, wanted)
    pool = _ClassPool(model, given, what) if _has_columns(model) else _Pool(model, given, what)
    utilities = _utilities(pool, strategy, random_state)
    ranked = _ranked(utilities, queries, random_state)
    if strategy == "bald" and isinstance(pool, _Pool):
        indices, gains = _informative_batch(pool, utilities, ranked, wanted)
    else:
        indices, gains = ranked[:wanted], utilities[ranked[:wanted]]
    utilities = np.where(np.isin(np.arange(len(utilities)), queries), utilities, np.nan)
    return _suggestions(given, what, strategy, indices, gains, utilities)


def _checked_bags(model: Any, bags: Any) -> Bags:
    check_is_fitted(model)
    if not model.abilities.latent:
        raise BagDataError(
            f"suggest asks how sure a model is of itself; {type(model).__name__} is a baseline without a posterior. "
            "Use a model such as BagGP."
        )
    if model.of_classes and not _has_columns(model):
        raise BagDataError(
            f"suggest asks what a class would teach, which {type(model).__name__} cannot tell. Use BagGP, or take the "
            "bags whose largest probability in `bagwise predict` (predict_proba) is smallest: of these it is unsure."
        )
    if not isinstance(model.posterior_, Posterior):
        raise BagDataError(f"suggest needs a Gaussian or sampled posterior; {type(model).__name__} has none.")
    checked: Bags = model._check_bags(bags)
    return checked


def _has_columns(model: Any) -> bool:
    """Whether a model of classes answers given v."""
    return isinstance(model.rule_, OneOfTheClasses)


def _queries(bags: Bags, what: str, wanted: int) -> Ints:
    count = len(bags) if what == "bags" else bags.n_instances
    numbers = np.arange(count)
    if what == "instances" and bags.known is not None:
        numbers = numbers[np.isnan(bags.known)]
    if wanted > len(numbers):
        raise BagDataError(f"n={wanted}: there are only {len(numbers)} {what} to choose from.")
    return numbers


def _utilities(pool: "_Pool | _ClassPool", strategy: str, random_state: Any) -> Floats:
    if strategy == "random":
        chances: Floats = check.random_stream(random_state).random_sample(len(pool.bags))
        return chances
    return pool.information() if strategy == "bald" else pool.entropy()


def _ranked(utilities: Floats, queries: Ints, random_state: Any) -> Ints:
    """The queries, the most useful first; ties in their order, or as the random state has it."""
    shuffled = queries if random_state is None else check.random_stream(random_state).permutation(queries)
    ranked: Ints = shuffled[np.argsort(-utilities[shuffled].round(_DECIMALS), kind="stable")]
    return ranked


def _suggestions(bags: Bags, what: str, strategy: str, indices: Ints, gains: Floats, utilities: Floats) -> Suggestions:
    owners, rows = (indices, None) if what == "bags" else (bags.index[indices], bags.rows[indices])
    ids = tuple(bags.ids[owner] for owner in owners)
    meta = None if rows is None or bags.meta is None else bags.meta.iloc[indices].reset_index(drop=True)
    return Suggestions(what, strategy, indices, ids, rows, gains, utilities, meta)


# ---------------------------------------------------------------- utilities of single queries


class _Outcomes(NamedTuple):
    """P(positive | v) and P(negative | v) of some queries under every draw, (c, S); the mean entropy of the two."""

    positive: Tensor
    negative: Tensor
    noise: Tensor  # (c,)


class _Pool:
    """Candidates as bags (an instance is a bag of one), seen through the draws of the model."""

    def __init__(self, model: Any, given: Bags, what: str) -> None:
        single = what == "instances"
        self.bags = as_bags(given.X) if single else given
        self.sizes: Ints = given.sizes[given.index] if single else given.sizes  # of the bags that they come from
        self._classes = model.classes_
        self._ask: Callable[[], Floats] = functools.partial(
            model.predict_instance_proba if single else model.predict_proba, given
        )
        self.fitted: Fitted = model._fitted()
        self.points = self.fitted.points()  # the same for every query
        self.step = max(_SHORTLIST // len(self.points.weights), _LEAST_LISTED)  # queries whose draws are held together

    def information(self) -> Floats:
        """(1.11), summed over label columns."""
        numbers = np.arange(len(self.bags))
        whole: Iterable[list[_Outcomes]] = (
            [self._all] if self._held_together else map(_outcomes_of, self._log_negative(numbers))
        )
        parts = [torch.stack([_information(column) for column in columns]).sum(0) for columns in whole]
        return torch.cat(parts).cpu().numpy()

    def entropy(self) -> Floats:
        """Entropy of the predicted probability, summed over label columns."""
        chance = positive_proba(self._ask(), self._classes)
        positive = torch.from_numpy(chance.reshape(len(self.bags), -1))
        return _entropy(positive, 1.0 - positive).sum(1).numpy()

    def outcomes(self, numbers: Ints) -> list[_Outcomes]:
        """What the labels of some queries may turn out to be, one entry per label column."""
        if not self._held_together:
            return self._computed(numbers)
        return [_Outcomes(*(part[numbers] for part in column)) for column in self._all]

    @property
    def _held_together(self) -> bool:
        return len(self.bags) <= self.step

    @functools.cached_property
    def _all(self) -> list[_Outcomes]:
        """The outcomes of all queries, computed once."""
        return self._computed(np.arange(len(self.bags)))

    def _computed(self, numbers: Ints) -> list[_Outcomes]:
        parts = self._log_negative(numbers)
        return _outcomes_of([torch.cat(column) for column in zip(*parts, strict=True)])

    def _log_negative(self, numbers: Ints) -> Iterator[list[Tensor]]:
        """log P(negative | v) under every draw, one (b, S) per label column, for a bounded number of bags at a time."""
        for latent in self.fitted.latent(self.bags[numbers], self.points, self.sizes[numbers]):
            yield [self.fitted.rule.log_negative(latent, column) for column in range(latent.n_labels)]


class _ClassPool:
    """The same for a model of classes: an instance is a bag of one that may have none of them."""

    def __init__(self, model: Any, given: Bags, what: str) -> None:
        single = what == "instances"
        self.bags = as_bags(given.X) if single else given
        self._ask = functools.partial(model.predict_instance_proba if single else model.predict_proba, given)
        self._fitted: Fitted = model._fitted()
        self._table = np.ones((len(self.bags), model._n_functions() + 1), dtype=bool)
        self._table[:, -1] = single or model.rule_.none

    def information(self) -> Floats:
        """(1.11) for several classes."""
        return class_information(self._fitted, self.bags, self._table)

    def entropy(self) -> Floats:
        """Entropy of the predicted classes."""
        chance: Floats = self._ask()
        return np.asarray(scipy.special.entr(chance).sum(axis=1))


def _outcomes_of(columns: list[Tensor]) -> list[_Outcomes]:
    return [_outcomes(column) for column in columns]


def _outcomes(log_negative: Tensor) -> _Outcomes:
    positive, negative = -torch.expm1(log_negative), torch.exp(log_negative)
    noise = -(torch.special.xlogy(positive, positive) + negative * log_negative).mean(1)
    return _Outcomes(positive, negative, noise)


def _entropy(*chances: Tensor) -> Tensor:
    terms = [torch.special.xlogy(chance, chance) for chance in chances]
    return -torch.stack(terms).sum(0)


# ---------------------------------------------------------------- batches
#
# The labels y_1 … y_m of a batch are independent given v. With joint outcomes c of the labels A known so far and draws
# v_s, let w_cs = P(c | v_s) / S. Then P(c, y = 1) = Σ_s w_cs p(v_s), and the information that one more label carries is
#
#   I(y; v | A) = H(y | A) − E_v H(y | v)
#               = Σ_c [P(c) log P(c) − P(c, 1) log P(c, 1) − P(c, 0) log P(c, 0)] − E_v H(p(v)).
#
# Without A this is (1.11); the gains of a batch add up to I(y_1 … y_m; v). They never grow when more labels are known,
# since the labels are independent given v: hence the bound by groups, and hence a query whose own utility is below
# the gain of another need not be looked at. Label columns have independent v: their informations add.


def _information(outcomes: _Outcomes, weights: Tensor | None = None) -> Tensor:
    """I(y; v | A) of every query, (c,), given the weights (outcomes of A, S); (1.11) without any."""
    if weights is None:
        weights = _nothing_known(outcomes)
    joint = [weights @ side.T for side in (outcomes.positive, outcomes.negative)]  # (outcomes of A, c) each
    conditional_entropy = _entropy(*joint).sum(0) - _entropy(weights.sum(1)).sum()
    return (conditional_entropy - outcomes.noise).clamp(min=0.0)


def _nothing_known(outcomes: _Outcomes) -> Tensor:
    """The weights of the draws before any label is known: a single joint outcome, (1, S)."""
    return torch.full_like(outcomes.positive[:1], 1.0 / outcomes.positive.shape[1])


def _divided(weights: Tensor, outcomes: _Outcomes, chosen: int) -> Tensor:
    """Every joint outcome divided by what one more label may be: twice as many rows."""
    return torch.cat([weights * outcomes.positive[chosen], weights * outcomes.negative[chosen]])


class _Batch:
    """A growing batch, and a shortlist of the queries that may still come into it."""

    def __init__(self, pool: _Pool, utilities: Floats, ranked: Ints) -> None:
        self.pool, self.utilities, self.ranked = pool, utilities, ranked
        self.columns = pool.outcomes(ranked[: pool.step])
        self.left = torch.stack([_information(column) for column in self.columns])  # (K, shortlist)
        self.groups = [[_nothing_known(column) for column in self.columns]]
        self.chosen: list[int] = []  # places in the shortlist

    def choose(self) -> tuple[int, float]:
        """The query that adds most to those chosen (ties by rank), and what it adds."""
        gains = self._gains()
        while self._unlisted_may_be_better(gains):
            self._list_more()
            gains = self._gains()
        place = int(np.argmax(gains.round(_DECIMALS)))
        self.chosen.append(place)
        self._learn(place)
        return int(self.ranked[place]), float(gains[place])

    def _gains(self) -> Floats:
        gains = self.left.sum(0).cpu().numpy()
        gains[self.chosen] = -np.inf
        return gains

    def _unlisted_may_be_better(self, gains: Floats) -> bool:
        unlisted = self.ranked[len(gains) :]
        return len(unlisted) > 0 and bool(gains.max() < self.utilities[unlisted[0]] - 0.1**_DECIMALS)

    def _list_more(self) -> None:
        listed = self.left.shape[1]
        fresh = self.pool.outcomes(self.ranked[listed : listed + self.pool.step])
        left = [[_information(*pair) for pair in zip(fresh, group, strict=True)] for group in self.groups]
        least = torch.stack([torch.stack(group) for group in left]).amin(0)
        self.left = torch.cat([self.left, least], dim=1)
        pairs = zip(self.columns, fresh, strict=True)
        self.columns = [_Outcomes(*map(torch.cat, zip(*pair, strict=True))) for pair in pairs]

    def _learn(self, place: int) -> None:
        """Put a chosen label among those known: into the last group, or into a new one when that is full."""
        if len(self.groups[-1][0]) == 2 ** (LARGEST_EXACT_BATCH - 1):
            self.groups.append([_nothing_known(column) for column in self.columns])
        pairs = zip(self.groups[-1], self.columns, strict=True)
        self.groups[-1] = [_divided(weights, column, place) for weights, column in pairs]
        beside = [_information(*pair) for pair in zip(self.columns, self.groups[-1], strict=True)]
        self.left = torch.minimum(self.left, torch.stack(beside))


def _informative_batch(pool: _Pool, utilities: Floats, ranked: Ints, wanted: int) -> tuple[Ints, Floats]:
    """The most informative query, then again and again the one that adds most to those chosen."""
    if wanted == 1:
        return ranked[:1], utilities[ranked[:1]]
    batch = _Batch(pool, utilities, ranked)
    indices, gains = zip(*(batch.choose() for _ in range(wanted)), strict=True)
    return np.array(indices, dtype=np.int64), np.array(gains)
