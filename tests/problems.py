"""Small generated problems and slow, obvious references shared by the tests."""

import itertools

import numpy as np
import torch
from scipy.stats import norm

from bagwise import Bags
from bagwise.gp.features import Design, Features, make_features
from bagwise.inference.chunks import Chunk, InMemory
from bagwise.numerics.segments import Segments


def random_bags(rng, n_bags=12, sizes=(1, 6), n_features=2):
    counts = rng.integers(sizes[0], sizes[1] + 1, n_bags)
    return Bags(rng.normal(size=(counts.sum(), n_features)), np.repeat(np.arange(n_bags), counts))


def random_labels(rng, bags):
    y = (rng.random(len(bags)) < 0.5).astype(float)
    y[:2] = 0.0, 1.0
    return y


def features_of(bags, **changes) -> Features:
    settings = {
        "kernel": "rbf",
        "lengthscale": 1.0,
        "bias": 0.0,
        "n_inducing": 8,
        "inducing": "random",
        "standardize": True,
        "jitter": None,
        "device": torch.device("cpu"),
        "dtype": torch.float64,
        "random": np.random.RandomState(0),
    }
    return make_features(bags, **(settings | changes))


def leftover_covariance(features, bags):
    """k(X, X) − Φ Φᵀ inside every bag, 0 between bags, from the kernel as a matrix."""
    x = features.standardised(bags.X)
    phi = torch.from_numpy(features.transform(bags)[0])[:, : features.n_inducing]
    with torch.no_grad():
        whole = (features.kernel(x).to_dense() - phi @ phi.T).numpy()
    return np.where(bags.index[:, None] == bags.index, whole, 0.0)


def segments_of(sizes) -> Segments:
    return Segments(torch.tensor(np.concatenate([[0], np.cumsum(sizes)]), dtype=torch.int64))


def one_chunk(phi, kappa, sizes, evidence) -> InMemory:
    return InMemory([Chunk(Design(phi, kappa, segments_of(sizes)), evidence)])


def enumerate_signs(f, allowed):
    """Z and E[m] of q(m) ∝ allowed(#{m > 0}) N(m; f, I) by going through every sign pattern.

    Given its sign, m is a truncated normal: E[m | m > 0] = f + pdf(f)/cdf(f), E[m | m < 0] = f − pdf(f)/cdf(−f).
    """
    f = np.asarray(f, dtype=float)
    z, mean = 0.0, np.zeros(len(f))
    for signs in itertools.product([0, 1], repeat=len(f)):
        s = np.array(signs)
        weight = allowed(s.sum()) * np.prod(np.where(s == 1, norm.cdf(f), norm.cdf(-f)))
        z += weight
        mean += weight * np.where(s == 1, f + norm.pdf(f) / norm.cdf(f), f - norm.pdf(f) / norm.cdf(-f))
    return z, mean / z
