"""How large effects of bags are found to be."""

import numpy as np
import pytest
import torch
from scipy.stats import norm
from tests.precincts import precincts

from bagwise import BagGP
from bagwise.evidence.groups import group_columns
from bagwise.evidence.statements import count
from bagwise.evidence.totals import total_statements
from bagwise.gp.effects import NO_EFFECT
from bagwise.inference.laplace.effect_sizes import APART, CENTRE, SPREAD, EffectParameters, averaged_effect
from bagwise.inference.laplace.totals import Totals, whole_design


def test_size_of_the_effect_is_larger_where_precincts_differ():
    sizes = []
    for sd in (0.0, 0.8):
        bags, positive, _ = precincts(60, sd=sd, totals=(100, 400))
        model = BagGP(evidence="count", learn=False, group_effect=True, random_state=0).fit(bags, positive.sum(1))
        sizes.append(model.group_effect_.size)
    assert sizes[0] < 0.15
    assert 0.5 < sizes[1] < 1.1


@pytest.mark.statistical
def test_size_of_the_effect_is_found_and_reported():
    """On average over samples: by chance effects go with the composition, and single sizes are off by .2."""
    for sd in (0.0, 0.8):
        samples = (precincts(80, sd=sd, seed=seed, totals=(100, 400)) for seed in range(4))
        found = [
            BagGP(evidence="count", learn=False, group_effect=True, random_state=0).fit(bags, positive.sum(1))
            for bags, positive, _ in samples
        ]
        assert np.mean([model.group_effect_.size for model in found]) == pytest.approx(sd, abs=0.16)


@pytest.mark.parametrize("n_groups", [1, 2, 4])
def test_sizes_are_averaged_as_their_normal_posterior_tells(n_groups):
    """With a log evidence that is quadratic in the log sizes, mean and covariance are known."""
    random = np.random.default_rng(0)
    root = random.normal(size=(n_groups, n_groups))
    precision, mean = 20.0 * (root @ root.T + np.eye(n_groups)), np.log(0.5) + random.normal(0.0, 0.3, n_groups)
    found = averaged_effect(
        lambda sizes, share: -0.5 * (np.log(sizes) - mean) @ precision @ (np.log(sizes) - mean),
        np.full(n_groups, np.log(CENTRE)),
    )
    own = APART**2 if n_groups > 1 else 0.0
    prior = np.linalg.inv((SPREAD**2 - own) * np.ones((n_groups, n_groups)) + own * np.eye(n_groups))
    covariance = np.linalg.inv(precision + prior)
    wanted = covariance @ (precision @ mean + prior @ np.full(n_groups, np.log(CENTRE)))
    logs = np.log(found.sizes)
    np.testing.assert_allclose(found.weights @ logs, wanted, atol=0.02)
    about = np.atleast_2d(np.cov(logs.T, aweights=found.weights, ddof=0))
    np.testing.assert_allclose(about, covariance, atol=0.1 * np.diag(covariance).max())


def test_slope_of_the_log_evidence_in_the_sizes_of_groups_is_that_of_differences():
    bags, positive, _ = precincts(12, sd=0.5, totals=(100, 400))
    y = positive.sum(1)
    model = BagGP(evidence="count", learn=False, group_effect=0.5, random_state=0).fit(bags, y)
    features = model.features_.__class__(**{**vars(model.features_), "effect": NO_EFFECT})
    parameters = EffectParameters(None, 2, torch.float64, torch.device("cpu"))
    totals = Totals(bags, (total_statements(count(y, y), bags),), None, group_columns(bags))
    (evidence,), design = totals.evidences(features, parameters.effect), whole_design(features, bags)
    at = np.array([np.log(0.5), 0.4, 0.3, -0.2])

    def value(vector):
        parameters.set(vector)
        return evidence(design)

    value(at).backward()
    slope = parameters.gradient().copy()
    steps = 1e-3 * np.eye(4)
    by_differences = [(value(at + step) - value(at - step)).item() / 2e-3 for step in steps]
    np.testing.assert_allclose(slope, by_differences, atol=0.02)


def test_size_of_the_effect_is_larger_in_the_group_that_differs_more_between_precincts():
    rng = np.random.default_rng(0)
    bags, _, people = precincts(60, totals=(300, 900))
    y = rng.binomial(people, norm.cdf(rng.normal([-0.5, 0.5], [1.0, 0.1], people.shape))).sum(1)
    model = BagGP(evidence="count", learn=False, group_effect="by group", random_state=0).fit(bags, y)
    first, second = model.group_effect_.by_group
    assert first > 1.5 * second
    assert 0.5 < first < 1.8
