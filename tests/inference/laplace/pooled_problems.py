"""Exact features and losses of small problems."""

import gpytorch
from tests.problems import features_of

from bagwise.bag_models.soft_max import BagLosses
from bagwise.numerics.links import LINKS


def losses(labels, link="logistic"):
    return BagLosses(labels, LINKS[link])


def exact_features(bags, kernel="exponential", **changes):
    return features_of(bags, n_inducing=None, jitter=1e-13, kernel=kernel, lengthscale=0.8, **changes)


def variance_of(kernel, value):
    scaled = gpytorch.kernels.ScaleKernel(kernel).double()
    scaled.outputscale = value
    return scaled
