"""Small problems, exact answers and fair games for the sampler."""

import itertools

import numpy as np
import torch
from scipy.stats import norm
from tests.problems import segments_of

from bagwise.bag_models.counts import ProbitCounts
from bagwise.bags import ragged_ranges
from bagwise.evidence.counts import CountEvidence
from bagwise.gp.features import Design
from bagwise.inference.chains.gibbs import Gibbs
from bagwise.inference.chunks import Chunk, InMemory

SIZES = np.array([3, 3, 1, 2])
LABELS = np.array([1.0, 0.0, 1.0, 1.0])


def tiny(kappa=True, seed=0):
    """Features with two weights, and what they leave over."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(SIZES.sum(), 2))
    return phi, rng.uniform(0.2, 2.0, SIZES.sum()) if kappa else np.zeros(SIZES.sum())


def tabled(log_psi, known=None):
    """Evidence of one column in which every bag states something by its table."""
    by_table = np.ones(len(SIZES), dtype=bool)
    return CountEvidence(np.full((len(SIZES), 1), np.nan), SIZES, (log_psi,), (by_table,), known)


def label_table():
    k = ragged_ranges(np.zeros(len(SIZES), dtype=np.int64), SIZES + 1)
    with np.errstate(divide="ignore"):
        return np.log((k > 0) == (np.repeat(LABELS, SIZES + 1) == 1))


def exact_table():
    """Exactly one positive in every bag."""
    k = ragged_ranges(np.zeros(len(SIZES), dtype=np.int64), SIZES + 1)
    with np.errstate(divide="ignore"):
        return np.log(k == 1)


def soft_table():
    return np.random.default_rng(3).normal(size=(SIZES + 1).sum()) * 2.0


def chunks_of(phi, kappa, sizes, evidence, cuts=(), noise="exact"):
    """The bags as chunks, cut before the bags in ``cuts``."""
    scale = np.sqrt(1.0 + kappa) if noise == "exact" else np.ones(len(kappa))
    rows, offsets = torch.tensor(phi / scale[:, None]), np.concatenate([[0], np.cumsum(sizes)])
    parts = []
    for start, stop in itertools.pairwise([0, *cuts, len(sizes)]):
        own = slice(int(offsets[start]), int(offsets[stop]))
        design = Design(rows[own].clone(), torch.zeros(own.stop - own.start), segments_of(sizes[start:stop]))
        parts.append(
            Chunk(
                design, ProbitCounts(evidence).chunk(slice(start, stop), torch.float64, torch.device("cpu")), own.start
            )
        )
    return InMemory(parts)


def sampler_of(phi, kappa, evidence, sizes=SIZES, cuts=(), noise="exact", **settings):
    chunks = chunks_of(phi, kappa, sizes, evidence, cuts, noise)
    return Gibbs(chunks, torch.tensor(evidence.observed()), n_rows=len(phi), **settings)


def grid_moments(phi, variance, log_psi, known=None, sizes=SIZES, width=6.0, points=241):
    """Mean and covariance of v (R = 2) by a sum over a grid, the evidence by going through every sign pattern."""
    axis = np.linspace(-width, width, points)
    v = np.stack(np.meshgrid(axis, axis, indexing="ij")).reshape(2, -1)
    z = (phi / np.sqrt(variance)[:, None]) @ v
    log_p, log_q = norm.logcdf(z), norm.logcdf(-z)
    density = -0.5 * (v**2).sum(0)
    start = 0
    for bag, size in enumerate(sizes):
        rows, table = np.arange(start, start + size), log_psi[start + bag : start + bag + size + 1]
        density = density + np.log(_evidence(log_p[rows], log_q[rows], table, None if known is None else known[rows]))
        start += size
    weight = np.exp(density - density.max())
    weight /= weight.sum()
    mean = v @ weight
    return mean, (v * weight) @ v.T - np.outer(mean, mean)


def _evidence(log_p, log_q, table, known):
    total = 0.0
    for signs in itertools.product([0, 1], repeat=len(log_p)):
        s = np.array(signs)
        allowed = known is None or np.all(np.isnan(known) | (known == s))
        if allowed and table[s.sum()] > -np.inf:
            total = total + np.exp(table[s.sum()] + np.where(s[:, None] == 1, log_p, log_q).sum(0))
    return total


def run(sampler, n_burn_in, n_samples):
    """v of every sweep after the first, (n, R, S), and w."""
    for _ in range(n_burn_in):
        sampler.sweep()
    seen, means = [], []
    for _ in range(n_samples):
        sampler.sweep()
        seen.append(sampler.seen)
        means.append(sampler.means)
    return torch.stack(seen).numpy(), torch.stack(means).numpy()


def moment_scores(draws, mean, covariance):
    """(found − expected) / Monte Carlo error for the mean and the second moments, chains (last axis) independent."""
    each = [draws.mean(0), *(np.mean(draws[:, i] * draws[:, j], axis=0)[None] for i, j in ((0, 0), (0, 1), (1, 1)))]
    found = np.concatenate(each)
    second = covariance + np.outer(mean, mean)
    expected = np.array([*mean, second[0, 0], second[0, 1], second[1, 1]])
    return (found.mean(1) - expected) / (found.std(1, ddof=1) / np.sqrt(found.shape[1]))
