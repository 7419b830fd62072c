"""What estimators say of themselves is what they have."""

import inspect

import pytest

from bagwise.models import cards, discover_estimators
from bagwise.models._base.card import written_cards
from bagwise.models._base.saved import SavedEstimator

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


def test_cards_read_from_files_are_those_of_the_classes():
    def below(cls):
        return {cls}.union(*map(below, cls.__subclasses__()))

    found = discover_estimators()
    packages = ("bagwise.models", "bagwise.baselines")
    own = {cls for cls in below(SavedEstimator) if "card" in vars(cls) and cls.__module__.startswith(packages)}
    assert cards() == {cls.card.name: cls.card for cls in own}
    assert found == {cls.card.name: cls for cls in own}


def test_a_card_may_name_a_text_of_its_package(tmp_path, monkeypatch):
    package = tmp_path / "some_models"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_words.py").write_text('PAPER = "A paper"\n')
    (package / "one.py").write_text('class One:\n    card = ModelCard("one", ("label",), PAPER)\n')
    monkeypatch.syspath_prepend(tmp_path)
    assert written_cards("some_models") == {"one": (("one", ("label",), "A paper", "own"), "some_models.one", "One")}
    (package / "_words.py").unlink()
    with pytest.raises(ValueError, match="PAPER: a card is made of texts"):
        written_cards("some_models")
