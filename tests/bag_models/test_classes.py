"""One class out of many: log Z and G of (16.1)–(16.2) against enumeration, and against labels and differences."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import norm
from tests.problems import segments_of

from bagwise.bag_models.classes import class_terms, odds_of, site_terms
from bagwise.bag_models.counts import label_terms

K = 3
EVERY_SET = [np.array(row, dtype=bool) for row in itertools.product((0, 1), repeat=K + 1) if any(row)]


def enumerated(f, candidates):
    """P(class of the bag is a candidate) and P(yᵢₖ = 1 | that), by going through every pattern of signs (n, K)."""
    p, Z, positive = norm.cdf(f), 0.0, np.zeros_like(f)
    for signs in itertools.product((0, 1), repeat=f.size):
        y = np.array(signs).reshape(f.shape)
        shown = y.any(axis=0)
        allowed = shown.sum() == 1 and candidates[:-1][shown][0] if shown.any() else candidates[-1]
        if allowed:
            chance = np.prod(np.where(y == 1, p, 1.0 - p))
            Z, positive = Z + chance, positive + chance * y
    return Z, positive / Z


@pytest.mark.parametrize("candidates", EVERY_SET, ids=lambda row: "".join("abc-"[k] for k in np.flatnonzero(row)))
def test_class_terms_agree_with_enumeration_of_all_signs(candidates):
    f = np.random.default_rng(0).normal(-0.5, 1.2, size=(4, K))
    log_z, g = class_terms(torch.from_numpy(f), torch.from_numpy(candidates)[None], segments_of([4]))
    Z, r = enumerated(f, candidates)
    assert log_z.item() == pytest.approx(np.log(Z), abs=1e-12)
    h = norm.pdf(f)
    np.testing.assert_allclose(g.numpy(), r * h / norm.cdf(f) - (1 - r) * h / norm.cdf(-f), atol=1e-12)


def test_class_terms_are_the_slope_of_log_z_in_ragged_bags():
    rng = np.random.default_rng(1)
    f = torch.from_numpy(rng.normal(size=(9, K))).requires_grad_()
    table = torch.from_numpy(np.array([[1, 0, 0, 0], [1, 1, 0, 1], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=bool))
    segments = segments_of([2, 4, 1, 2])
    log_z, g = class_terms(f, table, segments)
    (slope,) = torch.autograd.grad(log_z.sum(), f)
    torch.testing.assert_close(g.detach(), slope, atol=1e-11, rtol=0)


def test_second_derivative_in_one_latent_value_follows_from_the_slope():
    f = torch.tensor([[0.3, -0.8, 0.1], [-1.0, 0.4, 0.2]], dtype=torch.float64)
    table, segments = torch.tensor([[True, True, False, False]]), segments_of([2])
    g = class_terms(f, table, segments)[1]
    for place in itertools.product(range(2), range(K)):
        step = torch.zeros_like(f)
        step[place] = 1e-5
        up, down = (class_terms(f + sign * step, table, segments)[1][place] for sign in (1, -1))
        expected = -f[place] * g[place] - g[place] ** 2
        assert ((up - down) / 2e-5).item() == pytest.approx(expected.item(), abs=1e-8)


def test_a_bag_that_states_nothing_adds_nothing():
    f = torch.randn(3, K, dtype=torch.float64)
    table = torch.tensor([[False] * (K + 1), [True, False, False, False]])
    log_z, g = class_terms(f, table, segments_of([2, 1]))
    assert log_z[0] == 0
    assert (g[:2] == 0).all()
    assert (g[2] != 0).all()


def test_one_class_and_none_of_it_are_the_labels_of_a_bag():
    """With a single column the sets {class} and {none} are today's labels 1 and 0."""
    f = torch.randn(7, 1, dtype=torch.float64)
    segments = segments_of([3, 4])
    table = torch.tensor([[True, False], [False, True]])
    labels = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    expected = label_terms(f, labels, segments)
    log_z, g = class_terms(f, table, segments)
    torch.testing.assert_close(log_z[:, None], expected[0])
    torch.testing.assert_close(g, expected[1])


def test_two_classes_known_for_every_bag_are_two_columns_of_labels():
    f = torch.randn(6, 2, dtype=torch.float64)
    segments, y = segments_of([1, 3, 2]), torch.tensor([0, 1, 1])
    labels = torch.nn.functional.one_hot(y, 2).double()
    table = torch.nn.functional.one_hot(y, 3).bool()
    expected = label_terms(f, labels, segments)
    log_z, g = class_terms(f, table, segments)
    torch.testing.assert_close(log_z, expected[0].sum(1))
    torch.testing.assert_close(g, expected[1])


def test_everything_a_candidate_says_no_more_than_at_most_one_class():
    f = torch.randn(4, 1, dtype=torch.float64)
    log_z, g = class_terms(f, torch.ones(1, 2, dtype=torch.bool), segments_of([4]))
    assert abs(log_z.item()) < 1e-12
    assert g.abs().max() < 1e-12


def test_site_terms_are_class_terms_of_bags_of_one():
    z = torch.randn(len(EVERY_SET), K, dtype=torch.float64)
    table = torch.from_numpy(np.array(EVERY_SET))
    expected = class_terms(z, table, segments_of([1] * len(z)))
    for found, wanted in zip(site_terms(z, table, torch.ones_like(table[:, :-1])), expected, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-12, rtol=1e-12)


def test_site_terms_leave_out_that_other_classes_are_not_shown():
    z = torch.randn(len(EVERY_SET), K, dtype=torch.float64)
    table = torch.from_numpy(np.array(EVERY_SET))
    possible = table[:, :-1]
    log_z, g = class_terms(z, table, segments_of([1] * len(z)))
    none = torch.where(possible, 0.0, torch.special.log_ndtr(-z)).sum(1)
    found, slope = site_terms(z, table, possible)
    torch.testing.assert_close(found, log_z - none, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(slope, torch.where(possible, g, 0.0), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("far", [-35.0, 30.0])
def test_class_terms_stay_finite_far_out(far):
    f = torch.full((3, K), far, dtype=torch.float64)
    for row in EVERY_SET:
        log_z, g = class_terms(f, torch.from_numpy(row)[None], segments_of([3]))
        assert torch.isfinite(log_z).all()
        assert torch.isfinite(g).all()


def test_odds_of_a_bag_are_the_chances_of_its_columns():
    f = torch.randn(5, 2, dtype=torch.float64)
    odds = odds_of(f, segments_of([2, 3]))
    torch.testing.assert_close(odds.none.exp() + odds.some.exp(), torch.ones(2, 2, dtype=torch.float64))
