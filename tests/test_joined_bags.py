"""Several tables of bags as one."""

import numpy as np
import pytest
from tests.tables_with_parts import new_bags, new_table, same

from bagwise import BagDataError, Bags


@pytest.fixture
def table():
    return new_table()


@pytest.fixture
def bags(table):
    return new_bags(table)


def test_concat_is_the_inverse_of_slicing(bags):
    same(Bags.concat([bags[:1], bags[1:]]), bags)
    known = Bags.concat([bags[:1].with_known([0, 1, np.nan]), bags[1:]]).known
    np.testing.assert_array_equal(known, [0, 1, np.nan, np.nan, np.nan])


def test_concat_refuses_what_does_not_fit(bags):
    with pytest.raises(BagDataError, match="both be called 'b'"):
        Bags.concat([bags[:1], bags[:1]])
    with pytest.raises(BagDataError, match="every part needs the same columns"):
        Bags.concat([bags[:1], bags[1:].with_meta(None)])
    with pytest.raises(BagDataError, match="some of these bags have parts"):
        Bags.concat([bags[:1], Bags(bags.X[:1], ["c"], feature_names=["x", "y"])])
