"""Of tiles in bags that are known to be positive, do those with P near .7 turn out positive in 70 % of the cases?

Three kinds of data: a latent function drawn from the model's own prior, with its probit noise (the kernel is given to
the model; 60 bags of 4, ten times as many data sets); a fixed function with the same noise (the kernel is learned); and
``make_bags``, whose truth has no noise at all (both 300 bags of 8). A third of the bags train, the others are asked
about, given their labels. Standard errors are over data sets. Run: python -m benchmarks.given_labels [data sets]
"""

import sys
import warnings

import numpy as np
import torch
from scipy.stats import norm

from bagwise import BagGP, Bags
from bagwise.datasets import make_bags, wave
from benchmarks.calibration import BIAS, kernel

N_BAGS, SIZE = 300, 8
FEW, SMALL = 60, 4  # bags, and their size, of a draw from the prior
BINS = ((0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0))


def of_prior(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.5, 2.5, size=(FEW * SMALL, 2))
    gram = kernel()(torch.tensor(X)).to_dense().detach().numpy() + BIAS**2 + 1e-6 * np.eye(len(X))
    f = np.linalg.cholesky(gram) @ rng.normal(size=len(X))
    z = (rng.random(len(X)) < norm.cdf(f)).astype(int)
    settings = {"learn": False, "bias": BIAS, "standardize": False, "n_inducing": None, "random_state": 0}
    return Bags(X, np.repeat(np.arange(FEW), SMALL)), z, BagGP(kernel=kernel(), **settings)


def of_function(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_BAGS * SIZE, 2))
    z = (rng.random(len(X)) < norm.cdf(1.5 * wave(X) - 0.5)).astype(int)
    return Bags(X, np.repeat(np.arange(N_BAGS), SIZE)), z, BagGP(random_state=0)


def without_noise(seed):
    bags, _, z = make_bags(N_BAGS, SIZE, random_state=seed)
    return bags, z, BagGP(random_state=0)


KINDS = {"prior of the model": of_prior, "fixed function, noise": of_function, "make_bags, no noise": without_noise}


def one(kind, seed):
    """(bins,) number of tiles and of positive ones, in bags known to be positive."""
    bags, z, model = KINDS[kind](seed)
    y = np.logical_or.reduceat(z, bags.offsets[:-1]).astype(int)
    train = np.arange(len(bags)) < len(bags) // 3
    rest, rows = bags[~train], ~train[bags.index]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = model.fit(bags[train], y[train]).predict_instance_proba(rest, given=y[~train])[:, 1]
    truth = z[rows]
    masks = [(p > low) & (p < high) for low, high in BINS]
    return np.array([(mask.sum(), truth[mask].sum(), p[mask].sum()) for mask in masks])


def main(sets=20):
    print("| data | " + " | ".join(f"P in {low:.1f}–{high:.1f}" for low, high in BINS) + " |")
    print("|---" * (len(BINS) + 1) + "|")
    for kind in KINDS:
        many = int(sets) * (10 if kind == "prior of the model" else 1)
        found = np.array([one(kind, seed) for seed in range(many)])  # (sets, bins, 3)
        n, positive, expected = found.sum(axis=0).T
        off = found[:, :, 1] - found[:, :, 0] * (positive / n)
        se = np.sqrt(np.square(off).sum(axis=0)) / n
        cells = [f"{e / c:.2f}: {k / c:.2f} ± {s:.2f}" for c, k, e, s in zip(n, positive, expected, se, strict=True)]
        print(f"| {kind} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
