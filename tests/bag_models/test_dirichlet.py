"""Targets and responsibilities of candidate sets (theory section 7)."""

import numpy as np
import pytest
import torch
from tests.problems import segments_of

from bagwise.bag_models.dirichlet import (
    CandidateChunk,
    Disambiguation,
    augmented,
    bag_log_weights,
    consistent_alpha,
    initial_alpha,
    raised_to_one,
    renewed_alpha,
    targets_of,
    total_change,
)

EPS = 1e-4


@pytest.mark.parametrize(
    ("eps", "size", "target", "noise"),
    [(1e-4, 2, -1.24, 1.10), (1e-4, 5, -2.50, 1.79), (1e-3, 3, -1.79, 1.38), (1e-2, 4, -2.14, 1.58)],
)
def test_targets_at_the_start_are_those_of_the_reference_table(eps, size, target, noise):
    found = targets_of(initial_alpha(torch.arange(6)[None] < size, eps))
    assert float(found.value[0, 0]) == pytest.approx(target, abs=6e-3)
    assert float(found.noise[0, 0]) == pytest.approx(noise, abs=6e-3)
    excluded = {1e-4: (-13.82, 9.21), 1e-3: (-10.36, 6.91), 1e-2: (-6.91, 4.62)}[eps]
    assert (float(found.value[0, -1]), float(found.noise[0, -1])) == pytest.approx(excluded, abs=6e-3)


def test_candidates_share_in_proportion_to_their_exponentials():
    latent = torch.tensor([[0.0, 1.0, 5.0]], dtype=torch.float64)
    found = renewed_alpha(latent, torch.tensor([[True, True, False]]), EPS)
    e = np.exp(1.0)
    np.testing.assert_allclose(found[0], [1 / (1 + e) + EPS, e / (1 + e) + EPS, EPS])


def test_none_of_them_is_added_as_the_last_candidate():
    table = np.array([[True, False], [False, True]])
    np.testing.assert_array_equal(augmented(table, True), [[1, 0, 1], [0, 1, 1]])
    assert augmented(table, False) is table


# ---------------------------------------------------------------- at least one instance


def expected_positives(latent, candidates, segments):
    return segments.sum(renewed_alpha(latent, candidates, 0.0)[:, :-1].sum(1))


def test_bags_that_would_be_emptied_are_raised_to_one_and_others_left_alone():
    torch.manual_seed(0)
    sizes = [6, 3, 2, 1]
    segments = segments_of(sizes)
    latent = torch.randn(12, 4, dtype=torch.float64)
    latent[:6, -1] += 8.0  # the first bag is all none of them, and so is the last
    latent[-1, -1] += 30.0
    candidates = segments.spread(torch.tensor([[1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 0, 1], [1, 0, 0, 1]], dtype=bool))
    raised = raised_to_one(latent, candidates, segments)
    before, after = (expected_positives(part, candidates, segments) for part in (latent, raised))
    assert before[0] < 0.1
    np.testing.assert_allclose(after[[0, 3]], [1.0, 0.5], atol=1e-12)
    np.testing.assert_allclose(after[1:3], before[1:3].clamp(min=1.0), atol=1e-12)
    shift = (latent - raised)[:6]
    np.testing.assert_allclose(shift[:, :-1], 0.0)
    np.testing.assert_allclose(shift[:, -1], float(shift[0, -1]))  # one factor for the whole bag


def test_repeated_renewal_empties_bags_unless_one_is_kept():
    """A fixed pull towards none of them, round after round: what smoothing over many negatives does."""
    segments, chunk = segments_of([8]), CandidateChunk(torch.tensor([[True, False, True]]))
    left = []
    for kept in (False, True):
        rule = Disambiguation("dirichlet", EPS, at_least_one=kept)
        alpha = rule.start(chunk, segments)
        for made in range(20):
            latent = alpha.log() + torch.tensor([0.0, 0.0, 1.0])
            latent[0, 0] += 0.5
            alpha = rule.renew(alpha, latent, chunk, segments, made)
        left.append(float(alpha[:, 0].sum()))
    assert left[0] < 0.01
    assert left[1] == pytest.approx(1.0, abs=0.01)
    assert int(alpha[:, 0].argmax()) == 0


# ---------------------------------------------------------------- the whole bag in view


def test_consistent_responsibilities_of_hopeless_bags_stay_finite():
    """Latents so far below "none of them" that every probability underflows."""
    segments = segments_of([3, 2])
    latent = torch.zeros(5, 3, dtype=torch.float64)
    latent[:, :2] = -900.0
    latent[1, 0] = -890.0
    candidates = torch.ones(5, 3, dtype=torch.bool)
    alpha = consistent_alpha(latent, candidates, segments, 0.0)
    assert torch.isfinite(alpha).all()
    np.testing.assert_allclose(alpha.sum(1), 1.0)
    np.testing.assert_allclose(segments.sum(alpha[:, :2].sum(1)), 1.0)  # exactly one, as two are never worth it
    assert alpha[1, 0] > 0.99


def test_weights_of_a_bag_of_one_are_odds():
    above = torch.tensor([[0.3, -2.0]], dtype=torch.float64)
    _, log_w = bag_log_weights(above, segments_of([1]))
    np.testing.assert_allclose(log_w, above, atol=1e-12)


@pytest.mark.parametrize("first", [3, 7])
def test_rounds_of_the_published_rule_come_first(first):
    torch.manual_seed(1)
    segments, chunk = segments_of([4]), CandidateChunk(torch.tensor([[True, True, True]]))
    latent = torch.randn(4, 3, dtype=torch.float64)
    one, other = (Disambiguation(rule, EPS, first_rounds=first) for rule in ("dirichlet", "consistent"))
    for made in (0, first - 1):
        same = [rule.renew(latent, latent, chunk, segments, made) for rule in (one, other)]
        assert torch.equal(*same)
        assert other.to_come(made + 1)
        assert not one.to_come(made + 1)
    later = other.renew(latent, latent, chunk, segments, first)
    assert not other.to_come(first + 1)
    assert torch.equal(later, consistent_alpha(latent, torch.ones(4, 3, dtype=torch.bool), segments, EPS))
    assert Disambiguation("uniform", EPS).renew(latent, -latent, chunk, segments, 9) is latent


def test_change_is_total_variation():
    before = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    after = torch.tensor([[0.2, 0.8], [1.0, 0.0]])
    assert float(total_change(before, after)) == pytest.approx(0.3)
