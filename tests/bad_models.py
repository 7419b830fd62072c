"""A small model, and files of it."""

import numpy as np
import pandas as pd
from tests.problems import random_bags

from bagwise import Bags, MILGPProbit


def model(**settings):
    return MILGPProbit(**{"n_inducing": 6, "max_iter": 2, "bias": 0.0, "random_state": 0, **settings})


def new_bags():
    plain = random_bags(np.random.default_rng(0), n_bags=12, n_features=3)
    return Bags(pd.DataFrame(plain.X, columns=["u", "v", "w"]), [f"slide {b}" for b in plain.index])


def new_y(bags):
    return np.arange(len(bags)) % 2


def new_saved(bags, y, tmp_path):
    path = tmp_path / "model.safetensors"
    model().fit(bags, y).save(path)
    return path
