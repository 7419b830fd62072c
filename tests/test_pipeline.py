"""Pipelines of bags: everything the model can do, with transformers before it, in one file."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler
from tests.pipelines import new_data, new_pipeline, quick

import bagwise
from bagwise import VGPMIL, BagGP, BagPipeline, Bags, PerInstance, make_pipeline
from bagwise.active import suggest
from bagwise.exceptions import ModelFileError
from bagwise.report import write_report


@pytest.fixture(scope="module")
def data():
    return new_data()


@pytest.fixture(scope="module")
def pipeline(data):
    return new_pipeline(data)


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


def test_a_model_class_does_not_read_the_file_of_a_pipeline(tmp_path, pipeline):
    pipeline.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="holds a model 'pipeline', not 'vgpmil'"):
        VGPMIL.load(tmp_path / "m")


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
