"""The journal of a fit: the sums of every sweep and, now and then, what chunks remember; in a folder that all can see.

A fit is a function of the sums of its sweeps. Whoever starts the same fit again, on the same bags, is given the sums
that are in the journal, and so comes to where the last one stopped, without computing anything; there the remembered
states are read, and the fit goes on. The model is the same to the last bit.
"""

import itertools
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from bagwise._files import write_whole
from bagwise.exceptions import BagDataError
from bagwise.inference.chunks import Sums
from bagwise.scale.plain_state import decode, encode


class SweepJournal:
    """What one set of chunks has answered so far."""

    def __init__(self, folder: Path, n_shards: int) -> None:
        self.folder, self._n_shards = folder, n_shards
        with _explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self.last_state = max(filter(self._is_complete, self._states()), default=0)

    def sums(self, sweep: int, question: str) -> Sums | None:
        """The sums of a sweep, None where it is yet to be made; a journal of another fit is forgotten or refused."""
        path = self._sums_path(sweep)
        if not path.exists():
            return None
        with safetensors.safe_open(path, framework="pt") as file:
            if file.metadata() == {"question": question}:
                return _stored_tensors(file)
        if sweep > 1:
            raise BagDataError(
                f"{self.folder.parent}: holds the checkpoint of a fit with other settings; give another folder, or "
                "empty this one."
            )
        self.remove()
        self.folder.mkdir()
        self.last_state = 0
        return None

    def write_sums(self, sweep: int, question: str, sums: Sums) -> None:
        """The sums of a sweep, whole or not at all."""
        plain = {name: value.detach().cpu().contiguous() for name, value in sums.items()}
        data = safetensors.torch.save(plain, {"question": question})
        with _explained(self.folder):
            write_whole(self._sums_path(sweep), lambda stream: stream.write(data))

    def state_path(self, sweep: int, shard: int) -> str:
        """Where the state of a shard after a sweep is written."""
        return os.fspath(self.folder / f"state-{sweep:06d}-{shard:06d}.safetensors")

    def forget_states_before(self, sweep: int) -> None:
        """Remove older states; the newer ones are complete."""
        self.last_state = sweep
        for path in self.folder.glob("state-*.safetensors"):
            if int(path.name.split("-")[1]) < sweep:
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """The fit is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _sums_path(self, sweep: int) -> Path:
        return self.folder / f"sums-{sweep:06d}.safetensors"

    def _states(self) -> set[int]:
        return {int(path.name.split("-")[1]) for path in self.folder.glob("state-*.safetensors")}

    def _is_complete(self, sweep: int) -> bool:
        """Whether the states after a sweep are all there, and the sums up to it."""
        states = (Path(self.state_path(sweep, shard)) for shard in range(self._n_shards))
        sums = (self._sums_path(number) for number in range(1, sweep + 1))
        return all(path.exists() for path in itertools.chain(states, sums))


def write_state(path: str, states: Any) -> str:
    """What the chunks of a shard remember, whole or not at all; returns the path."""
    tensors: dict[str, Tensor] = {}
    plain = json.dumps(encode(list(states), tensors))
    data = safetensors.torch.save(tensors, {"state": plain})
    with _explained(Path(path).parent):
        write_whole(path, lambda stream: stream.write(data))
    return path


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """A full disk, or a folder that must not be written to, as an error that says what remains."""
    try:
        yield
    except OSError as error:
        raise BagDataError(
            f"{folder.parent}: the checkpoint cannot be written there ({error.strerror}). What it holds is kept: make "
            "room and start the same fit again, and it goes on from there; or give another folder."
        ) from error


def _stored_tensors(file: Any) -> dict[str, Tensor]:
    """All tensors of an open safetensors file by name."""
    names = file.keys()
    return {name: file.get_tensor(name) for name in names}


def read_state(path: str) -> list[Any]:
    """What ``write_state`` wrote."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            tensors = _stored_tensors(file)
            plain = json.loads(file.metadata()["state"])
    except (OSError, safetensors.SafetensorError, KeyError, ValueError) as error:
        raise BagDataError(f"{path}: the checkpoint cannot be read on this machine ({error}).") from error
    states: list[Any] = decode(plain, tensors)
    return states


def remove_if_empty(folder: Path) -> None:
    """Leave no empty folder behind."""
    with suppress(OSError):
        folder.rmdir()
