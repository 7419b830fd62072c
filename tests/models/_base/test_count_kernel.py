"""Kinds of kernel are compared by one judge, and another than the usual one has to gain what its parameters cost."""

import copy

import numpy as np
import pytest

from bagwise import BagGP, Bags
from bagwise.inference.kernel_learning.learn import Learned
from bagwise.inference.loop import Trace
from bagwise.models._base import count_kernel
from bagwise.models._base.flat_evidence import _FLAT

WIDTH = 100  # of rows from which on there is a choice of kinds


@pytest.fixture(scope="module")
def wide():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, WIDTH))
    bags = Bags(X, np.repeat(np.arange(20), 3))
    return bags, np.add.reduceat((X[:, 0] > 0).astype(int), bags.offsets[:-1])


def told(first, highest, name="log evidence"):
    return Learned(None, Trace(name, np.array([first, highest]), np.zeros(2), True))


def chosen(values):
    """The kind that is taken where searches begin and end with these log evidences, and learn two parameters."""

    def reached(kind):
        first, highest = values[kind]
        flat = kind == "rbf" and highest - first <= 4.0
        learned = told(first, highest, f"log evidence, {_FLAT}" if flat else "log evidence")
        return count_kernel._worth(learned, 4.0), learned

    return count_kernel._best_kind({kind: reached(kind) for kind in ("rbf", "linear")}, reached)[0]


def test_usual_kernel_stays_where_another_kind_gains_less_than_its_parameters_cost():
    values = {"rbf": (-154.1, -153.4), "linear": (-153.4, -152.2), "rbf+linear": (-155.9, -154.2)}
    assert chosen(values) == "rbf"
    assert chosen(values | {"linear": (-153.4, -150.0)}) == "linear"  # 4.1 above the first kernel of the usual kind


def test_learned_kinds_are_compared_by_what_they_reach():
    assert chosen({"rbf": (-160.0, -150.0), "linear": (-170.0, -149.0), "rbf+linear": (-160.0, -147.0)}) == "linear"
    assert chosen({"rbf": (-160.0, -150.0), "linear": (-170.0, -149.0), "rbf+linear": (-160.0, -145.9)}) == "rbf+linear"


def test_labels_are_compared_by_what_they_reach_alone():
    assert count_kernel._worth(told(-9.0, -5.0), None) == -5.0


def test_kinds_of_kernel_are_judged_by_moments_where_numbers_are_stated_exactly(wide, monkeypatch):
    """Messages settle at one kind of kernel and not at another, and their log evidence is no density."""
    learn, judged = count_kernel.learn_features, []

    def watched(features, bags, evidence, settings, *others):
        judged.append((settings.by_moments, settings.pinned, settings.one_stage))
        return learn(features, bags, evidence, settings, *others)

    monkeypatch.setattr(count_kernel, "learn_features", watched)
    bags, numbers = wide
    BagGP(evidence="count", n_inducing=10, random_state=0).fit(bags, numbers)
    assert len(judged) >= 3
    assert {by_moments for by_moments, *_ in judged[:-1]} == {True}


def test_all_kinds_of_kernel_are_judged_by_the_same_bags(wide, monkeypatch):
    """A linear kernel rests on other inducing inputs, and to choose these takes other random numbers."""
    learn, judged = count_kernel.learn_features, []

    def watched(features, bags, evidence, settings, *others):
        judged.append((features, settings.random.get_state()[1].tolist()))
        return learn(features, bags, evidence, settings, *others)

    monkeypatch.setattr(count_kernel, "learn_features", watched)
    monkeypatch.setattr(count_kernel, "CLOSE", 1e9)  # so that the sum is tried too
    bags, numbers = wide
    BagGP(n_inducing=10, size_effect=False, random_state=0).fit(bags, (numbers > 1).astype(int))
    kinds = {str(features.kernel): features for features, _ in judged}
    assert len(kinds) == 3
    assert all(stream == judged[0][1] for _, stream in judged)
    rbf, linear, both = kinds.values()
    assert np.array_equal(rbf.inducing, both.inducing)
    assert linear.origin != rbf.origin == both.origin


@pytest.mark.parametrize(("linear", "stays"), [(-9.0, False), (-19.0, True)])
def test_another_kind_keeps_what_it_has_learned_though_its_own_search_gained_little(wide, monkeypatch, linear, stays):
    """The usual kind stays where it began, at −20, unless another one is worth more."""
    bags, numbers = wide
    begun = []

    def searched(model, features, bags, counts, how):
        begun.append(how.begin)
        assert how.by_moments == (how.choosing or stays)
        is_linear = "Linear" in str(features.kernel) and "RBF" not in str(features.kernel)
        first = linear if is_linear else -20.0
        moved = copy.deepcopy(features)
        moved.kernel.outputscale = 77.0
        return Learned(moved, Trace("log evidence", np.array([first, first + 0.1]), np.zeros(2), True))

    monkeypatch.setattr(count_kernel, "_search", searched)
    monkeypatch.setattr(count_kernel, "prefer_second", lambda *given, **named: False)
    model = BagGP(evidence="count", n_inducing=10, random_state=0).fit(bags, numbers)
    assert begun[0] is None
    assert (begun[-1].kernel.outputscale.item() == pytest.approx(77.0)) == (not stays)
    assert ("Linear" in str(model.features_.kernel)) == (not stays)


def test_bags_left_out_bring_the_usual_kind_back_where_numbers_are_stated_exactly(wide, monkeypatch):
    bags, numbers = wide
    asked = []

    def worth(learned, least):
        return 0.0 if "RBF" in str(learned.features.kernel) else 99.0

    def preferred(model, one, other, bags, evidence):
        assert one is not other
        asked.append(str(one.kernel))
        return "RBF" in str(other.kernel) and "RBF" not in str(one.kernel)

    monkeypatch.setattr(count_kernel, "_worth", worth)
    monkeypatch.setattr(count_kernel, "prefer_second", preferred)
    model = BagGP(evidence="count", n_inducing=10, random_state=0).fit(bags, numbers)
    assert "Linear" in asked[0]
    assert "RBF" in str(model.kernel_)
    monkeypatch.setattr(count_kernel, "_worth", lambda learned, least: -worth(learned, least))
    BagGP(evidence="count", n_inducing=10, random_state=0).fit(bags, numbers)
    asked.clear()
    monkeypatch.setattr(count_kernel, "_worth", worth)
    model = BagGP(n_inducing=10, size_effect=False, random_state=0).fit(bags, (numbers > 1).astype(int))
    assert not asked
    assert "RBF" not in str(model.kernel_)
