"""Model files: tensors in one safetensors file with a JSON description in its header. No pickle, no code."""

import json
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from bagwise._files import PathLike, write_whole
from bagwise.exceptions import ModelFileError

SCHEMA = 1
MAX_BYTES = 16 * 2**30
_KEY = "bagwise"


def write_model(path: PathLike, description: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a model file, whole or not at all."""
    text = json.dumps({"schema": SCHEMA, **description}, allow_nan=False)
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    data = safetensors.torch.save(plain, metadata={_KEY: text})
    write_whole(path, lambda stream: stream.write(data))


def read_model(path: PathLike) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The description and tensors of a model file; anything that is not exactly one is refused."""
    size = Path(path).stat().st_size
    if size > MAX_BYTES:
        raise ModelFileError(f"{path}: {size:,} bytes is more than a model file may have ({MAX_BYTES:,}).")
    try:
        with safetensors.safe_open(str(path), framework="pt") as archive:
            metadata, names = archive.metadata() or {}, archive.keys()
            tensors = {name: archive.get_tensor(name) for name in names}
    except Exception as error:
        raise ModelFileError(f"{path}: not a readable model file, perhaps cut short ({error}).") from error
    return _described(path, metadata), tensors


def _described(path: PathLike, metadata: dict[str, str]) -> dict[str, Any]:
    try:
        description: dict[str, Any] = json.loads(metadata[_KEY])
        schema = description["schema"]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ModelFileError(f"{path}: a safetensors file, but not one that bagwise wrote.") from None
    if not isinstance(schema, int) or schema < 1:
        raise ModelFileError(f"{path}: the description of the model is damaged (schema {schema!r}).")
    if schema > SCHEMA:
        raise ModelFileError(
            f"{path}: written by bagwise {description.get('version', '?')} with schema {schema}; this version reads up "
            f"to schema {SCHEMA}. Update bagwise to load it."
        )
    return description


def notes_of(description: dict[str, Any]) -> dict[str, Any]:
    """The notes in a description; those of schema 1 stood among the fitted attributes."""
    fitted = description.get("fitted")
    found = description.get("notes", fitted.get("columns") if isinstance(fitted, dict) else None)
    return found if isinstance(found, dict) else {}
