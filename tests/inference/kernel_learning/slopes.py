"""Gradients against differences, along random directions: each looks at every parameter at the cost of one."""

import numpy as np


def slopes(blocks, value, step):
    """Along a random direction in each block: by the gradients that lie there, and by differences of ``value()``."""
    found, random = [], np.random.default_rng(7)
    gradients = [block.gradient().copy() for block in blocks]  # value() may leave others
    for block, gradient in zip(blocks, gradients, strict=True):
        centre, ends = block.get(), []
        direction = random.standard_normal(len(centre))
        direction /= np.linalg.norm(direction)
        for sign in (1.0, -1.0):
            block.set(centre + sign * step * direction)
            ends.append(value())
        block.set(centre)
        found.append((gradient @ direction, (ends[0] - ends[1]) / (2.0 * step)))
    return zip(*found, strict=True)
