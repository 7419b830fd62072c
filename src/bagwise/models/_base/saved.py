"""What models and baselines share: a card, the names of their classes, a file that they are saved to."""

from importlib.metadata import version
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bagwise._files import PathLike
from bagwise.exceptions import BagDataError, ModelFileError
from bagwise.models._base.card import Abilities
from bagwise.models._base.card import ModelCard as ModelCard
from bagwise.models._base.fit_record import FitRecord
from bagwise.persistence import read_model, write_model


class SavedEstimator:
    """An estimator with a card that ``save`` writes to one file and ``load`` reads."""

    card: ClassVar[ModelCard]
    abilities: ClassVar[Abilities] = Abilities()
    sign_of_fit: ClassVar[str]  # the attribute that only a fitted estimator has

    classes_: NDArray[Any]
    label_names_: tuple[str, ...] | None

    @property
    def of_classes(self) -> bool:
        """Whether the fitted estimator chooses one class out of many; it then has ``instance_classes_``."""
        return False

    @property
    def kind_of_y(self) -> str:
        """The kind of evidence that ``y`` holds, where it is no ``Evidence``."""
        return self.card.evidence[0]

    @property
    def decides_by_mode(self) -> bool:
        """Whether decisions about bags follow from the mode of the latent function, not from probabilities."""
        return False

    def fit_record(self) -> FitRecord:
        """How the fit went and what it found, as far as this estimator keeps it."""
        return FitRecord()

    def save(self, path: PathLike, *, notes: dict[str, Any] | None = None) -> None:
        """Write the fitted model to one file (safetensors with a JSON header), whole or not at all.

        ``notes`` (plain JSON values) travel in the file; ``bagwise.models.load_with_notes`` reads them. The model
        itself does not know them.
        """
        check_is_fitted(self, self.sign_of_fit)
        description, tensors = self._packed()
        description |= {"model": self.card.name, "version": version("bagwise"), "notes": notes or {}}
        write_model(path, description, tensors)

    @classmethod
    def load(cls, path: PathLike, device: str = "cpu") -> Self:
        """The model of this class that ``save`` wrote; ``bagwise.load`` finds out by itself which class it is."""
        description, tensors = read_model(path)
        if description.get("model") != cls.card.name:
            raise ModelFileError(f"{path}: holds a model {description.get('model')!r}, not {cls.card.name!r}.")
        return cls.restore(description, tensors, check_device(device))

    @classmethod
    def restore(cls, description: dict[str, Any], tensors: dict[str, torch.Tensor], device: torch.device) -> Self:
        """The estimator that ``save`` described."""
        raise NotImplementedError

    def _packed(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        """Everything that makes the fitted estimator."""
        raise NotImplementedError

    def _remember(self, classes: NDArray[Any], names: tuple[str, ...] | None) -> None:
        self.label_names_ = names
        self.classes_ = classes if names is None else np.tile(classes, (len(names), 1))

    def _several(self) -> bool:
        return self.label_names_ is not None


def check_device(name: Any) -> torch.device:
    """A device that this machine has."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise BagDataError(f"device={name!r}: expected 'cpu' or 'cuda' ({error}).") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BagDataError(f"device={name!r}: this machine has no usable CUDA device; use device='cpu'.")
    if device.type not in ("cpu", "cuda"):
        raise BagDataError(f"device={name!r}: expected 'cpu' or 'cuda'.")
    return device
