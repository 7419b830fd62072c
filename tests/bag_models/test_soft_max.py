"""The losses of the soft maximum and of the witness, against automatic differentiation."""

import pickle

import numpy as np
import pytest
import torch
from tests.problems import segments_of

from bagwise.bag_models.soft_max import (
    BagLosses,
    LossColumns,
    Pooling,
    SoftMaxLoss,
    WitnessLoss,
    hard_witness,
    soft_witness,
    uniform_weights,
    weighted_losses,
)
from bagwise.numerics.links import LINKS

SIZES = (3, 1, 4, 2, 5)
LABELS = torch.tensor([1.0, 0.0, 1.0, float("nan"), 0.0], dtype=torch.float64)
POOLS = [Pooling("sum", 1.0), Pooling("mean", 1.0), Pooling("sum", 3.5), Pooling("mean", 0.4)]


@pytest.fixture
def F():
    return torch.from_numpy(np.random.default_rng(0).normal(scale=2.0, size=sum(SIZES)))


def loss_of(link, pooling):
    return SoftMaxLoss(BagLosses(LABELS, LINKS[link]), segments_of(SIZES), pooling)


@pytest.mark.parametrize("link", LINKS)
def test_slope_and_bend_are_derivatives_of_the_link(link):
    a = torch.linspace(-6.0, 6.0, 41, dtype=torch.float64, requires_grad=True)
    labels = torch.arange(41, dtype=torch.float64) % 2
    losses = BagLosses(labels, LINKS[link])
    (slope,) = torch.autograd.grad(losses.value(a), a, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), a)
    torch.testing.assert_close(losses.slope(a.detach()), slope.detach(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(losses.bend(a.detach()), bend, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("pooling", POOLS, ids=str)
@pytest.mark.parametrize("link", LINKS)
def test_gradient_and_hessian_blocks(link, pooling, F):
    loss = loss_of(link, pooling)
    x = F.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss.value(x), x)
    torch.testing.assert_close(loss.slope(F), slope, rtol=1e-10, atol=1e-13)
    hessian = torch.autograd.functional.hessian(loss.value, F)
    torch.testing.assert_close(loss.curvature(torch.eye(len(F), dtype=F.dtype), F), hessian, rtol=1e-9, atol=1e-13)
    phi = torch.from_numpy(np.random.default_rng(1).normal(size=(len(F), 6)))
    torch.testing.assert_close(loss.curvature(phi, F), phi.T @ hessian @ phi, rtol=1e-10, atol=1e-12)


def test_a_bag_without_a_label_says_nothing(F):
    loss = loss_of("logistic", Pooling())
    silent = segments_of(SIZES).spread(torch.isnan(LABELS))
    moved = torch.where(silent, F + 5.0, F)
    assert loss.value(moved) == loss.value(F)
    assert (loss.slope(F)[silent] == 0).all()
    assert (loss.slope(F)[~silent] != 0).all()


def test_positive_bags_bend_the_wrong_way(F):
    """Why the projection is needed at all."""
    hessian = loss_of("logistic", Pooling()).curvature(torch.eye(len(F), dtype=F.dtype), F)
    assert torch.linalg.eigvalsh(hessian)[0] < -1e-3


def test_scores_of_the_poolings(F):
    for start, stop, bag in ((0, 3, 0), (4, 8, 2)):
        part = F[start:stop].numpy()
        for pooling in POOLS:
            total = np.exp(pooling.sharpness * part).sum() / (len(part) if pooling.name == "mean" else 1)
            score = pooling.score(F, segments_of(SIZES))[bag]
            assert float(score) == pytest.approx(np.log(total) / pooling.sharpness, rel=1e-12)
    nearly = Pooling("sum", 500.0).score(F, segments_of(SIZES))
    torch.testing.assert_close(nearly, segments_of(SIZES).max(F), rtol=0, atol=0.01)


def test_size_bias_of_the_published_pooling():
    """At F = 0 a bag of n is positive with probability n / (1 + n); of the mean, one half."""
    segments, F = segments_of((1, 3, 10, 40)), torch.zeros(54, dtype=torch.float64)
    said = torch.sigmoid(Pooling("sum").score(F, segments))
    torch.testing.assert_close(said, torch.tensor([1 / 2, 3 / 4, 10 / 11, 40 / 41], dtype=torch.float64))
    assert (torch.sigmoid(Pooling("mean").score(F, segments)) - 0.5).abs().max() < 1e-12


def test_witness_loss_is_the_soft_max_loss_of_bags_of_one():
    a = torch.from_numpy(np.random.default_rng(2).normal(size=5))
    rows = torch.from_numpy(np.random.default_rng(3).normal(size=(5, 4)))
    witness = WitnessLoss(BagLosses(LABELS, LINKS["probit"]))
    soft = SoftMaxLoss(witness.losses, segments_of([1] * 5), Pooling("mean", 2.0))
    assert float(witness.value(a)) == pytest.approx(float(soft.value(a)), rel=1e-13)
    torch.testing.assert_close(witness.slope(a), soft.slope(a))
    torch.testing.assert_close(witness.curvature(rows, a), soft.curvature(rows, a), rtol=1e-12, atol=1e-14)


def test_weights_of_witnesses_add_up_to_one_and_harden_with_sharpness(F):
    segments = segments_of(SIZES)
    for weights in (uniform_weights(segments), soft_witness(F, segments, 2.0), hard_witness(F, segments)):
        torch.testing.assert_close(segments.sum(weights), torch.ones(5, dtype=F.dtype))
    torch.testing.assert_close(soft_witness(F, segments, 1e4), hard_witness(F, segments))
    assert (hard_witness(F, segments)[segments.offsets[2] : segments.offsets[3]].argmax()) == F[4:8].argmax()
    tied = hard_witness(torch.zeros(15, dtype=F.dtype), segments)
    torch.testing.assert_close(tied, uniform_weights(segments))


@pytest.mark.parametrize("weight", [None, np.ones(10_000)])
def test_losses_of_some_bags_travel_without_those_of_others(weight):
    labels = torch.arange(20_000, dtype=torch.float64).reshape(10_000, 2) % 2
    columns = weighted_losses(labels, LINKS["probit"], weight)
    chunk = LossColumns(columns, np.arange(10_001)).chunk(slice(40, 50), torch.float64, labels.device)
    assert len(pickle.dumps(chunk)) < 10_000
    assert torch.equal(chunk.of_column(1).labels, labels[40:50, 1])
