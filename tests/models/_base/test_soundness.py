"""Model files whose parts do not fit together."""

import json

import numpy as np
import pytest
import safetensors
import safetensors.torch
from tests.bad_models import new_bags, new_saved, new_y

import bagwise
from bagwise import ModelFileError, persistence


@pytest.fixture
def bags():
    return new_bags()


@pytest.fixture
def y(bags):
    return new_y(bags)


@pytest.fixture
def saved(bags, y, tmp_path):
    return new_saved(bags, y, tmp_path)


def rewrite(path, change):
    """Change a model file in place: ``change(description, tensors)`` edits both."""
    with safetensors.safe_open(str(path), framework="pt") as file:
        description, names = json.loads(file.metadata()["bagwise"]), file.keys()
        tensors = {name: file.get_tensor(name) for name in names}
    change(description, tensors)
    persistence.write_model(path, description, tensors)  # with a checksum that fits


def put(value, *keys):
    def change(description, tensors):
        inner = description
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value

    return change


def drop(*keys):
    def change(description, tensors):
        inner = description
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]

    return change


def swap(name, turn):
    def change(description, tensors):
        tensors[name] = turn(tensors[name]).contiguous()

    return change


DEEP = {"kernel": "RBFKernel", "arguments": {}, "constraints": {}}
TAMPERED = {
    "newer schema": (put(3, "schema"), "schema 3; this version reads up to schema 2. Update bagwise"),
    "schema is text": (put("1", "schema"), "damaged"),
    "schema is true": (put(True, "schema"), "damaged"),
    "schema is zero": (put(0, "schema"), "damaged"),
    "unknown model": (put("oracle", "model"), "holds a model 'oracle'; this version of bagwise has"),
    "model is a list": (put([], "model"), "holds a model"),
    "settings are a list": (put([], "parameters"), "incomplete or damaged"),
    "unknown setting": (put(1, "parameters", "surprise"), "settings that MILGPProbit does not have: .*surprise"),
    "no kernel": (drop("features", "kernel"), "incomplete or damaged"),
    "unknown kernel": (put({"kernel": "__import__"}, "features", "kernel"), "unknown kernel '__import__'"),
    "other kernel": (
        put({**DEEP, "arguments": {"ard_num_dims": 2}}, "features", "kernel"),
        "damaged|does not hold|needs",
    ),
    "enormous kernel": (put(10**15, "features", "kernel", "arguments", "ard_num_dims"), "does not hold the parameters"),
    "strange constraint": (
        put({"kind": "Evil"}, "features", "kernel", "constraints", "raw_lengthscale_constraint"),
        "raw_lengthscale_constraint by {'kind': 'Evil'}, which is no constraint",
    ),
    "columns elsewhere": (
        put([5], "features", "kernel", "arguments", "active_dims"),
        "does not fit 3 features|damaged",
    ),
    "negative bias": (put(-1.0, "features", "bias"), "no model has"),
    "bias is text": (put("big", "features", "bias"), "damaged"),
    "new bias": (put(1.0, "features", "bias"), "do not fit together"),
    "three classes": (put([0, 1, 2], "fitted", "classes"), "no model has"),
    "more features": (put(4, "fitted", "n_features"), "do not fit together"),
    "fewer names": (put(["u"], "fitted", "feature_names"), "do not fit together"),
    "more labels": (put(["a", "b"], "fitted", "label_names"), "do not fit together|damaged"),
    "negative seed": (put(-5, "fitted", "seed"), "no model has"),
    "no seed": (drop("fitted", "seed"), "incomplete or damaged"),
    "no trace": (drop("traces"), "incomplete or damaged"),
    "nan in the mean": (swap("posterior.mean", lambda part: part * np.nan), "no model has"),
    "infinite factor": (swap("posterior.factors", lambda part: part / 0.0), "no model has"),
    "zero factor": (swap("features.lower", lambda part: part * 0.0), "no model has"),
    "zero scale": (swap("features.scale", lambda part: part * 0.0), "no model has"),
    "half precision": (swap("features.inducing", lambda part: part.half()), "damaged|no model has|needs"),
    "whole numbers": (swap("posterior.mean", lambda part: part.long()), "no model has"),
    "short mean": (swap("posterior.mean", lambda part: part[:-1]), "do not fit together"),
    "flat mean": (swap("posterior.mean", lambda part: part[:, 0]), "damaged"),
    "flat inducing": (swap("features.inducing", lambda part: part[0]), "damaged|do not fit"),
    "cut inducing": (swap("features.inducing", lambda part: part[:, :2]), "do not fit together"),
    "wrong factor": (swap("posterior.factor_of", lambda part: part + 7), "do not fit together"),
    "factors chosen by yes and no": (swap("posterior.factor_of", lambda part: part.bool()), "do not fit together"),
    "nan kernel": (swap("kernel.raw_lengthscale", lambda part: part * np.nan), "is not finite"),
    "no posterior": (lambda description, tensors: tensors.pop("posterior.mean"), "incomplete or damaged"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_model_file_that_was_tampered_with(saved, name):
    change, message = TAMPERED[name]
    rewrite(saved, change)
    with pytest.raises(ModelFileError, match=f"model.safetensors: .*({message})"):
        bagwise.load(saved)


def test_rewriting_alone_does_no_harm(saved, bags):
    before = bagwise.load(saved).predict_proba(bags)
    rewrite(saved, lambda description, tensors: None)
    np.testing.assert_array_equal(bagwise.load(saved).predict_proba(bags), before)
