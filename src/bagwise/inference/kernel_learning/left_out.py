"""Two models, compared by what bags state that neither of them was fitted to.

Bags are dealt into three parts. Both models are fitted to two parts and asked how probable it is what the third one
states; that three times. It takes six fits without learning. The log evidence is the better judge where it is right and
is about all of the model; this one is for questions that it cannot answer.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bagwise.bag_models.rules import AtLeastOne
from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Features
from bagwise.inference.engines import Inferred
from bagwise.predict.points import Fitted
from bagwise.predict.statements import log_probability

PARTS = 3
MOST_ROWS = 10_000  # instances × label columns up to which it is asked
FEWEST = 20  # bags below which what they state would say nothing
_MOST = -np.log(1e-6)  # nats that one bag can tell: none decides alone

Pair = Callable[[Bags], tuple[Features, Features]]
Infer = Callable[[Features, Bags, CountEvidence], Inferred]


def gain_of_second(pair: Pair, infer: Infer, bags: Bags, evidence: CountEvidence, seed: int) -> float:
    """By how many nats statements of bags left out are more probable under the second model; NaN if it is not known.

    ``pair`` makes the features of both models from some bags, from whose rows it chooses the inducing inputs.
    """
    part = dealt(evidence.labels, seed)
    try:
        return float(sum(_gain(pair, infer, bags, evidence, part == k, seed) for k in range(PARTS)))
    except NumericalError:
        return float("nan")


def _gain(
    pair: Pair, infer: Infer, bags: Bags, evidence: CountEvidence, left_out: NDArray[np.bool_], seed: int
) -> float:
    seen, new = np.flatnonzero(~left_out), np.flatnonzero(left_out)
    log_probabilities = []
    for features in pair(bags[seen]):
        found = infer(features, bags[seen], evidence.of_bags(seen))
        if found.trace.interrupted:
            raise KeyboardInterrupt
        fitted = Fitted(features, found.posterior, AtLeastOne(), seed)
        log_probabilities.append(log_probability(fitted, bags[new], evidence.of_bags(new)))
    each = (log_probabilities[1] - log_probabilities[0]).clip(-_MOST, _MOST)
    return float((each if evidence.weight is None else evidence.weight[new, None] * each).sum())


def dealt(labels: NDArray[np.float64], seed: int) -> NDArray[np.int64]:
    """The part of every bag, (B,): positives of the first column dealt to all parts alike, then the others."""
    order = np.random.RandomState(seed).permutation(len(labels))
    order = order[np.argsort(labels[order, 0], kind="stable")]
    part = np.empty(len(labels), dtype=np.int64)
    part[order] = np.arange(len(labels)) % PARTS
    return part
