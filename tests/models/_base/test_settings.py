"""Settings in model files."""

import numpy as np
import pandas as pd
import pytest
import torch
from gpytorch import kernels as k
from sklearn.base import clone
from tests.saved_models import label, new_bags, scaled

import bagwise
from bagwise import MILGPProbit


@pytest.fixture
def bags():
    return new_bags()


def test_settings_come_back_so_that_a_loaded_model_can_be_fitted_again(tmp_path, bags):
    settings = {"kernel": scaled(k.MaternKernel(nu=1.5)), "inducing": bags.X[:9], "max_iter": None, "tol": 1e-7}
    model = MILGPProbit(random_state=4, bias=2.0, **settings).fit(bags, label(bags))
    model.save(tmp_path / "model")
    back = bagwise.load(tmp_path / "model")
    for name, value in model.get_params().items():
        if name not in ("kernel", "inducing"):
            assert back.get_params()[name] == value, name
    again = clone(back).fit(bags, label(bags))
    np.testing.assert_allclose(again.predict_proba(bags), model.predict_proba(bags), atol=1e-12)


@pytest.mark.parametrize("give", [pd.DataFrame, torch.tensor, np.ndarray.tolist])
def test_inducing_inputs_of_any_kind_can_be_saved(tmp_path, bags, give):
    model = MILGPProbit(max_iter=1, inducing=give(np.eye(3))).fit(bags, label(bags))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(bagwise.load(tmp_path / "model").inducing, np.eye(3))


def test_what_belongs_to_the_session_is_left_out(tmp_path, bags):
    model = MILGPProbit(max_iter=1, callback=print, device=torch.device("cpu"), random_state=np.random.RandomState(0))
    model.fit(bags, label(bags)).save(tmp_path / "model")
    back = bagwise.load(tmp_path / "model")
    assert (back.callback, back.device, back.random_state) == (None, "cpu", None)
