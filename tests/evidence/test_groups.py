"""Which features name groups."""

import numpy as np
import pytest

from bagwise import Bags
from bagwise.evidence.groups import MOST_GROUPS, group_columns, members


def bags_of(X):
    return Bags(np.asarray(X, dtype=float), np.arange(len(X)) // 2)


def test_columns_of_zero_and_one_name_groups_where_every_row_belongs_to_one():
    indicators = np.eye(3)[[0, 1, 2, 1]]
    assert group_columns(bags_of(indicators)) == (0, 1, 2)
    assert group_columns(bags_of(np.column_stack([[0.2, 0.5, 0.1, 0.9], indicators]))) == (1, 2, 3)


@pytest.mark.parametrize(
    "X", [[[1, 1], [0, 1]], [[0.5, 1], [1, 0]], [[1], [1]], np.eye(MOST_GROUPS + 1)], ids=["two", "part", "one", "many"]
)
def test_other_features_name_no_groups(X):
    assert group_columns(bags_of(X)) == ()


def test_rows_of_no_group_or_of_two_are_members_of_none():
    assert members(np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]), (0, 1)).tolist() == [[1, 0], [0, 0], [0, 0]]
