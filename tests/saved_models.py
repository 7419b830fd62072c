"""Models to save."""

import numpy as np
from gpytorch import kernels as k
from tests.problems import random_bags

from bagwise import MILGPProbit


def label(bags):
    return np.array([int((X[:, 0] > 0.7).any()) for _, X in bags])


def scaled(base):
    kernel = k.ScaleKernel(base)
    kernel.outputscale = 3.0
    return kernel


# each: settings, and what to do to the bags and to the labels
CASES = {
    "published": ({}, None, None),
    "converged, with a constant": ({"max_iter": None, "bias": 5.0}, None, None),
    "text classes": ({}, None, lambda y: np.where(y == 1, "tumour", "benign")),
    "several labels, some missing": (
        {},
        None,
        lambda y: np.column_stack([y, np.where(np.arange(20) < 5, np.nan, 1 - y)]),
    ),
    "named columns": ({}, lambda bags: bags.with_features(bags.X, ["α", "b", "c"]), None),
    "single precision": ({"dtype": "float32"}, None, None),
    "exponential kernel": ({"kernel": "exponential", "lengthscale": 0.8}, None, None),
    "linear kernel": ({"kernel": "linear"}, None, None),
    "gpytorch kernel": (
        {"kernel": scaled(k.RBFKernel(active_dims=[0, 2], ard_num_dims=2) + k.LinearKernel())},
        None,
        None,
    ),
    "given inducing inputs": ({"inducing": np.eye(3), "standardize": False, "jitter": 1e-5}, None, None),
    "infinite tolerance": ({"tol": 1e300, "random_state": np.random.RandomState(3)}, None, None),
}


def fitted(name, bags):
    settings, change_bags, change_labels = CASES[name]
    y = label(bags)
    y = y if change_labels is None else change_labels(y)
    bags = bags if change_bags is None else change_bags(bags)
    return MILGPProbit(**{"n_inducing": 12, "random_state": 0, **settings}).fit(bags, y), bags, y


def new_bags():
    return random_bags(np.random.default_rng(0), n_bags=20, n_features=3)
