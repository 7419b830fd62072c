"""What the tests of test_sorting share."""

import numpy as np
import pandas as pd


def new_frame():
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {"slide": random.choice(list("qwertz"), 300), "x": random.standard_normal(300), "n": range(300)}
    )
