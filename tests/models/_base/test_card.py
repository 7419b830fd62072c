"""What estimators say of themselves is what they have."""

import inspect

import pytest

from bagwise.models import discover_estimators

ESTIMATORS = discover_estimators()
METHODS = {
    "latent": ("predict_latent",),
    "fractions": ("predict_fraction", "predict_count_proba"),
    "parts": ("predict_part_proba", "predict_instance_spread"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_has_the_methods_of_its_abilities_and_no_others(name):
    model = ESTIMATORS[name]
    for ability, methods in METHODS.items():
        assert {hasattr(model, method) for method in methods} == {getattr(model.abilities, ability)}
    for answer in (model.predict_proba, model.predict_instance_proba):
        assert ("given" in inspect.signature(answer).parameters) is model.abilities.given


@pytest.mark.parametrize("name", ESTIMATORS)
def test_kind_of_y_is_what_the_card_lists_first_or_what_the_estimator_is_told(name):
    model = ESTIMATORS[name]
    told = "evidence" in inspect.signature(model).parameters
    assert model().kind_of_y == (model().evidence if told else model.card.evidence[0])
    if told:
        assert model(evidence="count").kind_of_y == "count"
