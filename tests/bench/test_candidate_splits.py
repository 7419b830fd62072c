"""Splits of bags with candidates, as the paper has them."""

import numpy as np
import pytest
import scipy.sparse
from tests.bench.benchmark_files import place

from bagwise.bench.candidate_splits import _POST_TARGETS, POSTS, CandidateHalves
from bagwise.bench.description import DataSet
from bagwise.exceptions import BagDataError


def test_candidates_become_one_bag_per_candidate(folder):
    data = DataSet("letters", "some", "1")
    split = CandidateHalves().split(place(folder, data=data))
    train, told = split.evidence["candidates"]
    copies, y = split.evidence["one against the rest"]
    assert len(copies) == told.sum() == 2 * len(train)
    assert (y.sum(axis=1) == 1).all()
    for bag, candidates in zip(train.ids, told, strict=True):
        mine = [name == bag for name in copies.ids]
        assert np.array_equal(y[mine].sum(axis=0), candidates)
    with pytest.raises(BagDataError, match="holds 1 splits, but number 2 is asked for"):
        CandidateHalves().split(place(folder, repeat=1, data=data))


@pytest.mark.parametrize("absent", ["candidates", "test_bag_half", "instance_y"])
def test_a_file_without_what_a_split_needs_is_refused(folder, absent):
    with np.load(folder / "some.npz") as file:
        arrays = {name: file[name] for name in file.files if name != absent}
    np.savez(folder / "less.npz", **arrays)
    with pytest.raises(BagDataError, match=r"less\.npz: expected the arrays 'candidates', 'test_bag_half'"):
        CandidateHalves().split(place(folder, data=DataSet("letters", "less", "1")))


def test_candidate_sets_grow_from_those_of_the_file(folder):
    sets = [
        CandidateHalves().split(place(folder, data=DataSet("letters", "some", r))).evidence["candidates"][1]
        for r in ("1", "2")
    ]
    assert (sets[1].sum(axis=1) == 3).all()
    assert (sets[1] >= sets[0]).all()


@pytest.mark.parametrize("together", [False, True])
def test_columns_are_scaled_by_the_training_half(folder, together):
    rule = CandidateHalves(one_unit=("some",) if together else ())
    split = rule.split(place(folder, data=DataSet("letters", "some", "1")))
    variance = split.evidence["candidates"][0].X.var(axis=0)
    assert np.allclose(variance.mean() if together else variance, 1.0, rtol=1e-5)
    assert np.allclose(variance, 1.0, rtol=1e-5) != together


def test_posts_are_dealt_into_bags_with_candidates(tmp_path, monkeypatch):
    monkeypatch.setattr("bagwise.bench.candidate_splits._POST_BAGS", 40)
    rng = np.random.default_rng(0)
    names = np.array([*_POST_TARGETS, "rec.motorcycles", "talk.politics.misc"])
    counts = scipy.sparse.random_array(
        (240, 230), density=0.1, rng=rng, data_sampler=lambda size: rng.integers(1, 4, size)
    )
    rows = scipy.sparse.csr_matrix(counts)
    numbers = np.arange(240) % 12
    arrays = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": np.array(rows.shape)}
    np.savez(tmp_path / f"{POSTS}.npz", **arrays, instance_y=numbers, class_names=names)
    by_r = {}
    for r in (1, 3):
        split = CandidateHalves(one_unit=(POSTS,)).split(place(tmp_path, data=DataSet("posts", POSTS, str(r))))
        (train, told), (part,) = split.evidence["candidates"], split.parts
        assert train.n_features == 200
        assert len(train) == len(part.bags) == 20
        assert (told.sum(axis=1) == r + 1).all()
        for number, true in enumerate(part.bag_truth):
            assert set(part.instance_truth[part.bags.index == number]) == {true, 10.0}
        by_r[r] = part
    assert np.array_equal(by_r[1].bags.X, by_r[3].bags.X)
