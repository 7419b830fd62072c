"""What tests of learning a kernel begin with: settings, labels, and features about which nothing is learned yet."""

import numpy as np
from tests.problems import features_of

from bagwise.evidence.counts import CountEvidence
from bagwise.gp import kernels
from bagwise.inference.kernel_learning.settings import LearningSettings


def settings(seed=0, **changes):
    return LearningSettings(
        **({"n_restarts": 1, "learn_inducing": False, "by_bags": True} | changes), random=np.random.RandomState(seed)
    )


def labels_of(y, bags):
    return CountEvidence(np.asarray(y, dtype=float)[:, None], bags.sizes)


def start(bags):
    made = kernels.trainable_kernel("rbf", bags.n_features, None, 8.0, False)
    return features_of(bags, kernel=made, lengthscale=None, bias=5.0, n_inducing=8)
