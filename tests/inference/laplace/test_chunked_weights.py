"""Witness weights of chunks are those of the same rows in memory."""

import numpy as np
import pytest
import torch
from tests.inference.laplace.pooled_problems import exact_features

from bagwise.bag_models.soft_max import BagLosses, LossColumns, hard_witness
from bagwise.gp.features import chunk_slices
from bagwise.inference.chunks import OfColumn, in_memory
from bagwise.inference.laplace.annealing import Schedule
from bagwise.inference.laplace.chunked_weights import ChunkedWeights
from bagwise.inference.laplace.fit import fit_witness, share_left_over
from bagwise.inference.laplace.mode import ModeLimits
from bagwise.inference.laplace.pooled_rows import rows_of
from bagwise.numerics.links import LINKS

LIMITS = ModeLimits(40, 1e-4)


@pytest.fixture
def stated(problem, monkeypatch):
    """Two label columns, one with gaps and weights, over chunks of a few bags."""
    monkeypatch.setattr("bagwise.gp.features.CHUNK_ROWS", 20)
    bags, labels = problem
    features = exact_features(bags, kernel="rbf", bias=5.0)
    assert sum(1 for _ in chunk_slices(bags, features.n_columns)) > 2
    gaps = labels.clone()
    gaps[[2, 7]] = torch.nan
    weight = torch.linspace(0.5, 2.0, len(labels), dtype=torch.float64)
    return bags, features, [BagLosses(labels, LINKS["logistic"]), BagLosses(gaps, LINKS["probit"], weight)]


SCHEDULES = [Schedule(3), Schedule(2, "hard"), Schedule(1, "alternating", averaged=False), Schedule(None)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_fit_in_chunks_is_that_of_all_rows(stated, schedule):
    bags, features, columns = stated
    rows = rows_of(features, bags, exact=True)(features.kernel)
    expected = fit_witness(features, bags, columns, rows, schedule, LIMITS)
    found = fit_witness(features, bags, columns, None, schedule, LIMITS)
    assert found.sharpness == expected.sharpness
    for one, other in zip(found.fits, expected.fits, strict=True):
        np.testing.assert_allclose(one.trace.values, other.trace.values, atol=1e-7)
        torch.testing.assert_close(one.mean, other.mean, rtol=0, atol=1e-6)
        torch.testing.assert_close(one.factor, other.factor, rtol=0, atol=1e-6)
        assert float(one.log_evidence) == pytest.approx(float(other.log_evidence), abs=1e-7)
        assert torch.equal(one.witnesses, other.witnesses)


def test_share_left_over_is_that_of_all_rows(stated):
    bags, _, columns = stated
    features = exact_features(bags[:4], bias=5.0)
    found = fit_witness(features, bags, columns, None, Schedule(1), ModeLimits(2, 1e-4))
    assert found.left_over == pytest.approx(share_left_over(features, bags), rel=1e-12)
    assert 0.05 < found.left_over < 0.95


def chunked(stated, column):
    bags, features, columns = stated
    chunks = in_memory(features, bags, LossColumns(columns, bags.offsets))
    return ChunkedWeights(chunks.through(OfColumn(column)), len(chunks.chunks), features.n_columns, features.n_inducing)


@pytest.mark.parametrize("column", [0, 1])
def test_second_order_is_that_of_differences(stated, column):
    weights = chunked(stated, column)
    v = 0.1 * torch.from_numpy(np.random.default_rng(0).standard_normal(stated[1].n_columns))
    there, step = weights.second_order(v), 2e-5
    assert there.height == pytest.approx(weights.height(v), abs=1e-12)
    for number in (0, 3, len(v) - 1):
        aside = torch.zeros_like(v)
        aside[number] = step
        slope = (weights.height(v + aside) - weights.height(v - aside)) / (2 * step)
        assert float(there.gradient[number]) == pytest.approx(slope, abs=1e-6)
        bend = (weights.second_order(v + aside).gradient - weights.second_order(v - aside).gradient) / (2 * step)
        torch.testing.assert_close(there.precision[number], bend, rtol=0, atol=1e-6)


def test_weights_say_how_far_they_moved_at_once_and_since_they_were_asked(stated):
    bags, *_ = stated
    weights = chunked(stated, 0)
    weights.fit()
    assert weights.moved() == 0.0
    largest = max(1.0 - 1.0 / size for size in bags.sizes)  # from equal weights to one of them
    half = weights.move(hard_witness, 0.5)
    assert half <= 0.5 * largest + 1e-12
    rest = weights.move(hard_witness, 1.0)
    assert rest == pytest.approx(half)
    assert weights.moved() == pytest.approx(half + rest)
    assert weights.moved() == 0.0
