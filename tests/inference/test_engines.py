"""Which inference suits which bags, and what happens where one of them fails."""

import numpy as np
import pytest
from tests.problems import features_of

from bagwise import BagGP, Bags, ConvergenceWarning
from bagwise.datasets import make_bags
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.statements import label
from bagwise.exceptions import NumericalError
from bagwise.inference import engines
from bagwise.inference.engines import Limits, by_bag_sites, engine_for, size_of_own_bag
from bagwise.inference.loop import SILENT, Watch
from bagwise.models._base import count_fit


def bags_of(sizes):
    return Bags(np.zeros((sum(sizes), 1)), np.repeat(np.arange(len(sizes)), sizes))


def evidence_of(sizes, n_labels=1, missing=()):
    labels = np.zeros((len(sizes), n_labels))
    labels[list(missing)] = np.nan
    return CountEvidence(labels, np.asarray(sizes))


def chosen(sizes, tight=False, **changes):
    return engine_for(bags_of(sizes), evidence_of(sizes, **changes), tight)


# ---------------------------------------------------------------- the rule


def test_size_of_own_bag_is_a_mean_over_instances():
    assert size_of_own_bag(np.array([1, 3])) == pytest.approx((1 * 1 + 3 * 3) / 4)


@pytest.mark.parametrize(
    ("sizes", "engine"),
    [([30] * 4, "ep"), ([31] * 4, "bag-ep"), ([1] * 50 + [40], "ep"), ([1] * 20 + [200], "bag-ep"), ([1] * 9, "ep")],
)
def test_large_bags_have_one_site_each_and_small_ones_messages(sizes, engine):
    assert chosen(sizes) == engine


def test_pinned_counts_go_to_the_mean_field_whatever_the_sizes():
    assert chosen([2, 2], tight=True) == "vi"
    assert chosen([200, 200], tight=True) == "vi"


def test_bags_without_a_label_do_not_decide():
    assert chosen([5, 5, 500], missing=(2,)) == "ep"
    assert chosen([5, 5, 500], missing=(0, 1)) == "bag-ep"
    assert chosen([500, 500], missing=(0, 1)) == "ep"


def test_too_many_messages_go_to_the_mean_field(monkeypatch):
    monkeypatch.setattr(engines, "LARGEST_MESSAGES", 20)
    assert chosen([5] * 4) == "ep"
    assert chosen([5] * 4, n_labels=2) == "vi"
    assert chosen([7] * 3) == "vi"
    assert chosen([50] * 3) == "bag-ep"


# ---------------------------------------------------------------- sites per bag, as an engine


@pytest.fixture(scope="module")
def problem():
    bags, y, _ = make_bags(16, (3, 8), 2, random_state=0)
    return bags, y


def test_sites_that_have_not_settled_are_an_error(problem):
    bags, y = problem
    evidence = CountEvidence(y[:, None].astype(float), bags.sizes)
    with pytest.raises(NumericalError, match=r"its sites still moved by .* after 1 sweeps"):
        by_bag_sites(features_of(bags), bags, evidence, Limits(1, 1e-9, SILENT), 0)


def test_interrupted_columns_keep_the_prior(problem):
    bags, y = problem
    evidence = CountEvidence(np.column_stack([y, 1 - y]).astype(float), bags.sizes)

    def stop(iteration, value):
        raise KeyboardInterrupt

    found = by_bag_sites(features_of(bags), bags, evidence, Limits(50, 1e-6, Watch(callback=stop)), 0)
    assert found.trace.interrupted
    assert found.posterior.mean.shape[1] == 2
    assert found.posterior.mean[:, 0].abs().max() > 0
    assert not found.posterior.mean[:, 1].any()


# ---------------------------------------------------------------- the chain of BagGP


def failing(*_, **__):
    raise NumericalError("made to fail")


def fitted(problem, y=None, **changes):
    bags, own = problem
    settings = {"learn": False, "kernel": "rbf", "size_effect": False, "random_state": 0} | changes
    return BagGP(**settings).fit(bags, own if y is None else y)


def test_without_failure_there_is_no_fallback(problem):
    model = fitted(problem)
    assert model.inference_ == "ep"
    assert model.fallback_ is None


def test_failing_messages_fall_back_to_one_site_per_bag_with_a_warning(problem, monkeypatch):
    monkeypatch.setattr(count_fit, "by_messages", failing)
    with pytest.warns(ConvergenceWarning, match=r"made to fail.*one site per bag.*inference_ is 'bag-ep'"):
        model = fitted(problem)
    assert model.inference_ == "bag-ep"
    assert model.fallback_ == "expectation propagation failed (made to fail)"
    expected = fitted(problem, inference="bag-ep")
    np.testing.assert_allclose(model.predict_proba(problem[0]), expected.predict_proba(problem[0]), atol=1e-12)


def test_failing_sites_fall_back_to_the_mean_field_and_both_failures_are_told(problem, monkeypatch):
    monkeypatch.setattr(count_fit, "by_messages", failing)
    monkeypatch.setattr(count_fit, "by_bag_sites", failing)
    with pytest.warns(ConvergenceWarning) as told:
        model = fitted(problem)
    assert model.inference_ == "vi"
    assert len(told) == 2
    assert "the mean-field answer" in str(told[1].message)
    assert model.fallback_ == (
        "expectation propagation failed (made to fail), then expectation propagation with a site per bag failed "
        "(made to fail)"
    )
    expected = fitted(problem, inference="vi")
    np.testing.assert_allclose(model.predict_proba(problem[0]), expected.predict_proba(problem[0]), atol=1e-12)


def test_messages_about_more_than_labels_fall_back_to_the_mean_field_at_once(problem, monkeypatch):
    bags, y = problem
    known = np.full(bags.n_instances, np.nan)
    known[bags.offsets[:-1][y == 0]] = 0.0
    monkeypatch.setattr(count_fit, "by_messages", failing)
    monkeypatch.setattr(count_fit, "by_bag_sites", lambda *_: pytest.fail("one site per bag"))
    with pytest.warns(ConvergenceWarning, match="the mean-field answer"):
        model = fitted((bags.with_known(known), y), y=label(y))
    assert model.inference_ == "vi"


def test_a_second_fit_forgets_the_fallback_of_the_first(problem, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(count_fit, "by_messages", failing)
        with pytest.warns(ConvergenceWarning):
            model = fitted(problem)
    model.fit(*problem)
    assert model.fallback_ is None
    assert model.inference_ == "ep"


def test_sites_that_have_nearly_settled_answer_with_a_warning(monkeypatch):
    bags, y, _ = make_bags(20, (2, 6), random_state=0)
    monkeypatch.setattr(count_fit, "NEARLY", 10.0)
    with pytest.warns(ConvergenceWarning, match="has nearly settled: its sites still moved by .* after 2 sweeps"):
        model = BagGP(inference="bag-ep", learn=False, max_iter=2, n_inducing=8, random_state=0).fit(bags, y)
    assert model.inference_ == "bag-ep"
    assert not model.converged_
