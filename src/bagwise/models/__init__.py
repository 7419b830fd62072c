"""One file per model. A model is discovered by being here: the command line, the checks and the docs follow."""

import importlib
import pkgutil
from typing import Any

from bagwise._files import PathLike
from bagwise.exceptions import ModelFileError
from bagwise.models._base.estimator import BagClassifier, BagEstimator
from bagwise.models._base.saved import ModelCard, SavedEstimator, check_device
from bagwise.persistence import notes_of, read_model

__all__ = [
    "BagClassifier",
    "BagEstimator",
    "ModelCard",
    "discover",
    "discover_baselines",
    "discover_estimators",
    "load",
    "load_with_notes",
]


def discover() -> dict[str, type[BagEstimator]]:
    """Every model there is, by its name on the command line."""
    return _found_in(__name__)


def discover_baselines() -> dict[str, Any]:
    """Every baseline there is, by its name on the command line."""
    return _found_in("bagwise.baselines")


def discover_estimators() -> dict[str, Any]:
    """Models first, then baselines."""
    return discover() | discover_baselines()


def _found_in(package: str) -> dict[str, Any]:
    """Estimators with a card of their own in the modules of a package."""
    found = {}
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        for thing in vars(importlib.import_module(f"{package}.{module.name}")).values():
            if isinstance(thing, type) and issubclass(thing, SavedEstimator) and "card" in vars(thing):
                found[thing.card.name] = thing
    return dict(sorted(found.items()))


def load(path: PathLike, device: str = "cpu") -> Any:
    """A model from the file that ``save`` wrote. Nothing in the file is executed."""
    return load_with_notes(path, device)[0]


def load_with_notes(path: PathLike, device: str = "cpu") -> tuple[Any, dict[str, Any]]:
    """The model, and the notes that ``save(path, notes=…)`` wrote beside it."""
    where = check_device(device)
    description, tensors = read_model(path)
    models, name = discover_estimators(), str(description.get("model"))
    if name not in models:
        raise ModelFileError(f"{path}: holds a model {name!r}; this version of bagwise has {', '.join(models)}.")
    try:
        return models[name].restore(description, tensors, where), notes_of(description)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error
