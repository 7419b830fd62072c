"""Rows that stay in their files: every way of asking gives what the array itself would give."""

import numpy as np
import pytest
from tests.sources.stored_rows import Source, X

from bagwise import BagDataError, Bags

SIZES = np.array([7, 1, 20, 12, 15, 5])
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])


def stored(values=X, **settings):
    return Bags.from_source(Source(values), SIZES, ids=list("abcdef"), **settings)


def in_memory():
    return Bags(X, np.repeat(list("abcdef"), SIZES))


KEYS = [3, slice(1, 4), slice(None, None, 2), [5, 0, 2], np.arange(6) % 2 == 0, "c", [1, 1]]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_stored_bags_are_cut_like_bags_in_memory_and_stay_unread(key):
    bags, same = stored(), in_memory()
    some, expected = bags[key], same[key]
    assert bags.X._source.reads == []
    assert some.stays_in_file
    assert (some.ids, some.shape, repr(some)) == (expected.ids, expected.shape, repr(expected))
    for name in ("sizes", "offsets", "index", "rows"):
        np.testing.assert_array_equal(getattr(some, name), getattr(expected, name))
    np.testing.assert_array_equal(np.asarray(some.X), expected.X)
    np.testing.assert_array_equal(some.in_memory().X, expected.X)
    for (name, rows), (other, their) in zip(some, expected, strict=True):
        assert name == other
        np.testing.assert_array_equal(rows, their)


def test_selections_of_selections_read_the_right_rows():
    bags, same = stored(), in_memory()
    for key in KEYS[1:5]:
        bags, same = bags[[4, 3, 2, 0, 5, 1]][key], same[[4, 3, 2, 0, 5, 1]][key]
        np.testing.assert_array_equal(np.asarray(bags.X), same.X)
        np.testing.assert_array_equal(bags.X[::2], same.X[::2])
        bags, same = stored(), in_memory()


@pytest.mark.parametrize("rows", [[0], [59, 0, 3, 3], np.arange(0, 60, 7), np.zeros(0, dtype=int), 4], ids=str)
def test_single_rows_of_a_source_come_in_the_order_asked_for(rows):
    np.testing.assert_array_equal(stored().X[rows], X[rows])
    np.testing.assert_array_equal(stored()[[2, 0]].X[[3, 1]], in_memory()[[2, 0]].X[[3, 1]])


def test_rows_announced_beforehand_are_put_aside_by_the_next_pass():
    bags = stored()
    rows = np.array([0, 8, 30, 59])
    bags.X.keep("some", rows)
    for start in range(0, 60, 16):
        np.asarray(bags.X[start : start + 16])
    before = len(bags.X._source.reads)
    np.testing.assert_array_equal(bags.X[rows], X[rows])
    assert len(bags.X._source.reads) == before


def test_selections_find_whole_bags_that_were_put_aside_and_forgotten_ones_are_read():
    bags = stored()
    bags.X.keep("bags", np.r_[7:28, 40:55])  # the second, the third and the fifth
    bags.X.gather("bags")
    reads = bags.X._source.reads
    before = len(reads)
    np.testing.assert_array_equal(np.asarray(bags[[4, 1]].X), X[np.r_[40:55, 7:8]])
    np.testing.assert_array_equal(bags[[2, 4]].X[[0, 19, 20]], X[[8, 27, 40]])
    assert len(reads) == before
    bags.X.forget("bags")
    np.asarray(bags[[4, 1]].X)
    assert len(reads) == before + 2


def test_rows_are_gathered_without_those_that_have_come_by():
    bags = stored()
    bags.X.keep("some", np.array([1, 30, 59]))
    np.asarray(bags.X[:40])
    bags.X.gather("some")
    assert bags.X._source.reads[1:] == [(59, 60)]
    np.testing.assert_array_equal(bags.X.put_aside("some"), X[[1, 30, 59]])
    bags.X.gather("nothing of this name")
    assert bags.X.put_aside("nothing of this name") is None


def test_stored_rows_that_are_not_finite_are_refused_with_bag_row_and_column():
    values = X.copy()
    values[30, 1] = np.nan
    bags = stored(values, feature_names=["u", "v", "w"])
    np.asarray(bags["a"].X)
    with pytest.raises(BagDataError, match="NaN: bag 'd', column 'v', row 30 of the table"):
        np.asarray(bags[[5, 3]].X)


def test_source_that_returns_too_few_rows_is_refused():
    bags = stored()
    bags.X._source.read = lambda start, stop: X[start : stop - 1]
    with pytest.raises(BagDataError, match="expected \\(60, 3\\)"):
        np.asarray(bags.X)


def test_sizes_that_do_not_fit_the_source_are_refused():
    with pytest.raises(BagDataError, match="add up to 59 rows, but the source has 60"):
        Bags.from_source(Source(X), [30, 29])
    with pytest.raises(BagDataError, match="at least 1 each"):
        Bags.from_source(Source(X), [60, 0])
    with pytest.raises(BagDataError, match="one id per bag"):
        Bags.from_source(Source(X), [60], ids=["a", "b"])


def test_float32_stays_float32_and_whole_numbers_become_float64():
    assert stored(X.astype(np.float32)).X.dtype == np.float32
    assert np.asarray(stored((10 * X).astype(int)).X).dtype == np.float64


def test_rows_to_be_put_aside_may_be_read_by_somebody_else():
    some = stored()[[3, 0]]
    some.X.keep("wanted", np.array([1, 14, 13]), for_passes=False)
    announced = [some.X.announced(start, stop)["wanted"] for start, stop in ((0, 12), (12, 19))]
    assert [rows.tolist() for rows in announced] == [[1], [1, 2]]
    expected = np.asarray(in_memory()[[3, 0]].X)
    for start, rows in zip((0, 12), announced, strict=True):
        some.X.hand_in("wanted", start + rows, expected[start + rows])
    np.testing.assert_array_equal(some.X.put_aside("wanted"), expected[[13, 14, 1]])  # in the order of the source
    assert some.X._source.reads == []
