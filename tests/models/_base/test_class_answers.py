"""Answers of a BagGP that was fitted to classes."""

import numpy as np
import pytest
from tests.models.class_problems import FAST, NAMES, new_fitted, problem

import bagwise
from bagwise import BagGP, Bags
from bagwise.exceptions import BagDataError
from bagwise.io import instance_table, part_table
from bagwise.models._base import class_fit


@pytest.fixture(scope="module")
def fitted():
    return new_fitted()


def test_classes_of_bags_and_instances_are_found_from_candidates(fitted):
    new, _, y, truth = problem(30, seed=1)
    p, q = fitted.predict_proba(new), fitted.predict_instance_proba(new)
    assert p.shape == (30, 3)
    assert q.shape == (120, 4)
    np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-12)
    np.testing.assert_allclose(q.sum(1), 1.0, atol=1e-12)
    assert fitted.classes_.tolist() == NAMES.tolist()
    assert fitted.instance_classes_.tolist() == [*NAMES, "none of them"]
    assert fitted.score(new, NAMES[y]) > 0.9
    assert np.mean(q.argmax(1) == truth) > 0.85
    assert set(fitted.predict(new)) <= set(NAMES)
    assert fitted.inference_ == "bag-ep"
    assert isinstance(fitted.log_evidence_, float)


def test_a_model_of_classes_is_saved_and_loaded(fitted, tmp_path):
    new = problem(9, seed=3)[0]
    fitted.save(tmp_path / "model.bagwise")
    again = bagwise.load(tmp_path / "model.bagwise")
    np.testing.assert_array_equal(again.predict_proba(new), fitted.predict_proba(new))
    np.testing.assert_array_equal(again.predict_instance_proba(new), fitted.predict_instance_proba(new))
    assert again.rule_ == fitted.rule_
    assert again.classes_.tolist() == fitted.classes_.tolist()
    assert again.log_evidence_ == fitted.log_evidence_


def test_counts_and_moments_have_a_column_for_every_class(fitted):
    new = problem(6, seed=4)[0]
    assert fitted.predict_count_proba(new, 1).shape == (6, 3)
    assert fitted.predict_fraction(new).mean.shape == (6, 3)
    assert fitted.mean_.shape == (3,)
    assert [part.shape for part in fitted.predict_latent(new)] == [(24, 3)] * 2


def test_given_is_refused_where_it_means_nothing(fitted):
    bags, _, y, _ = problem(6)
    labels = BagGP(**FAST).fit(bags, y > 0)
    for ask in (labels.predict_proba, labels.predict_instance_proba):
        with pytest.raises(BagDataError, match="y holds '2'; the model was fitted with the classes 'False', 'True'"):
            ask(bags, given=y)
    with pytest.raises(BagDataError, match="may have none of the classes, but no bag of the fit could"):
        fitted.predict_proba(bags, given=[{"none of them"}] + [None] * 5)
    with pytest.raises(AttributeError, match="was not fitted to classes"):
        labels.instance_classes_  # noqa: B018


def test_a_model_of_classes_says_nothing_of_parts_and_is_told_in_tables_what_bags_state(fitted):
    bags, *_ = problem(6)
    stated = [{"ant"}, {"bee", "cat"}] + [None] * 4
    parts = Bags(bags.X, bags.index, part=np.arange(bags.n_instances))
    for ask in (fitted.predict_part_proba, fitted.predict_instance_spread):
        with pytest.raises(BagDataError, match="chooses one class out of many; it cannot say how"):
            ask(parts)
    with pytest.raises(BagDataError, match="no answers about parts"):
        part_table(fitted, parts)
    table, expected = instance_table(fitted, bags, given=stated), fitted.predict_instance_proba(bags, given=stated)
    columns = [f"probability_{name}" for name in fitted.instance_classes_]
    np.testing.assert_array_equal(table[columns], expected[np.argsort(bags.rows)])


def test_a_model_of_classes_can_be_fitted_to_labels_again(fitted):
    bags, _, y, _ = problem(12)
    model = BagGP(evidence="class", **FAST).fit(bags, y)
    model.set_params(evidence="label").fit(bags, y > 0)
    assert model.predict_proba(bags).shape == (12, 2)
    assert class_fit.CLASS_KINDS == ("candidates", "class")
