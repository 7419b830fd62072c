"""Are the probabilities true? Data drawn from the model's own prior, every inference, calibration and coverage.

Each data set draws a latent function from the prior (the kernel is given to the model), bags of 3 and labels from it;
half of the bags train, half test. Expected calibration error is pooled over all data sets; the error that perfect
probabilities would show by chance (labels drawn again from the stated probabilities) is subtracted. Coverage: share of
true latent values inside the 90 % interval of their posterior. Run: python -m benchmarks.calibration [data sets]
"""

import sys
import warnings

import gpytorch
import numpy as np
import torch
from joblib import Parallel, delayed
from scipy.stats import norm

from bagwise import BagGP, Bags
from bagwise.metrics import calibration_error

N_BAGS, SIZE, D = 500, 3, 2
VARIANCE, LENGTHSCALE, BIAS = 4.0, 1.0, 1.5
INFERENCES = ("ep", "vi")


def kernel():
    made = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    made.outputscale, made.base_kernel.lengthscale = VARIANCE, LENGTHSCALE
    return made


def drawn_from_prior(seed):
    """Bags, latent values and instance labels."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.5, 2.5, size=(N_BAGS * SIZE, D))
    gram = kernel()(torch.tensor(X)).to_dense().detach().numpy()
    root = np.linalg.cholesky(gram + 1e-6 * np.eye(len(X)))
    f = root @ rng.normal(size=len(X)) + BIAS * rng.normal()
    y = rng.random(len(X)) < norm.cdf(f)
    return Bags(X, np.repeat(np.arange(N_BAGS), SIZE)), f, y.astype(int)


def one(seed):
    torch.set_num_threads(1)
    bags, f, z = drawn_from_prior(seed)
    y = z.reshape(-1, SIZE).max(axis=1)
    train, test = np.arange(N_BAGS // 2), np.arange(N_BAGS // 2, N_BAGS)
    rows = np.isin(bags.index, test)
    out = {}
    for inference in INFERENCES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = BagGP(
                inference=inference, learn=False, kernel=kernel(), bias=BIAS, standardize=False, random_state=0
            ).fit(bags[train], y[train])
        mean, variance = model.predict_latent(bags[test])
        inside = np.abs(f[rows] - mean) <= norm.ppf(0.95) * np.sqrt(variance)
        out[inference] = (
            model.predict_proba(bags[test])[:, 1],
            y[test],
            model.predict_instance_proba(bags[test])[:, 1],
            z[rows],
            inside,
            model.inference_,
        )
    return out


def excess(truth, p, rng):
    """Calibration error beyond what perfect probabilities would show."""
    chance = np.mean([calibration_error((rng.random(len(p)) < p).astype(int), p) for _ in range(20)])
    return calibration_error(truth, p) - chance, chance


def main(sets=80):
    done = Parallel(2)(delayed(one)(seed) for seed in range(int(sets)))
    rng = np.random.default_rng(0)
    print(f"{len(done)} data sets from the prior, {len(done) * N_BAGS // 2:,} test bags of {SIZE}\n")
    print("| inference | calibration error, bags | instances | (by chance) | 90 % interval covers | fell back |")
    print("|---|---|---|---|---|---|")
    for inference in INFERENCES:
        parts = [result[inference] for result in done]
        bag_p, bag_y, row_p, row_y, inside = (np.concatenate([part[i] for part in parts]) for i in range(5))
        (bag, chance), (row, other) = excess(bag_y, bag_p, rng), excess(row_y, row_p, rng)
        fell = sum(part[5] != inference for part in parts)
        print(f"| {inference} | {bag:.4f} | {row:.4f} | {chance:.4f}, {other:.4f} | {inside.mean():.3f} | {fell} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
