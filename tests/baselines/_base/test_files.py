import json

import numpy as np
import pytest
import torch

import bagwise
from bagwise import ModelFileError
from bagwise.baselines import NSK, SIL, AttentionMIL
from bagwise.datasets import make_bags
from bagwise.persistence import read_model, write_model

BAGS, Y, _ = make_bags(16, (2, 4), random_state=0)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "nsk.safetensors"
    NSK(random_state=0).fit(BAGS, Y).save(path, notes={"bag": "slide"})
    return path


def test_settings_names_and_notes_come_back(file):
    model, notes = bagwise.models.load_with_notes(file)
    assert isinstance(model, NSK)
    assert model.get_params() == NSK(random_state=0).get_params()
    assert notes == {"bag": "slide"}
    assert model.classes_.tolist() == [0, 1]


def test_several_label_columns_come_back(tmp_path):
    model = SIL(random_state=0).fit(BAGS, np.column_stack([Y, 1 - Y]))
    model.save(tmp_path / "m")
    assert np.array_equal(bagwise.load(tmp_path / "m").predict_proba(BAGS), model.predict_proba(BAGS))


def test_file_of_another_class_is_refused(file):
    with pytest.raises(ModelFileError, match="holds a model 'nsk', not 'sil'"):
        SIL.load(file)


def damaged(file, tmp_path, change):
    description, tensors = read_model(file)
    description.pop("schema")
    tensors = {name: value.clone() for name, value in tensors.items()}
    change(description, tensors)
    write_model(tmp_path / "damaged", json.loads(json.dumps(description)), tensors)
    return tmp_path / "damaged"


def drop_machines(description, tensors):
    description["machines"] = []


def unknown_kind(description, tensors):
    description["machines"][0]["kind"] = "Path"


def unknown_setting(description, tensors):
    description["parameters"]["depth"] = 3


def not_finite(description, tensors):
    name = next(name for name in tensors if name.endswith("weights"))
    tensors[name][0] = torch.nan


def wrong_width(description, tensors):
    name = next(name for name in tensors if name.endswith("vectors"))
    tensors[name] = tensors[name][:, :1].clone()


def bad_setting(description, tensors):
    description["parameters"]["C"] = -1.0


def no_classes(description, tensors):
    del description["classes"]


@pytest.mark.parametrize(
    "change", [drop_machines, unknown_kind, unknown_setting, not_finite, wrong_width, bad_setting, no_classes]
)
def test_damaged_file_is_refused(file, tmp_path, change):
    with pytest.raises((ModelFileError, bagwise.BagDataError)):
        bagwise.load(damaged(file, tmp_path, change))


def test_unfitted_baseline_is_not_saved(tmp_path):
    with pytest.raises(Exception, match="not fitted"):
        AttentionMIL().save(tmp_path / "m")
