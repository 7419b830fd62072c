"""Transformers in model files."""

import json

import numpy as np
import pytest
import safetensors.torch
import scipy.sparse
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from tests.pipelines import new_data, new_pipeline, quick

import bagwise
from bagwise import BagPipeline, make_pipeline
from bagwise.exceptions import ModelFileError
from bagwise.persistence import checksum, read_model


@pytest.fixture(scope="module")
def data():
    return new_data()


@pytest.fixture(scope="module")
def pipeline(data):
    return new_pipeline(data)


TRANSFORMERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    MinMaxScaler(),
    MaxAbsScaler(),
    RobustScaler(),
    Normalizer(),
    PCA(2, whiten=True),
    TruncatedSVD(2, random_state=0),
    VarianceThreshold(),
]


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=repr)
def test_saved_pipeline_gives_the_same_answers(tmp_path, data, transformer):
    fitted = make_pipeline(transformer, quick()).fit(*data)
    fitted.save(tmp_path / "m", notes={"bag": "slide"})
    again, notes = bagwise.models.load_with_notes(tmp_path / "m")
    assert isinstance(again, BagPipeline)
    assert notes == {"bag": "slide"}
    assert list(again.named_steps) == list(fitted.named_steps)
    found, expected = again.predict_instance_proba(data[0]), fitted.predict_instance_proba(data[0])
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_saved_pipeline_of_sparse_rows_gives_the_same_answers(tmp_path, data):
    bags, y = data
    sparse = bags.with_features(scipy.sparse.csr_array(bags.X), bags.feature_names)
    fitted = make_pipeline(MaxAbsScaler(), quick()).fit(sparse, y)
    fitted.save(tmp_path / "m")
    np.testing.assert_array_equal(bagwise.load(tmp_path / "m").predict_proba(sparse), fitted.predict_proba(sparse))


def test_transformer_that_cannot_be_saved_is_named(tmp_path, data):
    fitted = make_pipeline(SimpleImputer(), quick()).fit(*data)
    with pytest.raises(ModelFileError, match=r"with SimpleImputer works, but cannot be saved; .* StandardScaler"):
        fitted.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def rewritten(path, change):
    """The file with another description, and a checksum that fits it."""
    description, tensors = read_model(path)
    change(description, tensors)
    text = json.dumps(description)
    safetensors.torch.save_file(tensors, path, {"bagwise": text, "sha256": checksum(text, tensors)})


SPOILT = {
    "another class": lambda d, t: d["steps"][0].update({"class": "FunctionTransformer"}),
    "another attribute": lambda d, t: d["steps"][0].update(arrays=["__class__"]),
    "no array": lambda d, t: t.pop("step.0.scale_"),
    "not a number": lambda d, t: t["step.0.scale_"].fill_(float("nan")),
    "other widths": lambda d, t: t.update({"step.1.components_": t["step.1.components_"][:1].clone()}),
    "no steps": lambda d, t: d.update(steps=None),
    "no last": lambda d, t: d.update(last=None),
    "a list": lambda d, t: d.update(last=[1]),
    "no settings": lambda d, t: d["steps"][0].pop("settings"),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_spoilt_pipeline_file_is_refused(tmp_path, pipeline, spoil):
    pipeline.save(tmp_path / "m")
    rewritten(tmp_path / "m", spoil)
    with pytest.raises(ModelFileError):
        bagwise.load(tmp_path / "m")
