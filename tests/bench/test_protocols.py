"""How data are cut: nothing of the test bags is seen in training, and what is told is what the paper says."""

import numpy as np
import scipy.sparse
from tests.bench.benchmark_files import numbers, place

from bagwise.bench.description import DataSet
from bagwise.bench.protocols import (
    Folds,
    GroupTrials,
    KernelPCAFolds,
    RandomHalves,
    RandomSplits,
    _half_with_every_class,
    stratified_test,
)


def test_folds_of_the_file_are_used_and_then_drawn(folder):
    seen = []
    for repeat in (0, 2):
        tested = [Folds(5).split(place(folder, fold, repeat)).parts[0].bags for fold in range(5)]
        assert sum(map(len, tested)) == 30
        seen.append([bags.ids for bags in tested])
    assert seen[0][0] == tuple(str(number) for number in range(0, 30, 5))
    assert seen[0] != seen[1]
    split = Folds(5).split(place(folder, 1))
    train, y = split.evidence["label"]
    assert numbers(train).isdisjoint(numbers(split.parts[0].bags))
    assert y.tolist() == [int(bag) % 3 == 0 for bag in train.ids]
    assert len(split.parts[0].instance_truth) == split.parts[0].bags.n_instances


def test_words_are_sparse_rows_of_length_one(folder):
    rows = Folds(5, words=True).split(place(folder)).evidence["label"][0].X
    assert scipy.sparse.issparse(rows)
    assert np.allclose(rows.multiply(rows).sum(axis=1), 1.0)


def test_kernel_pca_is_the_same_for_all_folds(folder):
    rule = KernelPCAFolds(5, components=3)
    seen = {}
    for fold in range(2):
        split = rule.split(place(folder, fold))
        for bags in (split.evidence["label"][0], split.parts[0].bags):
            for name, rows in zip(bags.ids, np.split(bags.X, bags.offsets[1:-1]), strict=True):
                assert np.array_equal(seen.setdefault(name, rows), rows)
    assert len(seen) == 30
    X = np.concatenate([seen[name] for name in sorted(seen, key=int)])
    with np.load(folder / "some.npz") as file:
        rows = file["X"].astype(float)
    K = np.exp(-0.1 * ((rows[:, None] - rows) ** 2).sum(axis=2))
    centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    assert np.allclose(X.T @ X, np.diag(np.linalg.eigvalsh(centred)[:-4:-1]), atol=1e-8)


def test_kernel_pca_can_be_held_to_training_bags(folder):
    rule = KernelPCAFolds(5, components=3, inductive=True)
    before = rule.split(place(folder)).evidence["label"][0].X
    with np.load(folder / "some.npz") as file:
        arrays = dict(file)
    arrays["X"][arrays["bag"] % 5 == 0] += 3.0  # the test bags of fold 0
    other = folder / "other"
    other.mkdir()
    np.savez(other / "some.npz", **arrays)
    assert np.array_equal(before, rule.split(place(other)).evidence["label"][0].X)
    assert before.shape[1] == 3
    assert before.dtype == np.float64


def test_random_splits_are_stratified_and_new_in_every_repeat(folder):
    first, second = (RandomSplits(0.2).split(place(folder, repeat=r)).parts[0] for r in (0, 1))
    assert first.bag_truth.sum() == second.bag_truth.sum() == 2
    assert len(first.bags) == 6
    assert first.bags.ids != second.bags.ids
    assert stratified_test(np.array([0] * 10 + [1] * 10), 0.3, 0)[:10].sum() == 3


def test_halves_use_labelled_instances_and_labels_recomputed_from_them(folder):
    data = DataSet("birds", "some", rows=("birds_0", "birds_2"))
    split = RandomHalves().split(place(folder, data=data))
    train, y = split.evidence["label"]
    (part,) = split.parts
    with np.load(folder / "some.npz") as file:
        truth = file["instance_y"]
    assert numbers(train) | numbers(part.bags) == set(np.flatnonzero(truth >= 0).tolist())
    rows = part.bags.X[:, 0].astype(int)
    assert np.array_equal(part.instance_truth, truth[rows][:, None] == np.array([0, 2]))
    for bags, labels in ((train, y), (part.bags, part.bag_truth)):
        known = truth[bags.X[:, 0].astype(int)]
        for column, number in enumerate((0, 2)):
            holds = np.array([number in known[bags.index == b] for b in range(len(bags))])
            assert np.array_equal(labels[:, column].astype(bool), holds)
    assert abs(len(train) - len(part.bags)) <= 1


def test_groups_are_as_in_the_figures():
    (three, fraction) = (
        GroupTrials().split(place(None, data=DataSet("2", key="wave", rows=("a", "b")))).evidence["fraction"]
    )
    assert three.sizes.tolist() == [19, 16, 20]
    assert np.allclose(fraction, [0.73, 0.25, 0.85], atol=0.01)
    (many, fraction) = GroupTrials().split(place(None, data=DataSet("3", rows=("a", "b")))).evidence["fraction"]
    assert many.n_instances == 600
    assert (fraction == 0).sum() == 62


def test_group_evidence_is_the_true_fraction_or_its_label():
    data = DataSet("figure-3", rows=("same", "fresh"))
    split = GroupTrials().split(place(None, data=data))
    bags, fraction = split.evidence["fraction"]
    same, fresh = split.parts
    assert np.allclose(fraction, np.add.reduceat(same.instance_truth, bags.offsets[:-1]) / 8)
    assert np.array_equal(split.evidence["label"][1], fraction > 0)
    assert not np.array_equal(same.bags.X, fresh.bags.X)


def test_guessed_fractions_are_one_over_the_number_of_labels(folder):
    split = GroupTrials().split(place(folder, data=DataSet("birds", "some", "1")))
    bags, fraction = split.evidence["fraction"]
    with np.load(folder / "some.npz") as file:
        truth = file["instance_y"]
    for number, guess in enumerate(fraction):
        kinds = set(truth[bags.X[bags.index == number, 0].astype(int)].tolist())
        assert guess == (1 / len(kinds) if 1 in kinds else 0.0)


def test_every_class_of_two_bags_is_in_both_halves():
    y = np.zeros((8, 2))
    y[[0, 5], 0] = y[[2, 3], 1] = 1.0
    for seed in range(20):
        is_test = _half_with_every_class(y, np.random.default_rng(seed))
        assert is_test.sum() == 4
        assert y[is_test].any(axis=0).all()
        assert y[~is_test].any(axis=0).all()
