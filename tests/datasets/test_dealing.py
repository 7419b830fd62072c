"""How positives are dealt out."""

import numpy as np

from bagwise.datasets import make_bags, wave


def test_the_margin_stays_empty():
    bags, _, _ = make_bags(20, margin=0.3, random_state=0)
    assert np.abs(wave(bags.X)).min() > 0.3
