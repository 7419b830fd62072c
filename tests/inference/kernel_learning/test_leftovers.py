"""Whether leftovers belong to the model, judged by the labels of bags that were left out."""

from dataclasses import replace

import gpytorch
import numpy as np
import pandas as pd
import pytest
from tests.problems import features_of

from bagwise import BagDataError, BagGP, Bags, load
from bagwise.evidence.counts import CountEvidence
from bagwise.inference.engines import Limits, by_messages
from bagwise.inference.kernel_learning.left_out import MOST_ROWS, PARTS, dealt, gain_of_second
from bagwise.inference.kernel_learning.leftovers import LEAST_GAIN, may_be_left_out
from bagwise.inference.loop import SILENT
from bagwise.models._base import by_left_out_bags

D = 6


def bags_of(X, n_bags):
    return Bags(X.reshape(-1, D), np.repeat(np.arange(n_bags), X.size // (D * n_bags)))


def witness_among_strangers(n_bags=44, n_rows=5, seed=0):
    """Rows of every bag lie around a place of its own, where no other bag has any; positive bags hold a witness too."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    X = rng.normal(scale=2.0, size=(n_bags, 1, D)) + rng.normal(scale=0.3, size=(n_bags, n_rows, D))
    X[y == 1, 0] = rng.normal(scale=0.3, size=(int(y.sum()), D))
    return bags_of(X, n_bags), y


def nothing_to_learn(n_bags=44, n_rows=5, seed=0):
    """Labels that have nothing to do with the rows."""
    rng = np.random.default_rng(seed)
    return bags_of(rng.normal(size=(n_bags, n_rows, D)), n_bags), rng.permutation(np.arange(n_bags) % 2)


def unlearned(**changes):
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 10.0, 1.2
    settings = {"kernel": kernel, "learn": False, "n_inducing": 20, "random_state": 0, "size_effect": False}
    return BagGP(**settings | changes)


def labels_of(y, bags, **others):
    return CountEvidence(np.asarray(y, dtype=float).reshape(len(bags), -1), bags.sizes, **others)


def judged(features, bags, evidence):
    return by_messages(features, bags, evidence, Limits(None, None, SILENT))


def gain_on(bags, y, seed=0, infer=judged, **others):
    model = unlearned().fit(bags, y)

    def both(some):
        kept = by_left_out_bags.same_kernel(model, model.features_, some)
        return kept, replace(kept, leftovers=False)

    return gain_of_second(both, infer, bags, labels_of(y, bags, **others), seed)


def test_gain_is_what_models_that_never_saw_a_bag_say_about_its_label():
    bags, y = witness_among_strangers()
    part, gain = dealt(y[:, None].astype(float), 3), 0.0
    for k in range(PARTS):
        seen, new = np.flatnonzero(part != k), np.flatnonzero(part == k)
        for leftovers, sign in (("none", 1.0), ("shared", -1.0)):
            model = unlearned(leftovers=leftovers).fit(bags[seen], y[seen])
            model.seed_ = 3
            gain += sign * np.log(model.predict_proba(bags[new])[np.arange(len(new)), y[new]]).sum()
    assert gain_on(bags, y, 3) == pytest.approx(gain, abs=1e-6)


def test_leftovers_go_where_strangers_mean_nothing_and_stay_where_one_cannot_know():
    assert gain_on(*witness_among_strangers()) > LEAST_GAIN
    assert gain_on(*nothing_to_learn()) < 0


def test_it_is_asked_where_labels_are_many_and_something_is_left_over():
    bags, y = witness_among_strangers()
    features = features_of(bags, n_inducing=20)
    assert may_be_left_out(features, bags, labels_of(y, bags))
    assert not may_be_left_out(features, bags, labels_of(np.where(np.arange(44) < 6, y, 0), bags))  # few positives
    assert not may_be_left_out(features_of(bags, n_inducing=None), bags, labels_of(y, bags))  # no row is left over
    linear = features_of(bags, n_inducing=20, kernel="linear", inducing="principal", lengthscale=None)
    assert not may_be_left_out(linear, bags, labels_of(y, bags))
    many = MOST_ROWS // bags.n_instances + 1
    assert not may_be_left_out(features, bags, labels_of(np.tile(y[:, None], many), bags))


@pytest.mark.parametrize(("gain", "expected"), [(0.6, "none"), (0.4, "shared"), (float("nan"), "shared")])
def test_auto_follows_the_gain(monkeypatch, gain, expected):
    monkeypatch.setattr(by_left_out_bags, "gain_of_second", lambda *given: gain)
    bags, y = witness_among_strangers()
    model = BagGP(n_inducing=20, random_state=0, kernel="rbf", size_effect=False).fit(bags, y)
    assert model.leftovers_ == expected
    assert model.fit_record().leftovers == expected


def test_without_leftovers_a_strange_row_is_as_certain_as_the_constant_and_files_keep_it(tmp_path):
    bags, y = witness_among_strangers()
    far = Bags(np.full((1, D), 1e3), [0])
    kept, without = (unlearned(leftovers=leftovers).fit(bags, y) for leftovers in ("shared", "none"))
    (more,), (less,) = kept.predict_latent(far)[1], without.predict_latent(far)[1]
    assert more - less == pytest.approx(10.0, abs=2.0)  # the variance of the kernel
    path = tmp_path / "model.bagwise"
    without.save(path)
    again = load(path)
    assert again.leftovers_ == "none"
    np.testing.assert_array_equal(again.predict_proba(bags), without.predict_proba(bags))


def test_classes_and_totals_say_that_they_have_no_choice():
    bags, _ = witness_among_strangers()
    with pytest.raises(BagDataError, match=r"leftovers='none'.*Use 'auto' or 'shared' for classes"):
        BagGP(evidence="class", leftovers="none").fit(bags, np.array(["a", "b", "c", "a"])[np.arange(44) % 4])
    table = pd.DataFrame({"precinct": ["p", "q"], "old": [10, 20], "young": [5, 9]})
    totals = Bags.from_totals(table, bag="precinct", groups=["old", "young"])
    with pytest.raises(BagDataError, match="leftovers='none'"):
        BagGP(evidence="fraction", leftovers="none").fit(totals, [0.4, 0.6])


def test_a_word_that_is_no_choice_is_refused():
    with pytest.raises(BagDataError, match="leftovers"):
        BagGP(leftovers="dropped").fit(*witness_among_strangers())
