"""One file per model. A model is discovered by being here: the command line, the checks and the docs follow."""

import functools
import importlib
from typing import TYPE_CHECKING, Any

from bagwise._files import PathLike
from bagwise._lazy import lazy_names
from bagwise.exceptions import ModelFileError
from bagwise.models._base.card import ModelCard, written_cards

if TYPE_CHECKING:
    from bagwise.models._base.estimator import BagClassifier, BagEstimator

__all__ = [
    "BagClassifier",
    "BagEstimator",
    "ModelCard",
    "cards",
    "discover",
    "discover_baselines",
    "discover_estimators",
    "load",
    "load_with_notes",
]

_BASE = "bagwise.models._base.estimator"
_PACKAGES = ("bagwise.models", "bagwise.baselines")


def cards() -> dict[str, ModelCard]:
    """The cards of all models, then of all baselines, by their names on the command line; none is imported for it."""
    return {name: written.card for package in _PACKAGES for name, written in written_cards(package).items()}


def discover() -> "dict[str, type[BagEstimator]]":
    """Every model there is, by its name on the command line."""
    return dict(_found_in(_PACKAGES[0]))


def discover_baselines() -> dict[str, Any]:
    """Every baseline there is, by its name on the command line."""
    return dict(_found_in(_PACKAGES[1]))


def discover_estimators() -> dict[str, Any]:
    """Models first, then baselines."""
    return discover() | discover_baselines()


@functools.cache
def _found_in(package: str) -> dict[str, Any]:
    return {
        name: getattr(importlib.import_module(written.module), written.class_name)
        for name, written in written_cards(package).items()
    }


def load(path: PathLike, device: str = "cpu") -> Any:
    """A model or a pipeline from the file that ``save`` wrote. Nothing in the file is executed."""
    return load_with_notes(path, device)[0]


def load_with_notes(path: PathLike, device: str = "cpu") -> tuple[Any, dict[str, Any]]:
    """The model, and the notes that ``save(path, notes=…)`` wrote beside it."""
    from bagwise.models._base.saved import check_device
    from bagwise.persistence import notes_of, read_model
    from bagwise.pipeline import rebuild_pipeline

    where = check_device(device)
    description, tensors = read_model(path)
    models, name = discover_estimators(), _model_name(description)
    if name not in models:
        raise ModelFileError(f"{path}: holds a model {name!r}; this version of bagwise has {', '.join(models)}.")
    try:
        model = models[name].restore(description, tensors, where)
        whole = model if "steps" not in description else rebuild_pipeline(description, tensors, model)
        return whole, notes_of(description)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error


def _model_name(description: dict[str, Any]) -> str:
    """The model in a file; in the file of a pipeline, that of its last step."""
    last = description.get("last")
    in_pipeline = description.get("model") == "pipeline" and isinstance(last, dict)
    return str(last.get("model") if in_pipeline and isinstance(last, dict) else description.get("model"))


__getattr__, __dir__ = lazy_names(__name__, {"BagClassifier": _BASE, "BagEstimator": _BASE})
