"""Two models compared by bags that neither has seen: how bags are dealt, what labels and weights count."""

import numpy as np
import pytest
from tests.inference.kernel_learning.test_leftovers import gain_on, judged, witness_among_strangers

from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import NumericalError
from bagwise.inference.kernel_learning.left_out import PARTS, dealt


def test_gain_that_cannot_be_told_is_no_number():
    def never_settles(*given):
        raise NumericalError("it goes round in circles")

    assert np.isnan(gain_on(*witness_among_strangers(), infer=never_settles))


def test_bags_are_dealt_so_that_every_part_has_its_share_of_positives():
    labels = np.random.default_rng(0).permutation([1.0] * 17 + [0.0] * 30 + [np.nan] * 4)[:, None]
    part = dealt(labels, 5)
    for counted in (labels[:, 0] == 1, labels[:, 0] == 0, np.isnan(labels[:, 0])):
        numbers = np.bincount(part[counted], minlength=PARTS)
        assert numbers.max() - numbers.min() <= 1
    assert not np.array_equal(part, dealt(labels, 6))


def test_wrong_labels_and_weights_count_as_they_should():
    bags, y = witness_among_strangers()
    plain, twice = gain_on(bags, y), gain_on(bags, y, weight=np.full(len(y), 2.0), infer=without_weights)
    assert twice == pytest.approx(2.0 * plain)
    assert abs(gain_on(bags, y, label_noise=0.49, infer=without_weights)) < 0.1 * abs(plain)


def without_weights(features, bags, evidence):
    return judged(features, bags, CountEvidence(evidence.labels, bags.sizes))
