"""Whether what the features leave over of f belongs to the model: bags that were left out decide (theory section 13.4).

With the leftover a row unlike all inducing inputs may be anything, and a new bag of such rows is often called positive;
without it such rows are as ordinary as can be. Which of the two is right is a matter of the data: the second on MUSK,
the first on images. The log evidence does not tell them apart, for the inducing inputs are rows of the very bags that
it is about; labels of bags that had no part in choosing them do.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bagwise.bag_models.rules import AtLeastOne
from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Features
from bagwise.gp.leftovers import NEGLIGIBLE
from bagwise.inference.engines import Inferred
from bagwise.predict.bags import bag_probability
from bagwise.predict.points import Fitted

LEAST_GAIN = 0.5  # nats, over all bags
PARTS = 3
MOST_ROWS = 10_000  # instances × label columns up to which it is asked: it takes six fits
_FEWEST = 20  # bags of either label, in every column, below which their labels would say nothing
_LEAST = 1e-6  # probability of a label below which it makes no difference: no bag decides alone

FeaturesOf = Callable[[Bags], Features]
Infer = Callable[[Features, Bags, CountEvidence], Inferred]


def may_be_left_out(features: Features, bags: Bags, evidence: CountEvidence) -> bool:
    """Whether there is anything to ask: labels alone, enough of both kinds, and rows of which something is left."""
    numbers = [(evidence.labels == label).sum(axis=0).min() for label in (0, 1)]
    few_rows = features.n_inducing < bags.n_instances <= MOST_ROWS // evidence.labels.shape[1]
    if not (evidence.only_labels() and few_rows and min(numbers) >= _FEWEST):
        return False
    return any(float(design.kappa.max()) > NEGLIGIBLE for _, design in features.designs(bags))


def gain_of_leaving_out(features_of: FeaturesOf, infer: Infer, bags: Bags, evidence: CountEvidence, seed: int) -> float:
    """By how many nats labels of bags that were left out are more probable without leftovers; NaN if it is not known.

    ``features_of`` makes features of some bags, from whose rows it chooses the inducing inputs.
    """
    part = _dealt(evidence.labels, seed)
    try:
        return float(sum(_gain(features_of, infer, bags, evidence, part == k, seed) for k in range(PARTS)))
    except NumericalError:
        return float("nan")


def _gain(
    features_of: FeaturesOf,
    infer: Infer,
    bags: Bags,
    evidence: CountEvidence,
    left_out: NDArray[np.bool_],
    seed: int,
) -> float:
    seen, new = np.flatnonzero(~left_out), np.flatnonzero(left_out)
    kept, log_probabilities = features_of(bags[seen]), list[float]()
    for features in (kept, replace(kept, leftovers=False)):
        found = infer(features, bags[seen], evidence.of_bags(seen))
        if found.trace.interrupted:
            raise KeyboardInterrupt
        fitted = Fitted(features, found.posterior, AtLeastOne(), seed)
        log_probabilities.append(_log_probability(bag_probability(fitted, bags[new]), evidence.of_bags(new)))
    return log_probabilities[1] - log_probabilities[0]


def _log_probability(positive: NDArray[np.float64], evidence: CountEvidence) -> float:
    """Of the labels (B, K), which are wrong now and then, from probabilities of positive bags."""
    labels, noise = evidence.labels, evidence.label_noise
    each = noise + (1.0 - 2.0 * noise) * np.where(labels == 1, positive, 1.0 - positive)
    logs = np.where(np.isnan(labels), 0.0, np.log(each.clip(_LEAST)))
    return float((logs if evidence.weight is None else evidence.weight[:, None] * logs).sum())


def _dealt(labels: NDArray[np.float64], seed: int) -> NDArray[np.int64]:
    """The part of every bag, (B,): positives of the first column dealt to all parts alike, then the others."""
    order = np.random.RandomState(seed).permutation(len(labels))
    order = order[np.argsort(labels[order, 0], kind="stable")]
    part = np.empty(len(labels), dtype=np.int64)
    part[order] = np.arange(len(labels)) % PARTS
    return part
