"""Warnings about a fit whose answers say nothing: all alike, or no better than the share of positive bags."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, entr, ndtri

from bagwise.bags import Bags
from bagwise.exceptions import LearnedNothingWarning, warn_user
from bagwise.gp.inducing import SAMPLE

Floats = NDArray[np.float64]

_ALIKE = 0.05  # on the probit scale: from .50 to .52, or from .0010 to .0012
_GAIN = 1.0  # nats that the log evidence must have above that of a constant …
_FEWEST = 20  # … where there are so many labelled bags; fewer can hardly show as much
_ROWS, _BAGS, _MOST_ROWS = 1000, 100, 5000  # of training bags that are looked at: a small part of the time of a fit
_ADVICE = (
    "Do not trust its answers. Look at whether the features have to do with the labels, are on a common scale "
    "(standardize=True) and belong to these bags; try BagGP with kernel='auto', or label more bags."
)


def warn_if_alike(model: Any, bags: Bags) -> None:
    """Warn where all instances of some training bags have the same probability, for every label or class."""
    some = _rows_at_hand(model, bags) if bags.stays_in_file else bags[_spread_over(bags.sizes)]
    _warn_if_alike(type(model).__name__, "instances", model.predict_instance_proba(some))


def _rows_at_hand(model: Any, bags: Bags) -> Bags:
    """Rows of a file that need not be read again: those that inducing inputs were chosen from, or these themselves."""
    features, rows = model.features_, bags.X.put_aside(SAMPLE)
    if rows is None:
        rows = (features.inducing.double() * features.scale + features.shift).cpu().numpy()
    return Bags(rows, np.arange(len(rows)), feature_names=bags.feature_names)


def warn_if_bags_alike(name: str, probability: Floats) -> None:
    """Warn where all training bags have the same probability (B, K), for every label."""
    _warn_if_alike(name, "bags", probability)


def _warn_if_alike(name: str, what: str, probability: Floats) -> None:
    scores = ndtri(np.clip(probability, 1e-12, 1.0 - 1e-12))
    if len(scores) > 1 and np.ptp(scores, axis=0).max() < _ALIKE:
        warn_user(
            f"{name} gives all {what} nearly the same probability: it has learned nothing that tells them apart. "
            f"{_ADVICE}",
            LearnedNothingWarning,
        )


def warn_if_constant_is_as_good(model: Any, labels: Floats, weight: Floats | None = None) -> None:
    """Warn where one probability for all bags, unknown in advance, explains the labels (B, K) as well as the model.

    Every bag counts ``weight`` (B,) times.
    """
    times = np.ones(len(labels)) if weight is None else weight
    names = model._column_names() or [""]
    for name, column, found in zip(names, labels.T, np.atleast_1d(model.log_evidence_), strict=True):
        positive, negative = times[column == 1].sum(), times[column == 0].sum()
        constant = float(betaln(positive + 1, negative + 1))  # log ∫ p^n₁ (1 − p)^n₀ dp
        if positive + negative >= _FEWEST and found < constant + _GAIN:
            warn_user(
                f"the log evidence{_of(name)} is {found:.1f}, and that of one probability for all bags "
                f"{constant:.1f}: the {positive + negative:g} labels do not show that {type(model).__name__} has "
                f"learned anything. {_ADVICE}",
                LearnedNothingWarning,
            )


def warn_if_worse_than_constant(model: Any, bags: Bags, labels: Floats, weight: Floats | None = None) -> None:
    """Warn where the model explains the labels (B, K) it was fitted to worse than the share of positive bags does.

    Every bag counts ``weight`` (B,) times.
    """
    times = np.ones(len(bags)) if weight is None else weight
    stated = np.flatnonzero(~np.isnan(labels).all(axis=1) & (times > 0))
    if len(stated) < _FEWEST:
        return
    chosen = stated[_spread_over(bags.sizes[stated])]
    found = model.predict_proba(bags[chosen])
    positive = found if model._several() else found[:, 1:]
    for name, probability, label in zip(model._column_names() or [""], positive.T, labels[chosen].T, strict=True):
        seen = ~np.isnan(label)
        if seen.sum() >= _FEWEST:
            _compare(type(model).__name__, name, probability[seen], label[seen], times[chosen][seen])


def _compare(model: str, name: str, probability: Floats, label: Floats, weight: Floats) -> None:
    stated = np.where(label == 1, probability, 1.0 - probability)
    own = float(np.average(np.log(np.maximum(stated, np.finfo(float).tiny)), weights=weight))
    share = float(np.average(label, weights=weight))
    constant = -float(entr([share, 1.0 - share]).sum())
    if own < constant:
        warn_user(
            f"{model} explains the labels{_of(name)} that it was fitted to worse than one probability for all bags: "
            f"the mean log-likelihood is {own:.2f}, that of the share of positive bags {constant:.2f}. {_ADVICE}",
            LearnedNothingWarning,
        )


def _of(name: str) -> str:
    return f" of {name}" if name else ""


def _spread_over(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of bags, evenly spread: of 1,000 rows or 100 bags, whichever are more, but at most about 5,000 rows."""
    rows, bags = int(sizes.sum()), len(sizes)
    every = max(np.ceil(rows / _MOST_ROWS), min(np.ceil(rows / _ROWS), bags // _BAGS), 1)
    return np.arange(0, bags, int(every))
