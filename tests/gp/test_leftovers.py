"""Leftovers shared inside a bag: their factors, copies of a far row against quadrature, and what must not matter."""

import numpy as np
import pytest
import torch
from scipy.stats import norm
from tests.problems import features_of, random_bags

from bagwise import BagGP, Bags
from bagwise.active import suggest
from bagwise.bag_models.rules import AtLeastOne
from bagwise.gp import features as features_module
from bagwise.gp import kernels, leftovers
from bagwise.gp.leftovers import share_leftover
from bagwise.predict.bags import bag_probability
from bagwise.predict.counts import count_distribution
from bagwise.predict.points import Fitted


@pytest.fixture(scope="module")
def model():
    bags = random_bags(np.random.default_rng(0), 30, (1, 8))
    y = np.array([part.X[:, 0].max() > 0.8 for part in (bags[[k]] for k in range(len(bags)))], dtype=float)
    return BagGP(kernel="rbf", learn=False, size_effect=False, n_inducing=15, bias=1.0, random_state=0).fit(bags, y)


def far_rows(n, at=4.0):
    return np.tile([[at, -at]], (n, 1))


def bag_of(*parts):
    return Bags(np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts]))


def positive(model, bags, shares=True):
    fitted = Fitted(model.features_, model.posterior_, AtLeastOne(shares=shares), model.seed_)
    return bag_probability(fitted, bags)[:, 0]


# ---------------------------------------------------------------- the factorisation


def factored(model, bags):
    (_, design) = next(model.features_.designs(bags))
    own = design.phi[:, : model.features_.n_inducing]
    x = model.features_.standardised(bags.X)
    found = share_leftover(model.features_.kernel, x, own, design.kappa, design.segments, torch.ones(len(x)).double())
    with torch.no_grad():
        whole = kernels.gram(model.features_.kernel, x) - own @ own.T
    return found, whole, design


def test_what_is_shared_and_what_is_not_add_up_to_the_leftover_covariance(model):
    bags = bag_of(3 * np.random.default_rng(1).normal(size=(12, 2)), 3 * np.random.default_rng(2).normal(size=(7, 2)))
    found, whole, design = factored(model, bags)
    for rows in (slice(0, 12), slice(12, 19)):
        U, d = found.shared[rows], found.rest[rows]
        made = U @ U.T + torch.diag(d)
        assert (made - whole[rows, rows]).abs().max() < 0.1 * whole[rows, rows].diagonal().max()
        np.testing.assert_allclose(made.diagonal(), design.kappa[rows], atol=1e-5)
        assert d.sum() <= 0.01 * design.kappa[rows].sum() + 1e-5


def test_a_bag_of_one_shares_nothing(model):
    found, _, design = factored(model, bag_of(far_rows(1), far_rows(3), far_rows(1, 5.0)))
    assert not found.shared[[0, 4]].any()
    assert torch.equal(found.rest[[0, 4]], design.kappa[[0, 4]])
    assert found.shared[1:4].any()


def test_bag_with_a_negligible_leftover_shares_nothing_whatever_its_company(model):
    features = model.features_
    near = (features.inducing[:6] * features.scale + features.shift).numpy() + 0.004
    (_, design) = next(features.designs(bag_of(near)))
    assert 1e-6 < design.kappa.max() < leftovers.NEGLIGIBLE
    np.testing.assert_allclose(
        positive(model, bag_of(near, far_rows(3)))[:1], positive(model, bag_of(near)), atol=1e-13
    )


def test_copies_share_all_that_is_left_over(model):
    found, _, design = factored(model, bag_of(far_rows(5)))
    assert found.shared.shape[1] == 1
    np.testing.assert_allclose(found.shared[:, 0].square(), design.kappa)
    np.testing.assert_allclose(found.rest, 0.0, atol=1e-12)


def test_no_more_columns_than_the_rank_allowed(model, monkeypatch):
    monkeypatch.setattr(leftovers, "RANK", 3)
    bags = bag_of(6 * np.random.default_rng(1).normal(size=(20, 2)))
    found, _, design = factored(model, bags)
    assert found.shared.shape[1] == 3
    np.testing.assert_allclose(found.shared.square().sum(1) + found.rest, design.kappa, atol=1e-5)


# ---------------------------------------------------------------- bags of copies


def by_quadrature(model, row, n):
    """1 − E cdf(−f)ⁿ with one f."""
    mean, variance = (float(part[0]) for part in model.predict_latent(bag_of(row[:1])))
    f = mean + np.sqrt(variance) * np.linspace(-9, 9, 4001)
    weight = norm.pdf(f, mean, np.sqrt(variance))
    return 1.0 - float((weight * norm.cdf(-f) ** n).sum() / weight.sum())


@pytest.mark.parametrize("n", [2, 10, 100])
def test_copies_of_a_far_row_have_the_probability_of_one_latent_value(model, n):
    found = positive(model, bag_of(far_rows(n)))[0]
    assert found == pytest.approx(by_quadrature(model, far_rows(1), n), abs=0.01)


@pytest.mark.parametrize("n", [2, 10, 100])
def test_copies_amid_other_rows_do_not_become_a_lottery(model, n):
    other = np.array([[0.1, 0.2], [-4.0, 4.0]])
    few, many = positive(model, bag_of(np.vstack([far_rows(1), other]), np.vstack([far_rows(n), other])))
    alone = positive(model, bag_of(far_rows(1), far_rows(n)), shares=False)
    assert few - 1e-9 <= many
    assert many - few < alone[1] - alone[0] + 0.01
    exact = by_quadrature(model, far_rows(1), n) - by_quadrature(model, far_rows(1), 1)
    assert many - few < exact + 0.02


@pytest.mark.parametrize("n", [2, 10])
def test_rule_that_does_not_share_gives_the_independent_formula(model, n):
    bags = bag_of(far_rows(n))
    fitted = Fitted(model.features_, model.posterior_, AtLeastOne(shares=False), model.seed_)
    (latent,) = fitted.latent(bags)
    (_, design) = next(model.features_.designs(bags))
    v = np.random.default_rng(0).standard_normal((len(model.posterior_.mean), 200_000))
    draws = model.posterior_.draws(torch.from_numpy(v))[0]
    score = (design.phi[0] @ draws) / torch.sqrt(1.0 + design.kappa[0])
    expected = 1.0 - (torch.special.ndtr(-score) ** n).mean().item()
    assert latent.leftover(0).shared.shape[1] == 0
    assert positive(model, bags, shares=False)[0] == pytest.approx(expected, abs=0.005)
    assert positive(model, bags, shares=False)[0] > positive(model, bags)[0] + 0.02


def test_instances_and_bags_of_one_are_what_they_are_without_sharing(model):
    bags = bag_of(far_rows(1), far_rows(1, 0.3), far_rows(4))
    np.testing.assert_allclose(positive(model, bags)[:2], positive(model, bags, shares=False)[:2], atol=1e-12)
    np.testing.assert_allclose(positive(model, bags)[:2], model.predict_instance_proba(bags)[:2, 1], atol=1e-9)


# ---------------------------------------------------------------- what must not matter


@pytest.fixture(scope="module")
def company():
    rng = np.random.default_rng(4)
    return bag_of(*(rng.normal(size=(n, 2)) * rng.choice([1.0, 4.0]) for n in (1, 5, 40, 2, 9, 30, 3)))


def test_company_changes_no_probability_and_no_law_under_sharing(model, company):
    alone = [positive(model, company[[k]])[0] for k in range(len(company))]
    np.testing.assert_allclose(positive(model, company), alone, rtol=0, atol=1e-10)
    laws = [count_distribution(model._fitted(), company[[k]]) for k in range(len(company))]
    np.testing.assert_allclose(count_distribution(model._fitted(), company), np.concatenate(laws), rtol=0, atol=1e-10)


def test_chunks_change_no_probability_under_sharing(model, company, monkeypatch):
    whole = positive(model, company)
    monkeypatch.setattr(features_module, "CHUNK_ROWS", 10)
    np.testing.assert_allclose(positive(model, company), whole, rtol=0, atol=1e-10)


def test_order_of_instances_changes_no_probability_under_sharing(model, company):
    rows = np.random.default_rng(0).permutation(company.n_instances)
    turned = Bags(company.X[rows], company.index[rows])
    places = [list(turned.ids).index(name) for name in company.ids]
    np.testing.assert_allclose(positive(model, turned)[places], positive(model, company), rtol=0, atol=1e-10)


def test_count_law_and_probability_of_a_bag_agree_under_sharing(model, company):
    law = count_distribution(model._fitted(), company)[:, 0]
    start = np.cumsum(company.sizes + 1) - company.sizes - 1
    np.testing.assert_allclose(1.0 - law[start], positive(model, company), atol=1e-12)
    np.testing.assert_allclose(np.add.reduceat(law, start), 1.0, atol=1e-9)


def test_law_of_copies_is_that_of_one_latent_value(model):
    n = 10
    law = count_distribution(model._fitted(), bag_of(far_rows(n)))[:, 0]
    mean, variance = (float(part[0]) for part in model.predict_latent(bag_of(far_rows(1))))
    f = mean + np.sqrt(variance) * np.linspace(-9, 9, 2001)
    weight = norm.pdf(f, mean, np.sqrt(variance))
    all_positive = float((weight * norm.cdf(f) ** n).sum() / weight.sum())
    assert law[n] == pytest.approx(all_positive, abs=0.02)


def test_information_about_bags_with_shared_leftovers_is_finite_and_not_negative(model, company):
    gains = suggest(model, company, n=len(company)).to_frame()
    utilities = gains.select_dtypes("number").to_numpy()
    assert np.isfinite(utilities).all()


def test_log_probability_of_a_negative_bag_averages_to_its_probability(model, company):
    for latent in model._fitted().latent(company):
        found = -torch.expm1(model.rule_.log_negative(latent, 0)).mean(1)
        np.testing.assert_allclose(found, positive(model, company), atol=0.03)


def test_segments_of_unequal_bags_share_only_within_themselves(model):
    bags = bag_of(far_rows(3), far_rows(3))
    found, _, _ = factored(model, bags)
    assert found.shared.shape == (6, 1)
    both = positive(model, bags)
    assert both[0] == pytest.approx(both[1], abs=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "matern52"])
def test_leftovers_of_a_bag_have_the_covariance_that_the_features_leave(kernel):
    """C − UUᵀ is positive semi-definite with the diagonal d, so no entry exceeds √(dᵢ dⱼ)."""
    bags = random_bags(np.random.default_rng(0), n_bags=8, sizes=(1, 12))
    features = features_of(bags, kernel=kernel, n_inducing=3)
    ((_, design),) = features.designs(bags)
    x = features.standardised(bags.X)
    found = share_leftover(features.kernel, x, design.phi, design.kappa, design.segments, torch.ones(len(x)))
    for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        own, phi, rest = x[start:stop], design.phi[start:stop], found.rest[start:stop]
        left = kernels.gram(features.kernel, own).detach() - phi @ phi.T
        unexplained = left - found.shared[start:stop] @ found.shared[start:stop].T
        torch.testing.assert_close(unexplained.diagonal(), rest, rtol=0, atol=2e-6)
        assert bool((unexplained.abs() <= (rest[:, None] * rest).sqrt() + 2e-6).all())
        enough = 0.01 * design.kappa[start:stop].sum() + 1e-5 if stop - start > 1 else design.kappa[start]
        assert float(rest.sum()) <= float(enough)
