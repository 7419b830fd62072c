"""Evidence about counts: some bags, several columns, who says anything, what is possible."""

import numpy as np
import pytest
import torch
from tests.bag_models.count_terms import CPU, NAN, as_fitted, new_mixture, terms
from tests.problems import segments_of

from bagwise.bag_models.counts import ProbitCounts
from bagwise.bags import ragged_ranges
from bagwise.evidence.counts import CountEvidence, possible_counts
from bagwise.evidence.statements import label, log_potentials


@pytest.fixture
def mixture():
    return new_mixture()


def test_the_evidence_of_some_bags_is_theirs(mixture):
    statement, sizes, known, f = mixture
    evidence, chosen = as_fitted(statement, sizes, known), np.array([10, 3, 0, 6])
    start = np.concatenate([[0], np.cumsum(sizes)])
    rows = ragged_ranges(start[chosen], sizes[chosen])
    log_z, g = terms(evidence.of_bags(chosen), f[rows])
    whole_z, whole_g = terms(evidence, f)
    np.testing.assert_allclose(log_z, whole_z[chosen], atol=1e-13)
    np.testing.assert_allclose(g, whole_g[rows], atol=1e-13)


def test_columns_side_by_side_are_the_columns(mixture):
    _, sizes, _, f = mixture
    unknown = np.full(sizes.sum(), NAN)
    rng = np.random.default_rng(7)
    columns = [as_fitted(label(rng.integers(0, 2, len(sizes))), sizes, unknown, noise) for noise in (0.0, 0.1)]
    both = CountEvidence.side_by_side(columns)
    segments = segments_of(sizes)
    two = torch.tensor(np.column_stack([f, -f]))
    log_z, g = ProbitCounts(both).chunk(slice(0, len(sizes)), torch.float64, CPU).terms(two, segments)
    for k, sign in enumerate((1, -1)):
        alone_z, alone_g = terms(columns[k], sign * f)
        np.testing.assert_allclose(log_z[:, k].numpy(), alone_z, atol=1e-13)
        np.testing.assert_allclose(g[:, k].numpy(), alone_g, atol=1e-13)


def test_bags_with_evidence_or_known_instances_are_observed(mixture):
    statement, sizes, known, _ = mixture
    observed = as_fitted(statement, sizes, known).observed()[:, 0]
    # The third bag has no label but a known instance; the fifth, ninth and last say nothing.
    assert np.flatnonzero(~observed).tolist() == [4, 8, 11]


def test_ceiling_is_the_highest_log_evidence_there_can_be(mixture):
    statement, sizes, known, f = mixture
    evidence = as_fitted(statement, sizes, known)
    highest = max(log_potentials(statement[3], sizes[[3]])) + np.log(5 + 1)  # the fractions 0.3 and 0
    assert evidence.ceiling() == pytest.approx([highest])
    assert terms(evidence, f)[0].sum() < evidence.ceiling()[0]
    assert CountEvidence(np.array([[1.0], [0.0]]), np.array([2, 3])).ceiling() == [0.0]


def test_possible_counts_lie_between_known_positives_and_known_negatives():
    low, high = possible_counts(np.array([NAN, 1, 0, 1, NAN, NAN, 0]), np.array([3, 1, 3]))
    assert low.tolist() == [1, 1, 0]
    assert high.tolist() == [2, 1, 2]


def test_some_bags_and_columns_side_by_side_keep_their_noise():
    one = CountEvidence(np.array([[0.0], [1.0]]), np.array([2, 3]), label_noise=0.1)
    assert one.of_bags(np.array([1])).label_noise == 0.1
    assert CountEvidence.side_by_side([one, one]).label_noise == 0.1
    other = CountEvidence(np.array([[0.0], [1.0]]), np.array([2, 3]), label_noise=0.2)
    assert one.identity() != other.identity()
