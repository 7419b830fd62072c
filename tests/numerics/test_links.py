"""Links and their averages under a Gaussian score, against quadrature."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from bagwise.numerics.links import LINKS, LOGISTIC, PROBIT

POSITIVE = {"logistic": expit, "probit": norm.cdf}
each_link = pytest.mark.parametrize("link", LINKS.values(), ids=list(LINKS))


def average(link, mean, variance):
    """E P(positive | a) for a ~ N(mean, variance), by quadrature."""
    sd = np.sqrt(variance)
    turn = [-mean / sd] if abs(mean / sd) < 9 else None
    law = lambda z: POSITIVE[link.name](mean + sd * z) * norm.pdf(z)  # noqa: E731
    return quad(law, -9, 9, points=turn, epsabs=1e-13, limit=500)[0]


@each_link
@pytest.mark.parametrize("variance", [0.01, 1.0, 1.1, 9.0, 400.0])
@pytest.mark.parametrize("mean", [-4.0, 0.3, 2.0])
def test_expected_link_equals_quadrature(link, mean, variance):
    found = link.expected(torch.tensor([mean], dtype=torch.float64), torch.tensor([variance], dtype=torch.float64))
    assert float(found) == pytest.approx(average(link, mean, variance), abs=1e-11)


@each_link
@pytest.mark.parametrize("kappa", [0.0, 0.5, 2.0, 9.0])
def test_score_has_the_leftover_integrated_out(link, kappa):
    centre = torch.tensor([[-3.0, 0.0, 1.5]], dtype=torch.float64)
    found = link.chances(link.score(centre, torch.tensor([kappa], dtype=torch.float64)))[0][0]
    expected = [average(link, mean, kappa) if kappa else POSITIVE[link.name](mean) for mean in centre[0].tolist()]
    np.testing.assert_allclose(found, expected, atol=1e-7)


@each_link
def test_both_chances_keep_their_digits_and_are_the_log_probabilities(link):
    a = torch.tensor([-30.0, -8.0, -0.5, 0.0, 3.0, 30.0], dtype=torch.float64)
    positive, negative = link.chances(a)
    torch.testing.assert_close(positive.log(), link.log_probability(a), rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(negative.log(), link.log_probability(-a), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("link", "at_one"), [(LOGISTIC, 0.7310585786), (PROBIT, 0.8413447461)])
def test_positive_scores_are_probable_positives(link, at_one):
    assert float(link.chances(torch.tensor([1.0], dtype=torch.float64))[0]) == pytest.approx(at_one, abs=1e-10)


@each_link
def test_quick_log_of_the_negative_chance_is_the_exact_one_within_its_reach(link):
    scores = torch.linspace(-30.0, 30.0, 601, dtype=torch.float64)
    torch.testing.assert_close(link.log_negative(scores), link.log_probability(-scores), rtol=1e-11, atol=1e-15)
    far = torch.tensor([-1e4, 800.0, 1e4], dtype=torch.float64)
    assert link.log_negative(far).exp().tolist() == [1.0, 0.0, 0.0]
    torch.testing.assert_close(link.log_negative(far), link.log_probability(-far), rtol=1e-4, atol=1e-290)
