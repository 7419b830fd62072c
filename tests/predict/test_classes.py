"""Class probabilities by quasi-Monte Carlo."""

import numpy as np
import pytest
import torch
from scipy.integrate import dblquad
from scipy.stats import norm
from tests.problems import segments_of

from bagwise.bag_models.rules import StrongestInstance
from bagwise.predict.classes import class_probability


def test_two_classes_are_the_integral():
    mean, deviation = np.array([0.4, -0.8]), np.array([1.5, 0.6])

    def share(b, a):
        return norm.pdf(a, mean[0], deviation[0]) * norm.pdf(b, mean[1], deviation[1]) / (1 + np.exp(b - a))

    expected, _ = dblquad(share, -9, 9, -6, 6, epsabs=1e-8)
    found = class_probability(torch.from_numpy(mean)[None], torch.from_numpy(deviation**2)[None], seed=3)
    assert float(found[0, 0]) == pytest.approx(expected, abs=1e-3)
    assert float(found.sum()) == pytest.approx(1.0, abs=1e-14)


def test_many_classes_are_the_average_over_many_draws():
    generator = torch.Generator().manual_seed(0)
    mean, variance = torch.randn(3, 7, generator=generator).double(), torch.rand(3, 7, generator=generator).double() * 4
    draws = mean + variance.sqrt() * torch.randn(200_000, 3, 7, generator=generator).double()
    expected = torch.softmax(draws, dim=2).mean(0)
    torch.testing.assert_close(class_probability(mean, variance, seed=0), expected, rtol=0, atol=4e-3)


def test_without_variance_it_is_the_softmax():
    mean = torch.tensor([[3.0, -800.0, 2.0]], dtype=torch.float64)
    found = class_probability(mean, torch.zeros_like(mean), seed=0)
    torch.testing.assert_close(found, torch.softmax(mean, dim=1))


def test_rows_do_not_depend_on_their_company(monkeypatch):
    mean, variance = torch.randn(9, 4, dtype=torch.float64), torch.rand(9, 4, dtype=torch.float64)
    together = class_probability(mean, variance, seed=1)
    monkeypatch.setattr("bagwise.numerics.blocks.BLOCK", 1)
    torch.testing.assert_close(class_probability(mean, variance, seed=1), together, rtol=0, atol=1e-14)


def test_bag_of_vanishing_probabilities_gets_equal_shares():
    nothing = torch.zeros(2, 3, dtype=torch.float64)
    shares = StrongestInstance(none=False).probability(nothing, segments_of([2]))
    torch.testing.assert_close(shares, torch.full((1, 3), 1 / 3, dtype=torch.float64))


def test_the_strongest_instance_speaks_for_its_bag():
    theta = torch.tensor([[0.1, 0.6], [0.3, 0.2], [0.05, 0.05]], dtype=torch.float64)
    found = StrongestInstance(none=False).probability(theta, segments_of([2, 1]))
    np.testing.assert_allclose(found, [[0.3 / 0.9, 0.6 / 0.9], [0.5, 0.5]])
