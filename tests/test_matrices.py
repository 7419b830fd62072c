"""Tables of features: columns by name or number, rows after rows."""

import numpy as np
import pytest
import scipy.sparse

from bagwise._matrices import axis_name, column_number, stacked_rows
from bagwise.exceptions import BagDataError


def test_column_is_found_by_its_name_and_by_its_number():
    assert column_number("v", 3, ("u", "v", "w")) == 1
    assert column_number(np.int64(2), 3, ("u", "v", "w")) == 2
    assert column_number(2, 3, None) == 2


@pytest.mark.parametrize(
    ("column", "names", "message"),
    [
        ("x", ("u", "v"), "no column 'x'; the bags have columns 0 to 1, named u, v\\."),
        ("u", None, "no column 'u'; the bags have columns 0 to 1 without names\\."),
        (2, ("u", "v"), "no column 2; "),
        (-1, None, "no column -1; "),
    ],
)
def test_column_that_is_not_there_is_refused_with_those_that_are(column, names, message):
    with pytest.raises(BagDataError, match=message):
        column_number(column, 2, names)


def test_column_without_a_name_is_called_by_its_number():
    assert axis_name(1, None) == "feature 1"
    assert axis_name(1, ("u", "v")) == "v"


def test_stacked_rows_are_sparse_as_soon_as_some_of_them_are():
    dense, sparse = np.eye(2), scipy.sparse.csr_matrix([[0.0, 3.0]])
    np.testing.assert_array_equal(stacked_rows([dense, dense[:1]]), [[1, 0], [0, 1], [1, 0]])
    mixed = stacked_rows([dense, sparse])
    assert mixed.format == "csr"
    np.testing.assert_array_equal(mixed.toarray(), [[1, 0], [0, 1], [0, 3]])
