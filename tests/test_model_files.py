"""Model files from elsewhere: older ones load, damaged ones are known, greedy ones get no more than they hold."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from tests.model_files import FIXTURES, changed, fixture, put

import bagwise
from bagwise import Bags, ModelFileError, persistence
from bagwise.persistence import read_model, write_model

# ---------------------------------------------------------------- older files


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_files_of_schema_1_still_give_their_answers(path):
    """Of instances exactly; those of bags are averages over other points now (of a soft maximum rougher ones)."""
    averaging = 0.03 if path.stem == "gpmil_softmax" else 5e-3
    with np.load(path.with_suffix(".npz")) as known:
        bags = Bags(known["X"], known["index"])
        model = bagwise.load(path)
        rounding = 1e-10 if model.dtype == "float64" else 1e-5
        np.testing.assert_allclose(model.predict_instance_proba(bags), known["instance"], rtol=0, atol=rounding)
        np.testing.assert_allclose(model.predict_proba(bags), known["bag"], rtol=0, atol=averaging)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_files_of_schema_1_can_be_saved_again(path, tmp_path):
    model = bagwise.load(path)
    model.save(tmp_path / "again")
    assert read_model(tmp_path / "again")[0]["schema"] == 2
    rows = np.zeros((1, 2))
    np.testing.assert_array_equal(bagwise.load(tmp_path / "again").predict_proba(rows), model.predict_proba(rows))


def test_file_of_schema_1_keeps_its_own_settings_where_defaults_have_changed():
    model = bagwise.load(fixture("mil_gp_probit"))
    assert (model.max_iter, model.bias, model.standardize) == (25, 0.0, True)
    assert model.leftovers == "independent"
    assert not model.rule_.shares
    assert bagwise.load(fixture("vgpmil")).H == 100.0


# ---------------------------------------------------------------- files of this schema


NEWER = sorted((Path(__file__).parent / "fixtures" / "schema2").glob("*.safetensors"))  # by tests/fixtures/make.py


@pytest.mark.parametrize("path", NEWER, ids=lambda path: path.stem)
def test_files_of_schema_2_still_give_their_answers(path):
    """Of instances exactly, unless they are averages: those of classes, and all of bags."""
    averaging = 0.03 if path.stem == "gpmil_mode" else 5e-3
    with np.load(path.with_suffix(".npz")) as known:
        bags = Bags(known["X"], known["index"], weight=known.get("weight"))
        model = bagwise.load(path)
        rounding = averaging if path.stem.startswith(("bag_gp_class", "bag_gp_candidates")) else 1e-10
        np.testing.assert_allclose(model.predict_instance_proba(bags), known["instance"], rtol=0, atol=rounding)
        np.testing.assert_allclose(model.predict_proba(bags), known["bag"], rtol=0, atol=averaging)


def test_effect_of_a_bag_that_a_file_gives_as_one_number_is_common_to_the_bag():
    path = next(path for path in NEWER if path.stem == "bag_gp_effect_of_one_number")
    assert read_model(path)[0]["features"]["effect"] == 0.5
    effect = bagwise.load(path).group_effect_
    assert (effect.common, effect.own) == (0.5, 0.0)


# ---------------------------------------------------------------- damage


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    bagwise.load(fixture("vgpmil")).save(path)
    return path


def test_every_flipped_bit_of_a_model_file_is_found(saved):
    whole = saved.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    random = np.random.default_rng(0)
    places = np.concatenate([np.arange(16), random.integers(header, size=400), random.integers(len(whole), size=600)])
    for place, bit in zip(places, random.integers(8, size=len(places)), strict=True):
        data = bytearray(whole)
        data[place] ^= 1 << int(bit)
        saved.write_bytes(data)
        with pytest.raises(ModelFileError):
            bagwise.load(saved)


def test_damage_in_the_numbers_is_named_as_damage(saved):
    data = bytearray(saved.read_bytes())
    data[-5] ^= 1
    saved.write_bytes(data)
    with pytest.raises(ModelFileError, match="model: the file is damaged: its content is not what its checksum says"):
        bagwise.load(saved)


def test_file_without_its_checksum_is_refused_and_one_written_by_another_tool_is_not(saved):
    tensors = safetensors.torch.load_file(saved)
    with safetensors.safe_open(str(saved), framework="pt") as file:
        metadata = file.metadata()
    safetensors.torch.save_file(tensors, saved, metadata=metadata)
    bagwise.load(saved)
    safetensors.torch.save_file(tensors, saved, metadata={"bagwise": metadata["bagwise"]})
    with pytest.raises(ModelFileError, match="has no checksum; it is damaged"):
        bagwise.load(saved)


def test_checkpoint_with_a_flipped_bit_is_refused(tmp_path):
    bags, y = Bags(np.arange(8.0)[:, None], np.arange(8)), [0, 1] * 4
    settings = {"inference": "gibbs", "n_samples": 4, "n_burn_in": 1, "n_chains": 2, "random_state": 0}
    model = bagwise.MILGPProbit(**settings, checkpoint=tmp_path / "c")
    with pytest.warns(bagwise.ConvergenceWarning):
        model.fit(bags, y)
    data = bytearray((tmp_path / "c").read_bytes())
    data[-1] ^= 1
    (tmp_path / "c").write_bytes(data)
    with pytest.raises(ModelFileError, match="checksum"):
        model.fit(bags, y)


# ---------------------------------------------------------------- more than a file holds


def leaf(tree):
    return leaf(tree["parts"][0]) if "parts" in tree else tree


def nested(depth):
    def change(description, tensors):
        for _ in range(depth):
            description["features"]["kernel"] = {
                "kernel": "AdditiveKernel",
                "parts": [description["features"]["kernel"]],
            }

    return change


def many_draws(description, tensors):
    shape = (1, 1, 200_000, 1)
    tensors["posterior.columns"], tensors["posterior.values"] = torch.zeros(shape).long(), torch.zeros(shape).double()
    tensors["posterior.mean"] = torch.zeros(2000, 1).double()
    tensors["features.inducing"] = torch.rand(2000, 2).double()


def many_labels(description, tensors):
    rows = 600
    tensors["posterior.means"] = torch.zeros(1000, 1, 1, rows).double()


CONFIGURATION = ("features", "kernel", "map", "configuration")
GREEDY = {
    "wide network": ("bag_gp_map", put([30_000, 30_000], *CONFIGURATION, "hidden"), "does not hold the weights"),
    "wide network as a setting": (
        "bag_gp_map",
        put([30_000, 30_000], "parameters", "feature_map", "feature_map", "configuration", "hidden"),
        "does not hold the weights",
    ),
    "deep network": ("bag_gp_map", put([1] * 200_000, *CONFIGURATION, "hidden"), "200000 hidden layers"),
    "batches": (
        "vgpmil",
        put([10_000, 10_000], "features", "kernel", "arguments", "batch_shape"),
        r"gives RBFKernel the argument batch_shape=\[10000, 10000\], which it cannot have",
    ),
    "features": (
        "vgpmil",
        put(10**9, "features", "kernel", "arguments", "ard_num_dims"),
        "does not hold the parameters",
    ),
    "kernels in kernels": ("vgpmil", nested(200), "nests kernels too deeply"),
    "power": (
        "vgpmil",
        put({"kernel": "PolynomialKernel", "arguments": {"power": 10**6}, "constraints": {}}, "features", "kernel"),
        "argument power=1000000",
    ),
    "draws": ("group_kernel_machine", many_draws, "the model file asks for draws of 400,000,000 numbers in all"),
    "covariances": ("bag_gp_gibbs", many_labels, "the model file asks for draws of 360,000,000 numbers in all"),
    "labels times classes": (
        "vgpmil",
        lambda description, tensors: description["fitted"].update(
            label_names=["x"] * 50_000, classes=list(range(50_000))
        ),
        "several labels, but not two classes",
    ),
    "rows that are not there": (
        "vgpmil",
        lambda description, tensors: tensors.update({"features.inducing": torch.zeros(0, 2**40).double()}),
        "tensors that no model has",
    ),
}


@pytest.mark.parametrize("name", GREEDY)
def test_file_cannot_ask_for_more_than_it_holds(tmp_path, name):
    source, change, message = GREEDY[name]
    path = changed(source, tmp_path / "model", change)
    with pytest.raises(ModelFileError, match=message):
        bagwise.load(path)


LIMITED = """
import resource, sys
import bagwise
from bagwise import ModelFileError
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        bagwise.load(path)
    except ModelFileError:
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used)
"""


def test_refusing_greedy_files_needs_little_memory(tmp_path):
    paths = [changed(GREEDY[name][0], tmp_path / str(k), GREEDY[name][1]) for k, name in enumerate(GREEDY)]
    command = [sys.executable, "-c", LIMITED, *map(str, paths)]
    kilobytes = int(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
    assert kilobytes < 200_000


def test_huge_header_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "model"
    text = json.dumps({"schema": 2, "note": "x" * persistence.MAX_HEADER_BYTES})
    safetensors.torch.save_file({"a": torch.zeros(1)}, path, metadata={"bagwise": text})
    with pytest.raises(ModelFileError, match=r"its header of 16,\d+,\d+ bytes is larger than that of any model file"):
        read_model(path)
    with pytest.raises(ModelFileError, match="this model cannot be saved: its description needs"):
        write_model(path, {"note": "x" * persistence.MAX_HEADER_BYTES}, {})
    many = {f"t{number}": torch.zeros(1) for number in range(persistence.MAX_TENSORS + 1)}
    safetensors.torch.save_file(many, path, metadata={"bagwise": json.dumps({"schema": 1})})
    with pytest.raises(ModelFileError, match="holds tensors that no model has"):
        read_model(path)


# ---------------------------------------------------------------- numbers


def scaled(name, factor):
    return lambda description, tensors: tensors.update({name: tensors[name] * factor})


def first(name, value):
    def change(description, tensors):
        tensors[name].reshape(-1)[0] = value

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("vgpmil", first("features.shift", 1.8e308)),
        ("vgpmil", first("features.shift", 1e200)),
        ("bag_gp_two_labels", first("features.shift", 1e30)),
        ("vgpmil", first("features.scale", 1e-300)),
        ("vgpmil", scaled("features.inducing", 1e200)),
        ("vgpmil", scaled("features.lower", 1e-250)),
        ("vgpmil", scaled("posterior.mean", 1e308)),
        ("vgpmil", scaled("posterior.factors", 1e-200)),
        ("vgpmil", first("kernel.raw_lengthscale", -1e300)),
        ("bag_gp_ep", first("kernel.raw_outputscale", 1e300)),
        ("bag_gp_ep", put(1e300, "features", "bias")),
        ("bag_gp_map", scaled("kernel.feature_map.layers.2.weight", 1e308)),
        ("bag_gp_gibbs", scaled("posterior.means", 1e300)),
        ("miplgp_exact", scaled("posterior.weights", 1e308)),
    ],
)
def test_numbers_that_give_no_finite_answers_are_refused(tmp_path, name, change):
    with pytest.raises(ModelFileError, match=r"values that no model has|damaged|not finite"):
        bagwise.load(changed(name, tmp_path / "model", change))
