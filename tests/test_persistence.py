"""A saved model is the model: the same answers in another process, one plain file, whole or not at all."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from gpytorch import kernels as k
from sklearn.base import clone
from tests.problems import random_bags

import bagwise
from bagwise import Bags, MILGPProbit, ModelFileError

SRC = Path(bagwise.__file__).parent


@pytest.fixture
def bags():
    return random_bags(np.random.default_rng(0), n_bags=20, n_features=3)


def label(bags):
    return np.array([int((X[:, 0] > 0.7).any()) for _, X in bags])


def scaled(base):
    kernel = k.ScaleKernel(base)
    kernel.outputscale = 3.0
    return kernel


# each: settings, and what to do to the bags and to the labels
CASES = {
    "published": ({}, None, None),
    "converged, with a constant": ({"max_iter": None, "bias": 5.0}, None, None),
    "text classes": ({}, None, lambda y: np.where(y == 1, "tumour", "benign")),
    "several labels, some missing": (
        {},
        None,
        lambda y: np.column_stack([y, np.where(np.arange(20) < 5, np.nan, 1 - y)]),
    ),
    "named columns": ({}, lambda bags: bags.with_features(bags.X, ["α", "b", "c"]), None),
    "single precision": ({"dtype": "float32"}, None, None),
    "exponential kernel": ({"kernel": "exponential", "lengthscale": 0.8}, None, None),
    "linear kernel": ({"kernel": "linear"}, None, None),
    "gpytorch kernel": (
        {"kernel": scaled(k.RBFKernel(active_dims=[0, 2], ard_num_dims=2) + k.LinearKernel())},
        None,
        None,
    ),
    "given inducing inputs": ({"inducing": np.eye(3), "standardize": False, "jitter": 1e-5}, None, None),
    "infinite tolerance": ({"tol": 1e300, "random_state": np.random.RandomState(3)}, None, None),
}

RELOAD = """
import sys, numpy as np, bagwise
folder = sys.argv[1]
bags = bagwise.Bags.load(folder + "/bags.npz")
for name in sys.argv[2:]:
    model = bagwise.load(folder + "/" + name)
    latent = np.stack(model.predict_latent(bags))
    answers = {"bag": model.predict_proba(bags), "instance": model.predict_instance_proba(bags), "latent": latent}
    np.savez(folder + "/" + name + ".answers.npz", **answers)
"""


def fitted(name, bags):
    settings, change_bags, change_labels = CASES[name]
    y = label(bags)
    y = y if change_labels is None else change_labels(y)
    bags = bags if change_bags is None else change_bags(bags)
    return MILGPProbit(**{"n_inducing": 12, "random_state": 0, **settings}).fit(bags, y), bags, y


def test_a_new_process_gives_the_same_answers_bit_for_bit(tmp_path, bags):
    plain = [name for name in CASES if CASES[name][1] is None]
    models = {f"{number}": fitted(name, bags)[0] for number, name in enumerate(plain)}
    for file, model in models.items():
        model.save(tmp_path / file)
    bags.save(tmp_path / "bags.npz")
    subprocess.run([sys.executable, "-W", "ignore", "-c", RELOAD, str(tmp_path), *models], check=True)
    for file, model in models.items():
        with np.load(tmp_path / f"{file}.answers.npz") as answers:
            np.testing.assert_array_equal(answers["bag"], model.predict_proba(bags), err_msg=plain[int(file)])
            np.testing.assert_array_equal(answers["instance"], model.predict_instance_proba(bags))
            np.testing.assert_array_equal(answers["latent"], np.stack(model.predict_latent(bags)))


@pytest.mark.parametrize("name", CASES)
def test_everything_fitted_comes_back(tmp_path, bags, name):
    model, bags, y = fitted(name, bags)
    model.save(tmp_path / "model")
    back = bagwise.load(tmp_path / "model")
    assert type(back) is type(model)
    np.testing.assert_array_equal(back.predict_proba(bags), model.predict_proba(bags))
    np.testing.assert_array_equal(back.predict(bags), model.predict(bags))
    np.testing.assert_array_equal(np.array(back.classes_), np.array(model.classes_))
    assert back.predict(bags).dtype == model.predict(bags).dtype
    assert (back.n_features_in_, back.label_names_) == (model.n_features_in_, model.label_names_)
    assert list(getattr(back, "feature_names_in_", [])) == list(getattr(model, "feature_names_in_", []))
    assert (back.n_iter_, back.converged_) == (model.n_iter_, model.converged_)
    np.testing.assert_array_equal(back.trace_.values, model.trace_.values)
    np.testing.assert_array_equal(back.log_evidence_, model.log_evidence_)
    np.testing.assert_array_equal(back.mean_, model.mean_)
    assert (back.features_.origin, back.features_.jitter) == (model.features_.origin, model.features_.jitter)
    assert back.score(bags, y) == model.score(bags, y)


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


def test_the_file_is_plain_safetensors_with_a_description(tmp_path, bags):
    model = MILGPProbit(max_iter=1, random_state=0).fit(bags, label(bags))
    model.save(tmp_path / "model")
    with safetensors.safe_open(str(tmp_path / "model"), framework="np") as file:
        description = json.loads(file.metadata()["bagwise"])
        assert set(file.keys()) >= {"features.inducing", "posterior.mean", "posterior.factors"}
    assert (description["schema"], description["model"]) == (2, "mil-gp-probit")
    assert description["version"] == bagwise.__version__


# ---------------------------------------------------------------- whole or not at all


@pytest.mark.parametrize("fault", ["write", "flush", "rename"])
def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, bags, monkeypatch, fault):
    path = tmp_path / "model"
    model = MILGPProbit(max_iter=1, random_state=0).fit(bags, label(bags))
    model.save(path)
    before = path.read_bytes()

    def fail(*arguments, **options):
        raise OSError("no space left on device")

    where = {
        "write": (safetensors.torch, "save"),
        "flush": (bagwise._files.os, "fsync"),
        "rename": (bagwise._files.os, "replace"),
    }
    monkeypatch.setattr(*where[fault], fail)
    with pytest.raises(OSError, match="no space left"):
        model.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_kernel_that_cannot_be_saved_works_and_says_so(tmp_path, bags):
    model = MILGPProbit(max_iter=1, kernel=k.PiecewisePolynomialKernel()).fit(bags, label(bags))
    assert np.isfinite(model.predict_proba(bags)).all()
    with pytest.raises(ModelFileError, match="PiecewisePolynomialKernel cannot be saved"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_saved_file_has_the_users_ordinary_permissions(tmp_path, bags):
    (tmp_path / "other").write_bytes(b"")
    MILGPProbit(max_iter=1).fit(bags, label(bags)).save(tmp_path / "model")
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "other").stat().st_mode


# ---------------------------------------------------------------- damage


def test_damaged_bytes_are_always_refused(tmp_path, bags):
    """Whatever is cut off or changed."""
    path = tmp_path / "model"
    MILGPProbit(max_iter=1, n_inducing=4, random_state=0).fit(bags, label(bags)).save(path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    start = 8 + int.from_bytes(whole[:8], "little")
    for trial in range(200):
        data = bytearray(whole)
        if trial % 4 == 0:
            data = data[: rng.integers(len(data))]
        else:
            for place in rng.integers(start if trial % 4 < 3 else len(data), size=rng.integers(1, 4)):
                data[place] ^= rng.integers(1, 256)
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match=re.escape(str(path))):
            bagwise.load(path)


def test_nothing_is_ever_unpickled():
    forbidden = re.compile(
        r"^\s*(import|from)\s+(pickle|cPickle|dill|cloudpickle|joblib|shelve|marshal)\b"
        r"|pickle\.loads?\(|allow_pickle\s*=\s*True|torch\.load\(|read_pickle\(|(?<![.\w])(eval|exec)\(",
        re.MULTILINE,
    )
    files = sorted(SRC.rglob("*.py"))
    assert len(files) > 20
    assert [path.name for path in files if forbidden.search(path.read_text(encoding="utf-8"))] == []


def test_bags_files_hold_no_objects(tmp_path):
    Bags(np.zeros((2, 1)), ["a", "b"], feature_names=["x"]).save(tmp_path / "bags.npz")
    with np.load(tmp_path / "bags.npz", allow_pickle=False) as archive:
        assert all(archive[name].dtype.kind != "O" for name in archive.files)


def test_a_folder_that_is_not_there_is_named(tmp_path, bags):
    model = MILGPProbit(random_state=0).fit(bags, np.arange(len(bags)) % 2)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere; create it first"):
        model.save(tmp_path / "nowhere" / "model.safetensors")
