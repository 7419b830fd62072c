"""One site per bag: the score of a bag, its linear form, and the posterior against a sum over a grid."""

import numpy as np
import pytest
import torch
from scipy.special import log_ndtr
from scipy.stats import norm
from tests.problems import segments_of

from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.counts import CountEvidence
from bagwise.gp.features import Design
from bagwise.inference.bag_propagation import BagPropagation, _Score, linearise
from bagwise.inference.chunks import Chunk, InMemory
from bagwise.inference.expectation_propagation import ExpectationPropagation
from bagwise.inference.loop import iterate

CPU = torch.device("cpu")


@pytest.fixture
def random():
    return np.random.default_rng(0)


def some_draws(random):
    """Not around zero."""
    return torch.tensor(random.normal(loc=[[1.0], [-0.5]], size=(2, 30)))


def test_the_score_of_a_bag_is_the_quantile_of_its_probability_in_both_tails():
    S = torch.tensor([-1e-12, -0.01, -0.5, -0.8, -5.0, -60.0], dtype=torch.float64)
    np.testing.assert_allclose(norm.logcdf(-_Score.apply(S).numpy()), S, rtol=1e-9)
    assert torch.autograd.gradcheck(_Score.apply, (S[1:5].clone().requires_grad_(),))


def test_a_bag_of_one_is_linear_already(random):
    phi, kappa = torch.tensor(random.normal(size=(3, 2))), torch.tensor(random.random(3))
    found = linearise(phi, kappa, segments_of([1, 1, 1]), some_draws(random))
    torch.testing.assert_close(found.rows, phi / torch.sqrt(1.0 + kappa)[:, None], rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(found.offset, torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-7)


def test_what_is_not_linear_in_a_bag_is_noise_around_its_row(random):
    """Row and offset are those of g made linear, times s = 1/√(1 + ω): what s g is off by has the variance 1 − s²."""
    phi, kappa, draws = torch.tensor(random.normal(size=(6, 2))), torch.zeros(6).double(), some_draws(random)
    found = linearise(phi, kappa, segments_of([6]), draws)
    g = -norm.ppf(np.exp(log_ndtr(-(phi @ draws).numpy()).sum(axis=0)))
    linear = (found.rows @ draws + found.offset[:, None])[0].numpy()
    scale = linear.mean() / g.mean()
    assert scale < 0.99
    assert np.square(scale * g - linear).mean() == pytest.approx(1.0 - scale**2)


# ---------------------------------------------------------------- against a sum over a grid


def tiny_problem(seed, sizes, y):
    random = np.random.default_rng(seed)
    phi, kappa = 0.8 * random.normal(size=(sum(sizes), 2)), 0.5 * random.random(sum(sizes))
    evidence = ProbitCounts(CountEvidence(np.array(y)[:, None], np.array(sizes)))
    design = Design(torch.tensor(phi), torch.tensor(kappa), segments_of(sizes))
    return phi, kappa, InMemory([Chunk(design, evidence.chunk(slice(0, len(sizes)), torch.float64, CPU))])


def by_grid(phi, kappa, sizes, y):
    """log evidence and mean of v, two weights."""
    axis = np.linspace(-6, 6, 201)
    v = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    negative = np.add.reduceat(log_ndtr(-v @ phi.T / np.sqrt(1 + kappa)), np.cumsum([0, *sizes[:-1]]), axis=1)
    chances = [np.where(label == 1, -np.expm1(log), np.exp(log)) for label, log in zip(y, negative.T, strict=True)]
    known = [chance for chance, label in zip(chances, y, strict=True) if not np.isnan(label)]
    weight = np.prod(known, axis=0) * norm.pdf(v).prod(axis=1) * (axis[1] - axis[0]) ** 2
    return np.log(weight.sum()), weight @ v / weight.sum()


def settled(engine):
    assert iterate(engine.step, name="log evidence", max_iter=300, tol=1e-6).converged
    engine.finish()
    return engine.log_evidence.item(), engine.belief.mean[:, 0].numpy()


def test_sites_of_bags_come_close_to_the_exact_posterior_on_average():
    """A bag is not linear: single problems may be off by more."""
    sizes, y = [3, 1, 4, 2, 3], [1.0, 0.0, 1.0, np.nan, 0.0]
    errors = []
    for seed in range(6):
        phi, kappa, chunks = tiny_problem(seed, sizes, y)
        log_evidence, mean = settled(BagPropagation(chunks, 2, CPU, seed=0))
        exact, exact_mean = by_grid(phi, kappa, sizes, y)
        errors.append((abs(log_evidence - exact), np.abs(mean - exact_mean).max()))
    assert max(np.mean(errors, axis=0)) < 0.05


@pytest.mark.parametrize("seed", range(6))
def test_messages_to_bags_of_one_come_close_to_the_exact_posterior(seed):
    sizes, y = [1] * 6, [1.0, 0.0, 1.0, np.nan, 0.0, 1.0]
    phi, kappa, chunks = tiny_problem(seed, sizes, y)
    log_evidence, mean = settled(ExpectationPropagation(chunks, 2, 1, CPU))
    exact, exact_mean = by_grid(phi, kappa, sizes, y)
    assert log_evidence == pytest.approx(exact, abs=0.02)
    np.testing.assert_allclose(mean, exact_mean, atol=0.02)


@pytest.mark.parametrize("seed", range(6))
def test_bags_of_one_have_the_same_sites_either_way(seed):
    sizes, y = [1] * 5, [1.0, 0.0, 1.0, 0.0, 1.0]
    found = [
        settled(engine)
        for engine in (
            BagPropagation(tiny_problem(seed, sizes, y)[2], 2, CPU, seed=0),
            ExpectationPropagation(tiny_problem(seed, sizes, y)[2], 2, 1, CPU),
        )
    ]
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-4)
