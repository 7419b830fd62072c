"""Known instances as bags of one, and evidence that a model does not take."""

import numpy as np

from bagwise.evidence.known import with_known_as_bags
from bagwise.evidence.labels import read_labels


def test_every_known_instance_is_one_more_bag_with_its_own_label(bags):
    given = bags.with_known([np.nan, 0, 1, np.nan, 0, np.nan])
    joined, labels = with_known_as_bags(given, read_labels([1, 1, 0], given, keyed=True))
    np.testing.assert_array_equal(labels[:, 0], [1, 1, 0, 0, 1, 0])
    np.testing.assert_array_equal(joined.X[6:, 0], [1, 2, 4])
    np.testing.assert_array_equal(joined.sizes, [3, 2, 1, 1, 1, 1])
