"""Model files: tensors in one safetensors file with a JSON description in its header. No pickle, no code.

Beside the description the header holds the SHA-256 of the description and of every tensor (``checksum``), so that a
file that was damaged on its way is known as such. It is no signature: whoever can write a file can write its checksum.
"""

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from bagwise._files import PathLike, write_whole
from bagwise.exceptions import ModelFileError

SCHEMA = 2  # 1 had no checksum
MAX_BYTES = 16 * 2**30
MAX_HEADER_BYTES = 16 * 2**20  # of names, shapes and the description
MAX_TENSORS = 10_000
_KEY, _CHECKSUM = "bagwise", "sha256"


def write_model(path: PathLike, description: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a model file, whole or not at all."""
    text = json.dumps({"schema": SCHEMA, **description}, allow_nan=False)
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    data = safetensors.torch.save(plain, metadata={_KEY: text, _CHECKSUM: checksum(text, plain)})
    size = int.from_bytes(data[:8], "little")
    if size > MAX_HEADER_BYTES or len(plain) > MAX_TENSORS:
        raise ModelFileError(
            f"this model cannot be saved: its description needs {size:,} bytes and it has {len(plain):,} tensors; a "
            f"model file may have {MAX_HEADER_BYTES:,} and {MAX_TENSORS:,}."
        )
    write_whole(path, lambda stream: stream.write(data))


def read_model(path: PathLike) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The description and tensors of a model file; anything that is not exactly one is refused."""
    _check_size(path)
    try:
        with safetensors.safe_open(str(path), framework="pt") as archive:
            metadata, names = archive.metadata() or {}, archive.keys()
            tensors = {name: archive.get_tensor(name) for name in names[: MAX_TENSORS + 1]}
    except Exception as error:
        raise ModelFileError(f"{path}: not a readable model file, perhaps cut short ({error}).") from error
    description = _described(path, metadata)
    _check_whole(path, description, metadata, tensors)
    return description, tensors


def checksum(text: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a description and of the name, type, shape and bytes of every tensor."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(json.dumps([name, str(value.dtype), list(value.shape)]).encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _check_size(path: PathLike) -> None:
    """Bound what the header alone can make a reader allocate, before it is read."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise ModelFileError(f"{path}: not a readable model file, but a folder or a device.")
    if found.st_size > MAX_BYTES:
        raise ModelFileError(f"{path}: {found.st_size:,} bytes is more than a model file may have ({MAX_BYTES:,}).")
    with open(path, "rb") as stream:
        header = int.from_bytes(stream.read(8), "little")
    if MAX_HEADER_BYTES < header <= found.st_size:
        raise ModelFileError(
            f"{path}: its header of {header:,} bytes is larger than that of any model file ({MAX_HEADER_BYTES:,})."
        )


def _described(path: PathLike, metadata: dict[str, str]) -> dict[str, Any]:
    try:
        description: dict[str, Any] = json.loads(metadata[_KEY], parse_constant=_no_number)
        schema = description["schema"]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ModelFileError(f"{path}: a safetensors file, but not one that bagwise wrote.") from None
    if type(schema) is not int or schema < 1:
        raise ModelFileError(f"{path}: the description of the model is damaged (schema {schema!r:.60}).")
    if schema > SCHEMA:
        raise ModelFileError(
            f"{path}: written by bagwise {description.get('version', '?')!s:.60} with schema {schema}; this version "
            f"reads up to schema {SCHEMA}. Update bagwise to load it."
        )
    return description


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number in JSON")


def _check_whole(
    path: PathLike, description: dict[str, Any], metadata: dict[str, str], tensors: dict[str, Tensor]
) -> None:
    """Every bit as it was written (schema 1 could not tell), and no tensor whose shape is larger than its content."""
    expected = metadata.get(_CHECKSUM)
    if expected is None and description["schema"] > 1:
        raise ModelFileError(f"{path}: the file has no checksum; it is damaged.")
    if expected is not None and expected != checksum(metadata[_KEY], tensors):
        raise ModelFileError(
            f"{path}: the file is damaged: its content is not what its checksum says. Copy it again from where it was "
            "written, or save the model again."
        )
    hollow = [name for name, value in tensors.items() if value.numel() == 0 and value.shape != (0,)]
    if hollow or len(tensors) > MAX_TENSORS:
        raise ModelFileError(f"{path}: the file holds tensors that no model has; it is damaged.")


def notes_of(description: dict[str, Any]) -> dict[str, Any]:
    """The notes in a description; those of schema 1 stood among the fitted attributes."""
    fitted = description.get("fitted")
    found = description.get("notes", fitted.get("columns") if isinstance(fitted, dict) else None)
    return found if isinstance(found, dict) else {}
