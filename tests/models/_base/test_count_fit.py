"""Which inference answers in the end, and what is said where it is not the first choice."""

import numpy as np
import pytest
from tests.inference.engine_problems import new_problem
from tests.models.class_problems import CENTRES

from bagwise import BagGP, Bags, ConvergenceWarning
from bagwise.datasets import make_bags
from bagwise.evidence.statements import label
from bagwise.exceptions import NumericalError
from bagwise.models._base import count_fit


@pytest.fixture(scope="module")
def problem():
    return new_problem()


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


def test_shares_of_every_class_tell_the_class_of_instances():
    rng = np.random.default_rng(0)
    shown = np.concatenate([rng.choice(3, 8, p=p) for p in rng.dirichlet(np.ones(3), 20)])
    bags = Bags(rng.normal(0, 0.8, (160, 2)) + CENTRES[shown], np.repeat(np.arange(20), 8))
    shares = np.stack([np.bincount(bag, minlength=3) / 8 for bag in shown.reshape(20, 8)])
    model = fitted((bags[:15], shares[:15]), evidence="fraction", n_inducing=30)
    p = model.predict_instance_proba(bags[15:])
    assert np.mean(p.argmax(1) == shown[120:]) > 0.95
    np.testing.assert_allclose(p.sum(1), 1.0, atol=0.3)
    assert np.abs(model.predict_fraction(bags[15:]).mean - shares[15:]).mean() < 0.06


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
