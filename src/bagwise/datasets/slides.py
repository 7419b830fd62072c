"""Slides made of handwritten digits, written as h5 files: patients, hospitals, positions and a tumour that is known."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.utils import check_random_state

from bagwise._files import PathLike
from bagwise._validation import check_count, check_option
from bagwise.datasets.dealing import Floats, Ints, Random
from bagwise.io.tables import write_table

TILE = 256  # pixels of a tile at the finest level
STAIN = {"north": (1.0, 0.0), "south": (0.75, 3.0)}  # how a hospital's images differ: factor and shift of the grey


def write_digit_slides(
    folder: PathLike,
    n_patients: int = 12,
    slides_per_patient: int = 2,
    *,
    grid: tuple[int, int] = (9, 7),
    target: int = 0,
    hospital: str = "north",
    random_state: Random = 0,
) -> pd.DataFrame:
    """Write one h5 file per slide (``features``, ``coords``, ``truth``) and their table, ``slides.csv``, into a folder.

    A tile is a handwritten digit with some noise. Every other patient has a tumour: a patch of tiles that show the
    ``target``, in at least one of the slides. ``truth`` is 1 for such a tile; it is there to compare with.

    Parameters
    ----------
    folder : where to write; it is created
    n_patients, slides_per_patient : how many
    grid : tiles across and down; the corners stay empty, as around tissue
    target : the digit that is the tumour
    hospital : "north", or "south" whose stain is paler; digits of the one are never used by the other

    Returns
    -------
    table : slide_id, patient, hospital, tumour (of the patient) and slide_tumour (of the slide)
    """
    check_option("hospital", hospital, tuple(STAIN))
    there = Path(folder)
    there.mkdir(parents=True, exist_ok=True)
    random, digits = check_random_state(random_state), load_digits()
    rows = []
    for patient in range(check_count("n_patients", n_patients)):
        sick = patient % 2 == 1
        count = check_count("slides_per_patient", slides_per_patient)
        hit = random.permutation(count) < random.randint(1, count + 1)
        for slide in range(count):
            name = f"{hospital[0].upper()}{patient:02d}-{slide}"
            places, truth = _tissue(grid, sick and bool(hit[slide]), random)
            _write(there / f"{name}.h5", _stained(digits, truth, target, hospital, random), places, truth)
            rows.append((name, f"{hospital[0].upper()}{patient:02d}", hospital, int(sick), int(truth.any())))
    table = pd.DataFrame(rows, columns=["slide_id", "patient", "hospital", "tumour", "slide_tumour"])
    write_table(table, there / "slides.csv")
    return table


def _tissue(grid: tuple[int, int], tumour: bool, random: Any) -> tuple[Ints, Ints]:
    """Places of the tiles inside an ellipse, and a round patch of 1 among them."""
    across, down = (check_count("grid", size, least=3) for size in grid)
    places = np.stack(np.meshgrid(np.arange(across), np.arange(down)), axis=-1).reshape(-1, 2)
    middle = (np.array([across, down]) - 1) / 2
    inside = (((places - middle) / (middle + 0.6)) ** 2).sum(axis=1) < 1
    places = places[inside]
    centre = places[random.randint(len(places))]
    near = ((places - centre) ** 2).sum(axis=1) <= random.uniform(0.9, 2.3) ** 2
    return places * TILE, (near & tumour).astype(np.int64)


def _stained(digits: Any, truth: Ints, target: int, hospital: str, random: Any) -> Floats:
    """A digit for every tile, as the scanner of the hospital shows it."""
    own = np.arange(len(digits.target)) % len(STAIN) == list(STAIN).index(hospital)
    pools = [np.flatnonzero(own & (digits.target != target)), np.flatnonzero(own & (digits.target == target))]
    chosen = np.array([random.choice(pools[value]) for value in truth])
    factor, shift = STAIN[hospital]
    seen: Floats = shift + factor * (digits.data[chosen] + random.normal(scale=1.0, size=(len(truth), 64)))
    return seen


def _write(path: Path, features: Floats, places: Ints, truth: Ints) -> None:
    with h5py.File(path, "w") as file:
        file["features"] = features.astype(np.float32)
        file.create_dataset("coords", data=places).attrs["patch_size"] = TILE
        file["truth"] = truth
