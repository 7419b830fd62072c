"""Answers come part by part, a bounded number of rows at a time; nobody can tell where the parts end."""

import numpy as np
import pytest
import torch
from tests.problems import features_of, random_bags

from bagwise.bag_models.rules import AtLeastOne
from bagwise.gp import features as gp_features
from bagwise.gp.posterior import GaussianPosterior
from bagwise.numerics.links import PROBIT
from bagwise.predict.bags import bag_probability, instance_probability, latent_moments
from bagwise.predict.counts import count_distribution, count_probability, fraction_summary
from bagwise.predict.points import Fitted

ROWS = 10  # of a part


@pytest.fixture
def asked():
    rng = np.random.default_rng(0)
    bags = random_bags(rng, n_bags=15, sizes=(2, 7))
    factor, mean = 2.0 * torch.eye(5, dtype=torch.float64), torch.tensor(rng.normal(size=(5, 1)))
    posterior = GaussianPosterior(mean, factor[None], torch.zeros(1, dtype=torch.int64), PROBIT)
    return Fitted(features_of(bags, n_inducing=5), posterior, AtLeastOne(), 3), bags


def per_bag(bags):
    """Limits that differ from bag to bag."""
    return np.arange(len(bags)) % 2, np.minimum(bags.sizes, 1 + np.arange(len(bags)) % 6)


ANSWERS = {
    "bags": bag_probability,
    "instances": lambda fitted, bags: instance_probability(fitted.features, fitted.posterior, bags),
    "moments": lambda fitted, bags: np.concatenate(latent_moments(fitted.features, fitted.posterior, bags)),
    "law": count_distribution,
    "counts": lambda fitted, bags: count_probability(fitted, bags, *per_bag(bags)),
    "fractions": lambda fitted, bags: np.stack(fraction_summary(fitted, bags, 0.8)),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=list(ANSWERS))
def test_answers_in_parts_are_the_answers_in_one(answer, asked, monkeypatch):
    whole = answer(*asked)
    monkeypatch.setattr(gp_features, "CHUNK_ROWS", ROWS)
    assert len(list(asked[0].features.designs(asked[1]))) > 3
    np.testing.assert_allclose(answer(*asked), whole, rtol=0, atol=1e-12)


def test_chances_of_ranges_are_sums_over_the_law_of_every_bag(asked, monkeypatch):
    monkeypatch.setattr(gp_features, "CHUNK_ROWS", ROWS)
    fitted, bags = asked
    low, high = per_bag(bags)
    found = count_probability(fitted, bags, low, high)[:, 0]
    laws = np.split(count_distribution(fitted, bags)[:, 0], np.cumsum(bags.sizes + 1)[:-1])
    expected = [law[a : b + 1].sum() for law, a, b in zip(laws, low, high, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_intervals_are_the_smallest_counts_that_reach_their_quantiles(asked):
    fitted, bags = asked
    laws = np.split(count_distribution(fitted, bags)[:, 0], np.cumsum(bags.sizes + 1)[:-1])
    found = fraction_summary(fitted, bags, 0.8)
    for bag, law in enumerate(laws):
        ends = [np.flatnonzero(np.cumsum(law) >= level - 1e-9)[0] / bags.sizes[bag] for level in (0.1, 0.9)]
        np.testing.assert_allclose([found.lower[bag, 0], found.upper[bag, 0]], ends)


def test_at_least_one_positive_has_the_probability_of_the_bag(asked):
    fitted, bags = asked
    np.testing.assert_allclose(count_probability(fitted, bags, 1, None), bag_probability(fitted, bags), atol=1e-12)
