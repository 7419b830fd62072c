"""Are the probabilities true? Data drawn from the model's own prior, every inference, calibration and coverage.

Each data set draws a latent function from the prior (the kernel is given to the model), bags and labels from it; half
of the bags train, half test. Expected calibration error is pooled over all data sets; the error that perfect
probabilities would show by chance is subtracted: that of labels drawn again from the joint posterior, for answers about
one data set are right or wrong together. Coverage: share of true latent values inside the 90 % interval of their
posterior.

small   500 bags of 3 that lie anywhere, 200 inducing inputs
large   120 bags of 200 around a middle of their own, one site per bag; "lines" are the sites that it begins with
sparse  as small, with fewer than N/10 inducing inputs

Run: python -m benchmarks.calibration [small|large|sparse] [data sets]
"""

import sys
import warnings
from typing import NamedTuple

import gpytorch
import numpy as np
import torch
from joblib import Parallel, delayed
from scipy.stats import norm

from bagwise import BagGP, Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.inference.engines import Limits, by_bag_sites
from bagwise.inference.loop import SILENT
from bagwise.metrics import calibration_error

D, VARIANCE, LENGTHSCALE = 2, 4.0, 1.0
REACH, GRID, DRAWS = 2.5, 24, 20


class Setting(NamedTuple):
    """A kind of data set and how it is fitted."""

    n_bags: int
    size: int
    bias: float  # standard deviation of the constant
    inferences: tuple[str, ...]
    spread: float | None = None  # of the instances around the middle of their bag; None: they lie anywhere
    n_inducing: int = 200


SETTINGS = {
    "small": Setting(500, 3, 1.5, ("ep", "vi")),
    "large": Setting(120, 200, 1.5, ("bag-ep", "lines"), spread=0.3),
    "sparse": Setting(500, 3, 1.5, ("ep",), n_inducing=70),
}


def kernel():
    made = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    made.outputscale, made.base_kernel.lengthscale = VARIANCE, LENGTHSCALE
    return made


def places(setting, rng):
    """Where the instances lie."""
    if setting.spread is None:
        return rng.uniform(-REACH, REACH, size=(setting.n_bags * setting.size, D))
    middles = rng.uniform(-REACH, REACH, size=(setting.n_bags, D))
    return np.repeat(middles, setting.size, axis=0) + setting.spread * rng.normal(size=(len(middles) * setting.size, D))


def drawn_from_prior(setting, seed):
    """Bags, latent values and instance labels. The function is drawn on a grid so fine that it is known in between."""
    rng = np.random.default_rng(seed)
    X = places(setting, rng)
    axis = np.linspace(-REACH - 1.0, REACH + 1.0, GRID)
    grid = torch.tensor(np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, D))
    with torch.no_grad():
        gram, cross = kernel()(grid).to_dense(), kernel()(torch.tensor(X), grid).to_dense()
    root = torch.linalg.cholesky(gram + 1e-6 * torch.eye(len(gram)))
    half = torch.linalg.solve_triangular(root, cross.T, upper=False)
    rest = np.sqrt(np.clip(VARIANCE - half.square().sum(0).numpy(), 0.0, None))
    f = half.T.numpy() @ rng.normal(size=len(gram)) + rest * rng.normal(size=len(X)) + setting.bias * rng.normal()
    y = rng.random(len(X)) < norm.cdf(f)
    return Bags(X, np.repeat(np.arange(setting.n_bags), setting.size)), f, y.astype(int)


def one(setting, seed):
    torch.set_num_threads(1)
    bags, f, z = drawn_from_prior(setting, seed)
    y = z.reshape(-1, setting.size).max(axis=1)
    train, test = np.split(np.arange(setting.n_bags), 2)
    rows = np.isin(bags.index, test)
    out = {}
    for inference in setting.inferences:
        model = fitted(setting, inference, bags[train], y[train])
        mean, variance = model.predict_latent(bags[test])
        inside = np.abs(f[rows] - mean) <= norm.ppf(0.95) * np.sqrt(variance)
        out[inference] = (
            model.predict_proba(bags[test])[:, 1],
            y[test],
            model.predict_instance_proba(bags[test])[:, 1],
            z[rows],
            inside,
            *drawn_again(model, bags[test], seed),
            model.inference_,
        )
    return out


def drawn_again(model, bags, seed):
    """Labels of bags (B, DRAWS) and instances (N, DRAWS) as the posterior expects them."""
    rng = np.random.default_rng([seed, 1])
    phi, kappa = model.features_.transform(bags)
    v = model.posterior_.draws(torch.tensor(rng.normal(size=(phi.shape[1], DRAWS))))[0].numpy()
    z = rng.random((len(phi), DRAWS)) < norm.cdf(phi @ v / np.sqrt(1.0 + kappa)[:, None])
    return np.logical_or.reduceat(z, bags.offsets[:-1]), z


def fitted(setting, inference, bags, y):
    settings = {"learn": False, "size_effect": False, "standardize": False, "n_inducing": setting.n_inducing}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = "bag-ep" if inference == "lines" else inference
        model = BagGP(inference=engine, kernel=kernel(), bias=setting.bias, random_state=0, **settings).fit(bags, y)
        return with_lines(model, bags, y) if inference == "lines" else model


def with_lines(model, bags, y):
    """The same model with the sites that the search begins with, which do not match moments (theory 13.2)."""
    evidence = CountEvidence(y[:, None].astype(float), bags.sizes)
    found = by_bag_sites(model.features_, bags, evidence, Limits(None, None, SILENT), model.seed_)
    model.posterior_, model.inference_ = found.posterior, "lines"
    return model


def excess(truth, p, again):
    """Calibration error beyond what perfect probabilities would show, and that."""
    chance = np.mean([calibration_error(labels.astype(int), p) for labels in again.T])
    return calibration_error(truth, p) - chance, chance


def main(name="small", sets=80):
    setting = SETTINGS[name]
    done = Parallel(2)(delayed(one)(setting, seed) for seed in range(int(sets)))
    print(f"{len(done)} data sets from the prior, {len(done) * setting.n_bags // 2:,} test bags of {setting.size}\n")
    print("| inference | calibration error, bags | instances | (by chance) | 90 % interval covers | fell back |")
    print("|---|---|---|---|---|---|")
    for inference in setting.inferences:
        parts = [result[inference] for result in done]
        bag_p, bag_y, row_p, row_y, inside, *again = (np.concatenate([part[i] for part in parts]) for i in range(7))
        (bag, chance), (row, other) = excess(bag_y, bag_p, again[0]), excess(row_y, row_p, again[1])
        fell = sum(part[7] != inference for part in parts)
        print(f"| {inference} | {bag:.4f} | {row:.4f} | {chance:.4f}, {other:.4f} | {inside.mean():.3f} | {fell} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
