"""Fitting again with every answer, what the model then believes, and what it would ask next."""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bagwise.active import LARGEST_EXACT_BATCH, suggest
from bagwise.bags import Bags
from bagwise.labelling.pool import Floats, Ints, Pool
from bagwise.labelling.question import ONE_OF
from bagwise.metrics import expected_auc, positive_proba


class Refit(NamedTuple):
    """A fitted model and what it warned of."""

    model: Any
    warnings: tuple[str, ...]


class Learner:
    """Fits the model anew. A kernel is learned when the labels have doubled since, and kept in between."""

    def __init__(self, model: Any, n_labels: int) -> None:
        self._estimator, self._learned_at = model, n_labels
        self._learns = model.get_params(deep=False).get("learn") is True
        self._kernel = model.kernel_ if self._learns else None

    def fit(self, bags: Bags, y: Any, n_labels: int) -> Refit:
        """A model of these labels; warnings are kept, not shown."""
        fresh = clone(self._estimator)
        keep = self._learns and n_labels < 2 * self._learned_at
        fresh.set_params(verbose=0, **({"learn": False, "kernel": self._kernel} if keep else {}))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fresh.fit(bags, y)
        if self._learns and not keep:
            self._kernel, self._learned_at = fresh.kernel_, n_labels
        return Refit(fresh, tuple(dict.fromkeys(str(warning.message) for warning in caught)))


@dataclass(frozen=True, eq=False)
class Asking:
    """What a model believes of every item, and in which order it would ask about those not known."""

    order: Ints  # numbers of items, the first to be asked first
    bits: Floats  # of each in that order: what its label is expected to tell about the model
    belief: Floats  # (items, values) probabilities
    measure: str  # what is expected of the model on items not labelled yet …
    expected: float  # … if its probabilities are right


def ask(model: Any, pool: Pool, values: Floats, strategy: str, random_state: Any) -> Asking:
    """Ask the model about everything that is not known."""
    unknown = np.flatnonzero(np.isnan(values).any(axis=1))
    belief = _belief(model, pool)
    if len(unknown) == 0:
        return Asking(unknown, np.empty(0), belief, "AUC", float("nan"))
    if pool.question.kind == ONE_OF:
        order, bits = _least_sure(belief, unknown)
        return Asking(order, bits, belief, "accuracy", float(belief[unknown].max(axis=1).mean()))
    order, bits = _suggested(model, pool, values, unknown, strategy, random_state)
    each = [expected_auc(column) for column in belief[unknown].T]
    return Asking(order, bits, belief, "AUC", float(np.mean(each)))


def _belief(model: Any, pool: Pool) -> Floats:
    if pool.question.kind == ONE_OF:
        return np.asarray(model.predict_proba(pool.bags), dtype=np.float64)
    predict = model.predict_proba if pool.what == "bags" else model.predict_instance_proba
    return positive_proba(predict(pool.bags), model.classes_).reshape(len(pool), -1)


def _suggested(
    model: Any, pool: Pool, values: Floats, unknown: Ints, strategy: str, random_state: Any
) -> tuple[Ints, Floats]:
    """The batch that ``suggest`` would choose, then all others by their own utility."""
    if pool.what == "bags":
        queries, numbers = pool.bags[unknown], unknown
    else:
        queries, numbers = pool.bags.with_known(values[:, 0]), np.arange(len(pool))
    wanted = min(LARGEST_EXACT_BATCH, len(unknown))
    found = suggest(model, queries, what=pool.what, n=wanted, strategy=strategy, random_state=random_state)
    others = np.setdiff1d(np.flatnonzero(~np.isnan(found.utilities)), found.indices)
    others = others[np.argsort(-found.utilities[others], kind="stable")]
    gains = np.concatenate([found.gains, found.utilities[others]])
    bits: NDArray[np.float64] = gains / np.log(2.0) if strategy != "random" else np.full(len(gains), np.nan)
    return numbers[np.concatenate([found.indices, others])], bits


def _least_sure(belief: Floats, unknown: Ints) -> tuple[Ints, Floats]:
    """Of one class out of many: those whose class is least certain, by the entropy of the probabilities."""
    proba = np.clip(belief[unknown], 1e-12, 1.0)
    entropy = -(proba * np.log2(proba)).sum(axis=1)
    down = np.argsort(-entropy, kind="stable")
    return unknown[down], entropy[down]
