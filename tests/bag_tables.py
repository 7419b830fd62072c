"""A table whose rows are in no order, and its bags."""

import numpy as np
import pandas as pd

from bagwise import Bags

KEYS = ["b", "a", "b", "c", "a", "b"]


def new_X():
    return np.arange(12.0).reshape(6, 2)


def new_bags(X):
    return Bags(X, KEYS, feature_names=["u", "v"], known=[0, 1, np.nan, 0, np.nan, 1])


def new_frame():
    return pd.DataFrame(
        {
            "slide": ["007", "8", "007", "8", "ü"],
            "area": [1.0, 2.0, 3.0, 4.0, 5.0],
            "count": [1, 2, 3, 4, 5],
            "cancer": [1.0, 0.0, 1.0, 0.0, np.nan],
            "cell": [0, 0, 1, 0, 1],
        }
    )
