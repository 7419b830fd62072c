"""One file per model. A model is discovered by being here: the command line, the checks and the docs follow."""

import importlib
import pkgutil

import torch

from bagwise._files import PathLike
from bagwise.exceptions import ModelFileError
from bagwise.models.base import BagClassifier, ModelCard
from bagwise.persistence import read_model

__all__ = ["BagClassifier", "ModelCard", "discover", "load"]


def discover() -> dict[str, type[BagClassifier]]:
    """Every model there is, by its name on the command line."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        contents = vars(importlib.import_module(f"{__name__}.{module.name}"))
        for thing in contents.values():
            if isinstance(thing, type) and issubclass(thing, BagClassifier) and "card" in vars(thing):
                found[thing.card.name] = thing
    return dict(sorted(found.items()))


def load(path: PathLike, device: str = "cpu") -> BagClassifier:
    """A model from the file that ``save`` wrote. Nothing in the file is executed."""
    description, tensors = read_model(path)
    models = discover()
    if description.get("model") not in models:
        raise ModelFileError(f"{path}: holds a model {description.get('model')!r}; known are {', '.join(models)}.")
    return models[description["model"]].restore(description, tensors, torch.device(device))
