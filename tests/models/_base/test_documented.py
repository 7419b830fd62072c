"""Docstrings are complete where they stand: every parameter and every fitted attribute of every estimator."""

import inspect
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from docs.skeletons.model import MeanPoolingGP
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler

import bagwise
from bagwise import Bags, baselines
from bagwise.baselines.totals.group_totals import RatesFromTotals
from bagwise.models._base.documented import documented, entries, fitted_attributes, sections

SOURCES = sorted((Path(bagwise.__file__).parent).rglob("*.py"))
PUBLIC = [getattr(module, name) for module in (bagwise, baselines) for name in module.__all__]
ESTIMATORS = [thing for thing in PUBLIC if isinstance(thing, type) and issubclass(thing, BaseEstimator)] + [
    MeanPoolingGP
]
QUICK = {"n_chains": 2, "n_samples": 10, "n_burn_in": 10}
SETTINGS = {
    "GroupKernelMachine": {**QUICK, "evidence": "label"},
    "PerInstance": {"transformer": StandardScaler()},
    "BagPipeline": {"steps": [("model", bagwise.VGPMIL(max_iter=3))]},
}
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda cls: cls.__name__)


def section(estimator, heading):
    if heading == "Parameters" and not inspect.signature(estimator).parameters:
        return {}
    return entries(sections(estimator.__doc__)[heading])


def fitted_to_any(estimator):
    """Fitted to labels, or to totals of two groups."""
    random = np.random.RandomState(0)
    model = estimator(**SETTINGS.get(estimator.__name__, {}))
    if issubclass(estimator, RatesFromTotals):
        people = pd.DataFrame({"bag": range(12), "a": random.randint(5, 50, 12), "b": random.randint(5, 50, 12)})
        return model.fit(Bags.from_totals(people, bag="bag", groups=["a", "b"]), np.linspace(0.2, 0.8, 12))
    return model.fit(Bags(random.standard_normal((48, 2)), np.arange(48) // 4), np.arange(12) % 2)


def test_all_public_estimators_are_looked_at():
    assert {cls.__name__ for cls in ESTIMATORS} >= {"BagGP", "GPMIL", "MIPLGP", "PerInstance", "BagStatisticsSVM"}


@each_estimator
def test_documented_parameters_are_those_of_the_constructor(estimator):
    wanted = inspect.signature(estimator).parameters.values()
    found = section(estimator, "Parameters")
    assert list(found) == [parameter.name for parameter in wanted]
    for parameter in wanted:
        default = found[parameter.name].kind.partition(", default=")[2]
        assert default == ("" if parameter.default is parameter.empty else repr(parameter.default).replace("'", '"'))


@each_estimator
@pytest.mark.parametrize("heading", ["Parameters", "Attributes"])
def test_every_entry_has_a_type_and_a_sentence(estimator, heading):
    for name, entry in section(estimator, heading).items():
        assert entry.kind.partition(", default=")[0], f"{estimator.__name__}.{name} has no type"
        text = " ".join(entry.text.split())
        assert re.match(r"(?s)[A-Zχεβ`\"\d].{9,}\.$", text), f"{name}: {text!r}"
        assert all(line.startswith("    ") for line in entry.text.splitlines())


@each_estimator
def test_every_parameter_says_when_to_change_it(estimator):
    advice = re.compile(
        r"\b(use|change|increase|decrease|set|give|choose|extend|keep|name|take|search|compare)\b", re.IGNORECASE
    )
    without = [name for name, entry in section(estimator, "Parameters").items() if not advice.search(entry.text)]
    assert not without


@each_estimator
def test_no_docstring_sends_the_reader_to_another_class(estimator):
    assert not re.search(r"\b(as in|as for|see|like)\s+``[A-Z]\w+``", estimator.__doc__)


def test_no_source_sends_the_reader_to_another_class():
    found = {path.name for path in SOURCES if re.search(r"as in\s+``[A-Z][A-Za-z]+``", path.read_text("utf-8"))}
    assert not found


@each_estimator
@pytest.mark.filterwarnings("ignore::bagwise.ConvergenceWarning")
def test_every_fitted_attribute_is_documented(estimator):
    model = fitted_to_any(estimator)
    made = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    declared = fitted_attributes(estimator)
    assert made - set(section(estimator, "Attributes")) == set()
    assert declared - set(section(estimator, "Attributes")) == set()
    assert set(section(estimator, "Attributes")) <= made | declared | {"feature_names_in_"}


def test_decorator_takes_own_texts_before_shared_ones_and_defaults_from_the_signature():
    @documented
    class Own:
        """An estimator.

        Parameters
        ----------
        kernel : str
            Its own kernel.
        """

        def __init__(self, kernel="mine", jitter=0.5, unheard_of=None): ...

    found = section(Own, "Parameters")
    assert list(found) == ["kernel", "jitter"]
    assert found["kernel"] == ('str, default="mine"', "    Its own kernel.")
    assert found["jitter"].kind == "float or None, default=0.5"
