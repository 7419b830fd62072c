"""Cells: individuals of a bag with the same features."""

import numpy as np

from bagwise import Bags
from bagwise.evidence.cells import cell_numbers


def test_rows_of_a_bag_with_the_same_features_are_one_cell_in_any_order():
    X = np.array([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0], [0.0, 1.0]])
    bags = Bags(X, ["a", "a", "a", "b"])
    assert list(cell_numbers(bags)) in ([0, 1, 0, 2], [1, 0, 1, 2])
    assert len(set(cell_numbers(bags)[:2])) == 2
