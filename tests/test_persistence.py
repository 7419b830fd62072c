"""A saved model is one plain file, whole or not at all; tests/test_new_process.py asks it in another process."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
from gpytorch import kernels as k
from tests.saved_models import label, new_bags

import bagwise
from bagwise import Bags, MILGPProbit, ModelFileError

SRC = Path(bagwise.__file__).parent


@pytest.fixture
def bags():
    return new_bags()


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
