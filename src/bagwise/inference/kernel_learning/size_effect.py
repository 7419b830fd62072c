"""Whether large bags are another kind than small ones: a column log n, kept where the evidence asks for it (13.2).

Under "at least one" a bag of a thousand negative instances is a great surprise, and a few of them pull down every other
instance. A coefficient of log n lets size itself speak. It is judged by the evidence with one site per bag, on both
sides: the evidence of messages to single instances overstates whatever a bag shares (13.6).
"""

import math

import numpy as np
import torch

from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Features
from bagwise.inference.engines import Limits, by_bag_sites
from bagwise.inference.kernel_learning.learn import some_bags
from bagwise.inference.loop import SILENT

LEAST_GAIN = 1.0  # nats
MOST_ROWS = 100_000  # that are asked
_ROUNDS, _TOLERANCE = 200, 2e-3


def may_have_sizes(bags: Bags, evidence: CountEvidence) -> bool:
    """Whether there is anything to ask: labels alone, of bags that differ in size."""
    labelled = ~np.isnan(evidence.labels).all(axis=1)
    return evidence.only_labels() and len(np.unique(bags.sizes[labelled])) > 1


def gain_of_sizes(features: Features, bags: Bags, evidence: CountEvidence, seed: int) -> float:
    """By how many nats a column log n raises the log evidence at the present kernel; NaN where neither is known.

    A model whose sites settle with the column alone needs it: its gain is endless.
    Of very many rows a random choice of whole bags is asked. What so many bags do not show by a nat is worth less than
    a hundredth of a nat to any one of them.
    """
    if bags.n_instances > MOST_ROWS:
        states = np.asarray(evidence.observed().any(axis=1))
        chosen = some_bags(bags, states, MOST_ROWS, np.random.RandomState(seed))
        bags, evidence = bags[chosen], evidence.of_bags(chosen)
    plain, sized = (_log_evidence(some, bags, evidence, seed) for some in (features, features.with_sizes(bags.sizes)))
    return math.inf if math.isnan(plain) and not math.isnan(sized) else sized - plain


def _log_evidence(features: Features, bags: Bags, evidence: CountEvidence, seed: int) -> float:
    try:
        with torch.no_grad():
            found = by_bag_sites(features, bags, evidence, Limits(_ROUNDS, _TOLERANCE, SILENT), seed)
    except NumericalError:
        return float("nan")
    if found.trace.interrupted:
        raise KeyboardInterrupt
    return float(found.log_evidence.sum())
