"""The law of a count, slowly."""

import numpy as np


def slow_law(p):
    """Instance after instance, in plain NumPy."""
    law = np.ones(1)
    for chance in p:
        law = np.convolve(law, [1 - chance, chance])
    return law
