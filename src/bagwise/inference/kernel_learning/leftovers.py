"""Whether what the features leave over of f belongs to the model: bags that were left out decide (theory section 13.4).

With the leftover a row unlike all inducing inputs may be anything, and a new bag of such rows is often called positive;
without it such rows are as ordinary as can be. Which of the two is right is a matter of the data: the second on MUSK,
the first on images. The log evidence does not tell them apart, for the inducing inputs are rows of the very bags that
it is about; labels of bags that had no part in choosing them do.
"""

from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.gp.features import Features
from bagwise.gp.leftovers import NEGLIGIBLE
from bagwise.inference.kernel_learning.left_out import FEWEST, MOST_ROWS

LEAST_GAIN = 0.5  # nats, over all bags


def may_be_left_out(features: Features, bags: Bags, evidence: CountEvidence) -> bool:
    """Whether there is anything to ask: labels alone, enough of both kinds, and rows of which something is left."""
    numbers = [(evidence.labels == label).sum(axis=0).min() for label in (0, 1)]
    few_rows = features.n_inducing < bags.n_instances <= MOST_ROWS // evidence.labels.shape[1]
    if not (evidence.only_labels() and few_rows and min(numbers) >= FEWEST):
        return False
    return any(float(design.kappa.max()) > NEGLIGIBLE for _, design in features.designs(bags))
