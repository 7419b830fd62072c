"""Bags with labels, and distances between their instances."""

import numpy as np

from bagwise.datasets import make_bags

BAGS, Y, _ = make_bags(24, (2, 5), random_state=0)


BLOCKS = [X for _, X in BAGS]


def distances(A, B):
    return np.sqrt(((A[:, None, :] - B[None, :, :]) ** 2).sum(-1))
