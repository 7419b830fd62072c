"""One file per model. A model is discovered by being here: the command line, the checks and the docs follow."""

import importlib
from typing import TYPE_CHECKING, Any

from bagwise._files import PathLike
from bagwise._lazy import lazy_names
from bagwise.exceptions import ModelFileError
from bagwise.models._base.card import ModelCard, WrittenCard, written_cards

if TYPE_CHECKING:
    from bagwise.models._base.estimator import BagClassifier, BagEstimator

__all__ = ["BagClassifier", "BagEstimator", "ModelCard", "cards", "discover", "load", "load_with_notes"]

_BASE = "bagwise.models._base.estimator"


def cards() -> dict[str, ModelCard]:
    """The card of every model there is, by its name on the command line; no model is imported for it."""
    return {name: written.card for name, written in written_cards(__name__).items()}


def discover() -> "dict[str, type[BagEstimator]]":
    """Every model there is, by its name on the command line."""
    return {name: _imported(written) for name, written in written_cards(__name__).items()}


def _imported(written: WrittenCard) -> "type[BagEstimator]":
    found: type[BagEstimator] = getattr(importlib.import_module(written.module), written.class_name)
    return found


def load(path: PathLike, device: str = "cpu") -> Any:
    """A model or a pipeline from the file that ``save`` wrote. Nothing in the file is executed."""
    return load_with_notes(path, device)[0]


def load_with_notes(path: PathLike, device: str = "cpu") -> tuple[Any, dict[str, Any]]:
    """The model, and the notes that ``save(path, notes=…)`` wrote beside it."""
    from bagwise.models._base.estimator import check_device
    from bagwise.persistence import notes_of, read_model
    from bagwise.pipeline import rebuild_pipeline

    where = check_device(device)
    description, tensors = read_model(path)
    models, name = discover(), _model_name(description)
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
