"""Who takes part in a comparison: names or estimators in, columns of a table of ``bagwise.bench`` out."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from bagwise._validation import shorten
from bagwise.bench.description import Model
from bagwise.exceptions import BagDataError
from bagwise.models import discover_estimators

USUAL = {  # who is compared where nobody is named
    "label": ("bag-gp", "vgpmil", "gpmil", "bag-statistics-svm"),
    "fraction": ("bag-gp", "group-kernel-machine"),
    "count": ("bag-gp",),
    "candidates": ("miplgp",),
}
_SET_BY_THE_COMPARISON = ("random_state", "device", "verbose", "evidence")


def known_contestants() -> dict[str, Any]:
    """Every model and baseline by its name on the command line."""
    return discover_estimators()


def chosen_contestants(
    models: Sequence[str] | Mapping[str, Any] | None,
    evidence: str,
    known: bool,
    settings: Mapping[str, dict[str, Any]] | None = None,
) -> tuple[Model, ...]:
    """The columns of the table; a model that does not take the evidence is an error.

    ``models`` are names (with ``settings`` by name), or estimators by a name of one's own.
    """
    if models is None:
        models = USUAL[evidence]
    if isinstance(models, Mapping):
        return tuple(_from_estimator(name, estimator, evidence, known) for name, estimator in models.items())
    _refuse_twice(models)
    _refuse_strangers(settings or {}, models)
    return tuple(_made(name, _kind_named(name), (settings or {}).get(name, {}), evidence, known) for name in models)


def _kind_named(name: str) -> Any:
    known = known_contestants()
    if name not in known:
        raise BagDataError(f"--models {name}: there is no such model; there are {', '.join(known)}.")
    return known[name]


def _refuse_twice(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise BagDataError(f"--models: {shorten(twice)} is named twice; name every model once.")


def _refuse_strangers(settings: Mapping[str, dict[str, Any]], models: Sequence[str]) -> None:
    for name, own in settings.items():
        if name not in models:
            raise BagDataError(f"settings for {name}: it is not among the models compared, {', '.join(models)}.")
        takes = inspect.signature(_kind_named(name)).parameters
        unknown = [setting for setting in own if setting not in takes]
        if unknown:
            raise BagDataError(f"{name} has no setting {shorten(unknown)}; it has {', '.join(takes)}.")


def _from_estimator(name: str, estimator: Any, evidence: str, known: bool) -> Model:
    kinds = {kind.__name__: kind for kind in known_contestants().values()}
    kind = kinds.get(type(estimator).__name__)
    if kind is not type(estimator):
        raise BagDataError(
            f"models[{name!r}]: {type(estimator).__name__} is no model or baseline of bagwise; expected an estimator "
            f"of one of {', '.join(kinds)}."
        )
    defaults = {parameter.name: parameter.default for parameter in inspect.signature(kind).parameters.values()}
    given = estimator.get_params(deep=False).items()
    changed = {parameter: value for parameter, value in given if repr(value) != repr(defaults[parameter])}
    return _made(name, kind, changed, evidence, known)


def _made(name: str, kind: Any, settings: dict[str, Any], evidence: str, known: bool) -> Model:
    for wanted in (evidence, "known") if known else (evidence,):
        if wanted not in kind.card.evidence:
            others = [other for other, found in known_contestants().items() if wanted in found.card.evidence]
            raise BagDataError(
                f"{name} takes {', '.join(kind.card.evidence)}, not evidence of the kind {wanted}; "
                f"leave it out, or choose from {', '.join(others)}."
            )
    own = {parameter: value for parameter, value in settings.items() if parameter not in _SET_BY_THE_COMPARISON}
    functions = [parameter for parameter, value in own.items() if callable(value)]
    if functions:
        raise BagDataError(
            f"{name}: {shorten(functions)} is an object; a comparison is resumed from its settings, so these must be "
            "numbers or words, for example kernel='matern52'."
        )
    takes = inspect.signature(kind).parameters
    return Model(name, kind.__name__, own | ({"evidence": evidence} if "evidence" in takes else {}), evidence)
