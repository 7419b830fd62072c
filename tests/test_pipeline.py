"""Pipelines of bags: everything the model can do, with transformers before it, in one file."""

import json

import numpy as np
import pytest
import safetensors.torch
import scipy.sparse
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

import bagwise
from bagwise import VGPMIL, BagGP, BagPipeline, Bags, PerInstance, make_pipeline
from bagwise.active import suggest
from bagwise.datasets import make_bags
from bagwise.exceptions import ModelFileError
from bagwise.persistence import checksum, read_model
from bagwise.report import write_report

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


def quick():
    return VGPMIL(n_inducing=6, max_iter=3, random_state=0)


@pytest.fixture(scope="module")
def data():
    bags, y, _ = make_bags(24, (2, 5), 3, random_state=0)
    return Bags(bags.X, bags.index, feature_names=["u", "v", "w"]), y


@pytest.fixture(scope="module")
def pipeline(data):
    return make_pipeline(StandardScaler(), PCA(2), quick()).fit(*data)


def test_pipelines_answer_given_labels_of_bags_and_about_parts(data, pipeline):
    bags, y = data
    prepared = pipeline.prepare(bags)
    for name in ("predict_proba", "predict_instance_proba"):
        expected = getattr(pipeline.model_, name)(prepared, given=y)
        np.testing.assert_array_equal(getattr(pipeline, name)(bags, given=y), expected)
    cut = Bags(bags.X, bags.index, feature_names=bags.feature_names, part=np.arange(bags.n_instances))
    assert pipeline.predict_part_proba(cut).shape == (bags.n_instances, 2)


def test_answers_are_those_of_the_model_on_prepared_bags(data, pipeline):
    bags, y = data
    prepared = PerInstance(PCA(2)).fit_transform(PerInstance(StandardScaler()).fit_transform(bags))
    model = quick().fit(prepared, y)
    for name in ("predict", "predict_proba", "predict_instances", "predict_instance_proba", "predict_latent"):
        np.testing.assert_array_equal(getattr(pipeline, name)(bags), getattr(model, name)(prepared))
    np.testing.assert_array_equal(pipeline.predict_fraction(bags).mean, model.predict_fraction(prepared).mean)
    assert pipeline.score(bags, y) == model.score(prepared, y)


def test_fitted_attributes_of_the_model_can_be_read(pipeline):
    assert pipeline.rule_ is pipeline.model_.rule_
    assert pipeline.card.name == "vgpmil"
    assert list(pipeline.feature_names_in_) == ["u", "v", "w"]
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = pipeline.no_such_thing


def test_pipeline_keeps_the_manners_of_scikit_learn(data, pipeline):
    assert list(pipeline.named_steps) == ["standardscaler", "pca", "vgpmil"]
    copied = clone(pipeline).set_params(vgpmil__max_iter=2, pca__transformer__n_components=1)
    assert isinstance(copied, BagPipeline)
    assert copied.fit(*data).predict_latent(data[0])[0].shape == (data[0].n_instances,)
    assert len(cross_val_score(pipeline, *data, cv=2)) == 2


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


def test_a_model_class_does_not_read_the_file_of_a_pipeline(tmp_path, pipeline):
    pipeline.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="holds a model 'pipeline', not 'vgpmil'"):
        VGPMIL.load(tmp_path / "m")


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


def test_suggestions_and_report_take_a_pipeline(tmp_path, data, pipeline):
    bags, y = data
    found = suggest(pipeline, bags, n=2)
    np.testing.assert_array_equal(found.indices, suggest(pipeline.model_, pipeline.prepare(bags), n=2).indices)
    assert write_report(pipeline, bags, y, tmp_path / "r.html").is_file()


def test_pipeline_takes_fractions_and_counts_as_its_model_does(data):
    bags, _ = data
    evidence = bagwise.fraction(np.linspace(0, 1, len(bags)))
    model = make_pipeline(StandardScaler(), BagGP(learn=False, n_inducing=6, random_state=0))
    chance = model.fit(bags, evidence).predict_count_proba(bags, 0, bags.sizes)
    np.testing.assert_allclose(chance, 1.0, atol=1e-9)
