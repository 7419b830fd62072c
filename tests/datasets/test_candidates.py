"""Bags with candidate sets keep what their documentation promises."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.datasets import load_digits

from bagwise.datasets import make_candidate_bags
from bagwise.exceptions import BagDataError

LETTERS = np.repeat(["a", "b", "c", "d"], 30)


def rows(classes=LETTERS):
    """Every row is told apart by its first feature, its class by the second."""
    return np.column_stack([np.arange(len(classes)), pd.factorize(np.asarray(classes), sort=True)[0]]).astype(float)


def counts_of(truth, bags, klass):
    return np.add.reduceat((truth == klass).astype(int), bags.offsets[:-1])


@pytest.mark.parametrize("n_false", [0, 1, 3])
def test_digit_bags_tell_the_truth(n_false):
    bags, candidates, y, truth = make_candidate_bags(n_bags=50, n_false=n_false, random_state=1)
    assert candidates.shape == (50, 5)
    assert set(candidates.ravel()) == {0, 1}
    assert (candidates.sum(axis=1) == 1 + n_false).all()
    assert (candidates[np.arange(50), y] == 1).all()
    np.testing.assert_array_equal(np.bincount(y), 10)
    own = np.array([np.sum(truth[bags.index == b] == y[b]) for b in range(50)])
    np.testing.assert_array_equal(own, np.maximum(1, np.round(0.2 * bags.sizes)))
    np.testing.assert_array_equal(own + counts_of(truth, bags, 5), bags.sizes)


def test_digits_are_the_digits_they_are_said_to_be_and_none_is_used_twice():
    digits = load_digits()
    bags, _, _, truth = make_candidate_bags(targets=[3, 8, 1], n_bags=40, random_state=0)
    number = {image.tobytes(): digit for image, digit in zip(digits.data, digits.target, strict=True)}
    really = np.array([number[np.ascontiguousarray(row, dtype=np.float64).tobytes()] for row in bags.X])
    for place, digit in enumerate([3, 8, 1]):
        assert (really[truth == place] == digit).all()
    assert not set(really[truth == 3]) & {3, 8, 1}
    assert len(np.unique(bags.X, axis=0)) == bags.n_instances
    assert bags.feature_names[:2] == ("pixel_0_0", "pixel_0_1")


def test_false_candidates_are_drawn_evenly():
    _, candidates, y, _ = make_candidate_bags(n_bags=600, bag_size=2, n_false=2, replace=True, random_state=0)
    false = candidates.sum(axis=0) - np.bincount(y)
    assert np.abs(false - 240).max() < 50  # 600 × 2/5; standard deviation below 13


def test_own_instances_stand_anywhere_in_their_bag():
    bags, _, _, truth = make_candidate_bags(n_bags=60, bag_size=5, random_state=0)
    at = np.flatnonzero(truth < 5) - bags.offsets[:-1]
    assert set(at) == {0, 1, 2, 3, 4}


def test_arrays_of_any_classes_and_missing_ones():
    classes = LETTERS.astype(object)
    classes[:3] = None
    frame = pd.DataFrame(rows(), columns=["number", "letter"])
    bags, candidates, _, truth = make_candidate_bags((frame, classes), ["d", "a", "b"], 9, 4, random_state=0)
    assert bags.feature_names == ("number", "letter")
    assert bags.X[:, 0].min() >= 3
    np.testing.assert_array_equal(bags.X[:, 1], np.array([3, 0, 1, 2])[truth])
    assert candidates.shape == (9, 3)


def test_sparse_rows_stay_sparse():
    dense = rows()
    sparse = scipy.sparse.csr_matrix(dense)
    made, same = (
        make_candidate_bags((X, LETTERS), ["a", "b"], 6, 3, n_false=0, random_state=0) for X in (sparse, dense)
    )
    assert scipy.sparse.issparse(made.bags.X)
    np.testing.assert_array_equal(made.bags.X.toarray(), same.bags.X)
    np.testing.assert_array_equal(made.instance_y, same.instance_y)


@pytest.mark.parametrize("name", ["instance_y", "y"])
def test_archives_are_read_by_their_path(name, tmp_path):
    path, numbers = tmp_path / "letters.npz", np.repeat([0, 1, 2, 3], 30)
    numbers[:5] = -1
    np.savez(path, X=rows(), columns=np.array(["number", "letter"]), **{name: numbers})
    bags, _, _, truth = make_candidate_bags(path, n_bags=8, bag_size=3, n_false=0, random_state=0)
    assert bags.feature_names == ("number", "letter")
    assert bags.X[:, 0].min() >= 5
    assert set(bags.X[truth == 2, 1]) == {1.0, 3.0}
    np.testing.assert_array_equal(bags.X[truth < 2, 1], 2 * truth[truth < 2])


def test_rows_recur_only_where_allowed():
    data = (rows(), LETTERS)
    with pytest.raises(BagDataError, match=r"need 45 instances of class 'a', and there are 30.*replace=True"):
        make_candidate_bags(data, ["a", "b"], 30, 3, n_false=0, positive_share=1.0, random_state=0)
    again = make_candidate_bags(data, ["a", "b"], 30, 3, n_false=0, positive_share=1.0, replace=True, random_state=0)
    assert set(again.instance_y) == {0, 1}


def test_the_same_seed_gives_the_same_bags():
    first, second, other = (make_candidate_bags(n_bags=20, random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.bags.X, second.bags.X)
    np.testing.assert_array_equal(first.candidates, second.candidates)
    assert first.bags.X.shape != other.bags.X.shape or (first.bags.X != other.bags.X).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data": 7}, "expected 'digits', the path of an .npz archive, or a pair"),
        ({"data": (rows(), LETTERS[:-1])}, "X has 120 rows, so y must hold 120 classes"),
        ({"targets": [1, 12]}, "no instance of class '12'"),
        ({"targets": [1]}, "at least two classes"),
        ({"targets": [1, 1, 2]}, "each once"),
        ({"n_false": 4}, "n_false=4: with 5 target classes at most 3"),
        ({"n_false": -1}, "n_false"),
        ({"positive_share": 0.0}, "positive_share=0.0"),
        ({"positive_share": 1.1}, "positive_share=1.1"),
        ({"n_bags": 0}, "n_bags"),
        ({"bag_size": (5, 2)}, "bag_size"),
        ({"n_bags": 1000}, "need .* instances of .* fewer or smaller bags"),
        ({"targets": list(range(10))}, "classes that are no target, and there are 0"),
        ({"replace": "yes"}, "replace"),
        ({"random_state": "x"}, "random_state"),
    ],
    ids=str,
)
def test_mistakes_are_named(settings, message):
    with pytest.raises(BagDataError, match=message):
        make_candidate_bags(**settings)


def test_an_archive_without_classes_is_refused_by_name(tmp_path):
    np.savez(tmp_path / "rows.npz", X=rows())
    with pytest.raises(BagDataError, match=r"rows\.npz: the archive has no array 'y'"):
        make_candidate_bags(tmp_path / "rows.npz")
    with pytest.raises(FileNotFoundError):
        make_candidate_bags(tmp_path / "nowhere.npz")
