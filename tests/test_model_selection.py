import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from tests.problems import random_bags, random_labels

from bagwise import GPMIL, BagDataError, MILGPProbit
from bagwise.datasets import make_bags
from bagwise.model_selection import BagGroupKFold, RetrievalSplit, held_out
from bagwise.model_selection import cross_val_score as grouped_score


@pytest.fixture
def categories():
    return np.random.default_rng(0).permutation(np.repeat(np.arange(25), 60))


def test_retrieval_split_follows_the_published_protocol(categories):
    """25 categories of 60: twenty of the wanted one, one of each other one; everything else is ranked."""
    y = (categories == 7).astype(int)
    splitter = RetrievalSplit(3, random_state=0)
    assert splitter.get_n_splits() == 3
    seen = set()
    for train, test in splitter.split(np.zeros(1500), y, categories):
        assert y[train].sum() == 20
        assert sorted(categories[train[y[train] == 0]]) == [c for c in range(25) if c != 7]
        assert sorted([*train, *test]) == list(range(1500))
        seen.add(tuple(train))
    assert len(seen) == 3


def test_more_negatives_than_categories_come_evenly():
    categories = np.repeat(np.arange(20), 100)
    y = (categories == 0).astype(int)
    train, _ = next(RetrievalSplit(1, random_state=1).split(y, y, categories))
    counts = np.bincount(categories[train], minlength=20)[1:]
    assert counts.sum() == 24
    assert set(counts) == {1, 2}


def test_without_categories_negatives_are_drawn_at_random(categories):
    y = np.where(categories == 3, "yes", "no")
    train, test = next(RetrievalSplit(1, n_positive=5, n_negative=7, random_state=0).split(y, y))
    assert (y[train] == "yes").sum() == 5
    assert len(train) == 12
    assert not set(train) & set(test)


def test_the_random_state_decides(categories):
    y = (categories == 1).astype(int)
    first, again, other = (next(RetrievalSplit(1, random_state=s).split(y, y))[0] for s in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


def test_retrieval_split_works_in_cross_validation_of_scikit_learn():
    bags, y, _ = make_bags(60, 4, random_state=0)
    splitter = RetrievalSplit(2, n_positive=10, n_negative=12, random_state=0)
    scores = cross_val_score(GPMIL(learn=False), bags, y, cv=splitter, scoring="roc_auc")
    assert scores.shape == (2,)
    assert scores.mean() > 0.6


@pytest.mark.parametrize(
    ("settings", "y", "groups", "message"),
    [
        ({}, None, None, "needs y"),
        ({}, np.arange(60) % 3, None, "two class values"),
        ({}, np.arange(60) % 2, None, "n_positive=30: there are 30 bags of the wanted kind"),
        ({"n_positive": 5}, np.arange(60) % 2, np.arange(5), "groups has 5 entries"),
        ({"n_positive": 5, "n_negative": 0}, np.arange(60) % 2, None, "n_negative"),
    ],
    ids=["no y", "three classes", "too few", "groups", "none"],
)
def test_what_cannot_be_split_is_refused(settings, y, groups, message):
    splitter = RetrievalSplit(1, **({"n_positive": 30} | settings))
    with pytest.raises(BagDataError, match=message):
        next(splitter.split(np.zeros(60), y, groups))


def grouped_bags():
    rng = np.random.default_rng(0)
    group = np.repeat([f"patient {k}" for k in range(10)], rng.integers(1, 5, 10))
    bags = random_bags(rng, n_bags=len(group))
    return bags.with_group(group), random_labels(rng, bags)


@pytest.mark.parametrize("shuffle", [False, True])
def test_folds_never_tear_a_patient_apart(shuffle):
    bags, y = grouped_bags()
    group = np.array(bags.group)
    tested = []
    for train, test in BagGroupKFold(4, shuffle=shuffle, random_state=0 if shuffle else None).split(bags, y):
        assert not set(group[train]) & set(group[test])
        tested.extend(test)
    assert sorted(tested) == list(range(len(bags)))


def test_bags_without_groups_stand_for_themselves_in_folds():
    rng = np.random.default_rng(0)
    bags = random_bags(rng, n_bags=10)
    folds = list(BagGroupKFold(5).split(bags))
    assert sorted(len(test) for _, test in folds) == [2] * 5


def test_cross_validation_by_groups_works_with_scikit_learn():
    bags, y = grouped_bags()
    assert len(cross_val_score(MILGPProbit(random_state=0), bags, y, cv=BagGroupKFold(3))) == 3


def test_cross_val_score_of_bagwise_never_tears_a_group_apart(monkeypatch):
    bags, y = grouped_bags()
    seen = []

    class Watched(MILGPProbit):
        def fit(self, bags, y, sample_weight=None):
            seen.append(set(bags.group))
            return super().fit(bags, y, sample_weight)

        def score(self, bags, y, sample_weight=None):
            assert not seen[-1] & set(bags.group)
            return super().score(bags, y, sample_weight)

    model = Watched(n_inducing=5, max_iter=2, random_state=0)
    found = grouped_score(model, bags, y, cv=3, params={"sample_weight": np.ones(len(bags))})
    assert len(seen) == len(found) == 3
    np.testing.assert_array_equal(grouped_score(model, bags, y, cv=BagGroupKFold(3)), found)


def test_more_folds_than_groups_are_refused():
    bags, y = grouped_bags()
    with pytest.raises(BagDataError, match="there are only 10 groups"):
        next(BagGroupKFold(11).split(bags, y))


def test_held_out_answers_come_from_models_that_never_saw_the_group():
    bags, y = grouped_bags()
    model = MILGPProbit(random_state=0).fit(bags, y)
    judge = held_out(model, bags, y, 3)
    group = np.array(bags.group)
    for name in ("patient 0", "patient 7"):
        (fold,) = [test for test in judge.folds if group[test[group[test] == name]].size]
        train = np.setdiff1d(np.arange(len(bags)), fold)
        assert name not in group[train]
        own, alone = bags[group == name], clone(model).fit(bags[train], y[train])
        np.testing.assert_allclose(judge.predict_proba(bags)[group == name], alone.predict_proba(own))
        inside = np.isin(bags.index, np.flatnonzero(group == name))
        np.testing.assert_allclose(judge.predict_instance_proba(bags)[inside], alone.predict_instance_proba(own))
