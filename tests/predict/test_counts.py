"""Laws of the number of positives against enumeration, Monte Carlo and the bag probability they must agree with."""

import time

import numpy as np
import pytest
import torch
from scipy.stats import norm
from tests.numerics.counting.slow_laws import slow_law
from tests.predict.test_bags import covariance, some_posterior
from tests.problems import features_of, random_bags

from bagwise import Bags
from bagwise.bag_models.rules import AtLeastOne
from bagwise.exceptions import BagDataError
from bagwise.gp.posterior import GaussianPosterior
from bagwise.numerics.links import PROBIT
from bagwise.predict.bags import bag_probability, instance_probability
from bagwise.predict.counts import count_distribution, count_probability, fraction_summary
from bagwise.predict.points import Fitted, points_of

SEED = 3


def a_problem(seed=0, columns=1, **bags):
    rng = np.random.default_rng(seed)
    some = random_bags(rng, **({"n_bags": 25, "sizes": (1, 9), "n_features": 3} | bags))
    return features_of(some, n_inducing=10, bias=2.0), some_posterior(rng, 11, columns), some


def fitted(features, posterior, seed=SEED):
    """With leftovers that are independent, as the laws written down here have them."""
    return Fitted(features, posterior, AtLeastOne(shares=False), seed)


def laws_by_bag(flat, bags):
    return np.split(flat, np.cumsum(bags.sizes + 1)[:-1])


def sure_posterior(mean, columns=2):
    """A posterior without spread: v = (0, …, 0, mean)."""
    weights = torch.zeros(columns, 1, dtype=torch.float64)
    weights[-1] = mean
    return GaussianPosterior(
        weights, 1e9 * torch.eye(columns).double()[None], torch.zeros(1, dtype=torch.int64), PROBIT
    )


# ---------------------------------------------------------------- the predictive law


def test_the_law_is_the_average_over_the_draws_of_the_model():
    features, posterior, bags = a_problem()
    phi, kappa = features.transform(bags)
    v = points_of(posterior, SEED).weights[0].numpy()
    p = norm.cdf(phi @ v / np.sqrt(1 + kappa)[:, None])
    found = laws_by_bag(count_distribution(fitted(features, posterior), bags)[:, 0], bags)
    some = bag_probability(fitted(features, posterior), bags)[:, 0]
    for b, law in enumerate(found):
        mine = p[bags.offsets[b] : bags.offsets[b + 1]]
        drawn = np.mean([slow_law(column) for column in mine.T], axis=0)
        assert law[0] == pytest.approx(1 - some[b], abs=1e-13)  # which is known better than by these draws alone
        np.testing.assert_allclose(law[1:] / law[1:].sum(), drawn[1:] / drawn[1:].sum(), atol=1e-13)


def test_the_law_equals_monte_carlo():
    """Plain draws of v, f and labels. Error of a frequency: 4 standard errors, and 3e-3 for the 512 points."""
    features, posterior, bags = a_problem(n_bags=6, sizes=(2, 6))
    rng, draws = np.random.default_rng(1), 200_000
    phi, kappa = features.transform(bags)
    v = rng.multivariate_normal(posterior.mean[:, 0].numpy(), covariance(posterior), draws)
    latent = v @ phi.T + rng.normal(size=(draws, len(phi))) * np.sqrt(1 + kappa)
    for b, law in enumerate(laws_by_bag(count_distribution(fitted(features, posterior), bags)[:, 0], bags)):
        counts = (latent[:, bags.offsets[b] : bags.offsets[b + 1]] > 0).sum(1)
        share = np.bincount(counts, minlength=len(law)) / draws
        assert (np.abs(law - share) < 4 * np.sqrt(share / draws) + 3e-3).all()


def test_expected_count_equals_the_sum_of_instance_probabilities():
    features, posterior, bags = a_problem()
    each = instance_probability(features, posterior, bags)[:, 0]
    scramblings = [fitted(features, posterior, seed) for seed in range(8)]  # the error of one of them has tails
    mean_law = np.mean([count_distribution(one, bags)[:, 0] for one in scramblings], axis=0)
    for b, law in enumerate(laws_by_bag(mean_law, bags)):
        expected = each[bags.offsets[b] : bags.offsets[b + 1]].mean()
        assert law @ np.arange(len(law)) / bags.sizes[b] == pytest.approx(expected, abs=2e-3)


def test_columns_have_their_own_laws():
    features, posterior, bags = a_problem(columns=3)
    together = count_distribution(fitted(features, posterior), bags)
    assert together.shape == (bags.n_instances + len(bags), 3)
    for k in range(3):
        alone = GaussianPosterior(
            posterior.mean[:, [k]], posterior.factors[[k]], torch.zeros(1, dtype=torch.int64), PROBIT
        )
        np.testing.assert_allclose(together[:, [k]], count_distribution(fitted(features, alone), bags), atol=1e-14)


@pytest.mark.parametrize(("sizes", "block"), [((1, 9), 50), ((100, 160), 9000)])
def test_company_order_and_chunks_change_nothing(sizes, block, monkeypatch):
    features, posterior, bags = a_problem(n_bags=12, sizes=sizes)
    laws = laws_by_bag(count_distribution(fitted(features, posterior), bags), bags)
    rng = np.random.default_rng(0)
    order, rows = rng.permutation(len(bags)), rng.permutation(bags.n_instances)
    moved, mixed = bags[order], Bags(bags.X[rows], np.array(bags.ids)[bags.index[rows]])
    for b, law in zip(order, laws_by_bag(count_distribution(fitted(features, posterior), moved), moved), strict=True):
        np.testing.assert_allclose(law, laws[b], atol=1e-10)
    for name, law in zip(
        mixed.ids, laws_by_bag(count_distribution(fitted(features, posterior), mixed), mixed), strict=True
    ):
        np.testing.assert_allclose(law, laws[bags.ids.index(name)], atol=1e-10)
    for b in range(3):
        np.testing.assert_allclose(count_distribution(fitted(features, posterior), bags[b]), laws[b], atol=1e-10)
    monkeypatch.setattr("bagwise.numerics.blocks.BLOCK", block)
    monkeypatch.setattr("bagwise.gp.features.CHUNK_ROWS", 7)
    monkeypatch.setattr("bagwise.numerics.counting.law._CELLS", {"cpu": 10 * block})
    np.testing.assert_allclose(count_distribution(fitted(features, posterior), bags), np.concatenate(laws), atol=1e-10)


def test_single_precision_features_are_welcome():
    features, posterior, bags = a_problem()
    single = features_of(bags, n_inducing=10, bias=2.0, dtype=torch.float32)
    law, rough = (count_distribution(fitted(map_, posterior), bags) for map_ in (features, single))
    assert rough.dtype == np.float64
    np.testing.assert_allclose(rough, law, atol=2e-3)


def test_a_bag_of_one_is_a_coin():
    features, posterior, _ = a_problem()
    one = Bags(np.zeros((1, 3)), ["x"])
    law = count_distribution(fitted(features, posterior), one)[:, 0]
    assert law.sum() == pytest.approx(1, abs=1e-14)
    assert law[1] == pytest.approx(instance_probability(features, posterior, one)[0, 0], abs=2e-3)


@pytest.mark.parametrize(("mean", "count"), [(-60.0, 0), (60.0, 5)])
def test_sure_instances_have_a_sure_count(mean, count):
    features = features_of(random_bags(np.random.default_rng(0)), n_inducing=1, bias=1.0)
    bag = Bags(np.full((5, 2), 1e3), np.zeros(5))
    law = count_distribution(fitted(features, sure_posterior(mean)), bag)[:, 0]
    np.testing.assert_allclose(law, np.arange(6) == count, atol=1e-15)
    summary = fraction_summary(fitted(features, sure_posterior(mean)), bag, 0.9)
    assert [part[0, 0] for part in summary] == pytest.approx([count / 5] * 3)


def test_a_bag_of_ten_thousand():
    features, posterior, _ = a_problem()
    rng = np.random.default_rng(2)
    bags = Bags(rng.normal(size=(10_005, 3)), np.repeat([0, 1], [10_000, 5]))
    start = time.process_time()
    large, small = laws_by_bag(count_distribution(fitted(features, posterior), bags)[:, 0], bags)
    assert time.process_time() - start < 30
    assert large.min() >= 0
    assert large.sum() == pytest.approx(1, abs=1e-10)
    each = instance_probability(features, posterior, bags)[:, 0]
    assert large @ np.arange(10_001) / 10_000 == pytest.approx(each[:10_000].mean(), abs=2e-3)
    np.testing.assert_allclose(small, count_distribution(fitted(features, posterior), bags[1])[:, 0], atol=1e-10)
    some = count_probability(fitted(features, posterior), bags, 1, None)
    np.testing.assert_allclose(some[0], 1 - large[0], atol=1e-10)


# ---------------------------------------------------------------- ranges


@pytest.mark.parametrize("sizes", [(1, 9), (120, 140)])
def test_at_least_one_is_the_bag_probability(sizes):
    features, posterior, bags = a_problem(columns=2, n_bags=10, sizes=sizes)
    found = count_probability(fitted(features, posterior), bags, 1, bags.sizes)
    none = np.stack([law[0] for law in laws_by_bag(count_distribution(fitted(features, posterior), bags), bags)])
    np.testing.assert_allclose(found, 1 - none, atol=1e-10)
    clamped = bag_probability(fitted(features, posterior), bags)
    each = instance_probability(features, posterior, bags)
    least = np.maximum.reduceat(each, bags.offsets[:-1])
    most = np.minimum(np.add.reduceat(each, bags.offsets[:-1]), 1.0)
    np.testing.assert_allclose(np.clip(found, least, most), clamped, atol=1e-10)


def test_ranges_are_sums_of_the_law():
    features, posterior, bags = a_problem(columns=2)
    laws = laws_by_bag(count_distribution(fitted(features, posterior), bags), bags)
    rng = np.random.default_rng(0)
    hi = rng.integers(0, bags.sizes + 1)
    lo = rng.integers(0, hi + 1)
    expected = [law[a : c + 1].sum(0) for law, a, c in zip(laws, lo, hi, strict=True)]
    np.testing.assert_allclose(count_probability(fitted(features, posterior), bags, lo, hi), expected, atol=1e-14)
    np.testing.assert_allclose(count_probability(fitted(features, posterior), bags, 0, None), 1.0, atol=1e-12)
    ordered = count_probability(fitted(features, posterior), bags, 0, hi), bags
    below = count_probability(fitted(features, posterior), bags, 0.0, hi.astype(float))
    np.testing.assert_array_equal(ordered[0], below)


def test_one_number_asks_bags_of_any_size():
    features, posterior, bags = a_problem()
    found = count_probability(fitted(features, posterior), bags, 4, 100)
    np.testing.assert_array_equal(found, count_probability(fitted(features, posterior), bags, 4, None))
    assert (found[bags.sizes < 4] == 0).all()
    assert (found[bags.sizes >= 4] > 0).all()


@pytest.mark.parametrize(
    ("lo", "hi", "message"),
    [
        (-1, 2, r"lo is -1; expected a whole number from 0 on"),
        (0.5, 2, r"lo is 0\.5; expected a whole number"),
        (1, np.nan, r"hi is nan; expected a whole number"),
        (1, np.inf, r"hi is inf; expected a whole number"),
        (3, 2, r"bag 'a': the range from lo=3 to hi=2 holds no count"),
        ("1", 2, r"lo: expected a whole number, or one per bag \(2\), got '1'"),
        (True, 2, r"lo: expected a whole number, or one per bag \(2\), got True"),
        ([1, 1, 1], 2, r"lo: expected a whole number, or one per bag \(2\), got an array of int64 of shape \(3,\)"),
        (0, [2, 4], r"hi of bag 'b' is 4, but the bag holds 3 instances"),
        ([3, 1], None, r"lo of bag 'a' is 3, but the bag holds 2 instances"),
        ([0, -1], [2, 3], r"lo of bag 'b' is -1; expected a whole number"),
        ([0, 2], [2, 1], r"bag 'b': the range from lo=2 to hi=1"),
    ],
)
def test_bad_ranges_are_named(lo, hi, message):
    features, posterior, _ = a_problem()
    bags = Bags(np.zeros((5, 3)), list("aabbb"))
    with pytest.raises(BagDataError, match=message):
        count_probability(fitted(features, posterior), bags, lo, hi)


# ---------------------------------------------------------------- fractions


def test_the_mean_fraction_is_the_mean_of_the_instances():
    features, posterior, bags = a_problem(columns=2)
    each = instance_probability(features, posterior, bags)
    found = fraction_summary(fitted(features, posterior), bags, 0.9).mean
    for b in range(len(bags)):
        np.testing.assert_allclose(found[b], each[bags.offsets[b] : bags.offsets[b + 1]].mean(0), atol=1e-14)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9, 0.999])
def test_intervals_are_quantiles_of_the_law(level):
    features, posterior, bags = a_problem(columns=2, sizes=(1, 40))
    _, lower, upper = fraction_summary(fitted(features, posterior), bags, level)
    laws = laws_by_bag(count_distribution(fitted(features, posterior), bags), bags)
    for b, law in enumerate(laws):
        for k in range(2):
            below = np.cumsum(law[:, k])
            expected = [np.flatnonzero(below >= q)[0] / bags.sizes[b] for q in ((1 - level) / 2, (1 + level) / 2)]
            assert [lower[b, k], upper[b, k]] == pytest.approx(expected)
            inside = law[round(lower[b, k] * bags.sizes[b]) : round(upper[b, k] * bags.sizes[b]) + 1, k].sum()
            assert inside >= level


def test_realised_fractions_fall_into_their_intervals():
    """Labels drawn from the posterior itself: at least 90 % inside, but for 4 standard errors."""
    features, posterior, bags = a_problem(n_bags=40, sizes=(5, 30))
    _, lower, upper = fraction_summary(fitted(features, posterior), bags, 0.9)
    rng, draws = np.random.default_rng(4), 2000
    phi, kappa = features.transform(bags)
    v = rng.multivariate_normal(posterior.mean[:, 0].numpy(), covariance(posterior), draws)
    positive = v @ phi.T + rng.normal(size=(draws, len(phi))) * np.sqrt(1 + kappa) > 0
    fraction = np.add.reduceat(positive, bags.offsets[:-1], axis=1, dtype=float) / bags.sizes
    inside = ((fraction >= lower[:, 0] - 1e-9) & (fraction <= upper[:, 0] + 1e-9)).mean(0)
    assert (inside > 0.9 - 4 * np.sqrt(0.09 / draws)).all()


def test_ties_in_the_quantile_do_not_follow_rounding():
    """A fair coin: P(k <= 0) is 1/2 but for rounding, and half of the law is asked for."""
    features = features_of(random_bags(np.random.default_rng(0)), n_inducing=1, bias=1.0)
    posterior, one = sure_posterior(0.0), Bags(np.full((1, 2), 1e3), [0])
    for nudge in (0.0, 1e-15, -1e-15):
        _, lower, upper = fraction_summary(fitted(features, posterior), one, 1e-12 + nudge)
        assert (lower[0, 0], upper[0, 0]) == (0.0, 0.0)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 90, "0.9", None, np.nan, True])
def test_levels_are_shares(level):
    features, posterior, bags = a_problem(n_bags=2)
    with pytest.raises(BagDataError, match="expected a number between 0 and 1"):
        fraction_summary(fitted(features, posterior), bags, level)
