"""The files that the pages take for granted: small ones, under the names that the pages use."""

from pathlib import Path

import h5py
import numpy as np
import pandas as pd

from bagwise import BagGP, Bags
from bagwise.datasets import make_bags, make_candidate_bags, write_digit_slides
from bagwise.io import write_npz


def prepare(page: str, folder: Path) -> None:
    """Write what a page needs into an empty folder."""
    _NEEDED.get(page, lambda _: None)(folder)


def _cells(label: str, seed: int = 0, n_slides: int = 12) -> tuple[pd.DataFrame, np.ndarray]:
    """A table of cells on slides, two slides of each patient, and the truth about every cell."""
    bags, y, instance_y = make_bags(n_slides, (2, 4), 2, random_state=seed)
    table = pd.DataFrame(bags.X, columns=["area", "roundness"])
    return table.assign(**{"slide": [f"{number:03d}" for number in bags.index], label: y[bags.index]}), instance_y


def _write_cells(folder: Path, label: str, *paths: str, n_slides: int = 12) -> None:
    for seed, path in enumerate(paths):
        _cells(label, seed, n_slides)[0].to_csv(folder / path, index=False)


def _of_the_readme(folder: Path) -> None:
    _write_cells(folder, "tumour", "slides.csv", "new.csv", "test.csv", "unlabelled.csv", n_slides=24)


def _of_bring_your_data(folder: Path) -> None:
    _write_cells(folder, "cancer", "cells.csv", "new_cells.csv")
    table, truth = _cells("cancer", 2)
    table.assign(is_tumour=truth).to_csv(folder / "test_cells.csv", index=False)
    _shares_and_ranges(folder)
    _of_elections(folder)
    _photographs(folder)
    _features_of_slides(folder)
    for path in ("slides.npz", "musk1.npz"):
        write_npz(folder / path, *make_bags(12, (2, 4), 2, random_state=0))


def _shares_and_ranges(folder: Path) -> None:
    bags, _, truth = make_bags(12, (3, 4), 2, random_state=0)
    table = pd.DataFrame(bags.X, columns=["area", "roundness"]).assign(slide=bags.index)
    positives = np.bincount(bags.index, truth)[bags.index]
    shares = table.assign(share=positives / bags.sizes[bags.index], is_tumour=truth)
    shares.to_csv(folder / "shares.csv", index=False)
    ranges = table.assign(lo=np.maximum(positives - 1, 0), hi=positives)
    ranges.assign(checked=np.where(np.arange(len(table)) < 4, truth, np.nan)).to_csv(folder / "ranges.csv", index=False)


def _photographs(folder: Path) -> None:
    names = np.array(["cat", "dog", "owl", "none of them"])
    for seed, path in enumerate(("parts.csv", "new.csv", "test.csv")):
        made = make_candidate_bags("digits", [0, 1, 2], 12, 3, random_state=seed)
        table = pd.DataFrame(made.bags.X[:, 18:22]).add_prefix("x").assign(photo=made.bags.index)
        table[["cat", "dog", "owl"]] = made.candidates[made.bags.index]
        table.assign(truth=names[made.y][made.bags.index], what=names[made.instance_y]).to_csv(
            folder / path, index=False
        )


def _features_of_slides(folder: Path) -> None:
    (folder / "features").mkdir()
    bags, y, _ = make_bags(12, 6, 2, random_state=0)
    names = [f"{number + 10:04d}" for number in range(12)]
    for name, (_, rows) in zip(names, bags, strict=True):
        with h5py.File(folder / "features" / f"{name}.h5", "w") as file:
            file["features"] = rows
            places = np.stack(np.unravel_index(np.arange(6), (2, 3)), axis=1) * 256
            file.create_dataset("coords", data=places).attrs["patch_size"] = 256
    table = pd.DataFrame({"slide_id": names, "tumour": y, "patient": np.arange(12) // 2})
    table.to_csv(folder / "slides.csv", index=False)


def _of_compare(folder: Path) -> None:
    table, _ = _cells("tumour", n_slides=60)
    table.assign(patient=table["slide"].astype(int) // 2).to_csv(folder / "cells.csv", index=False)


def _of_labelling(folder: Path) -> None:
    """Every other slide is labelled, and there is a model of those."""
    table, _ = _cells("tumour")
    bags, y = Bags.from_frame(table, bag="slide", label="tumour")
    labelled = table["slide"].astype(int) % 2 == 0
    table.assign(tumour=table["tumour"].where(labelled).astype("Int8")).to_csv(folder / "cells.csv", index=False)
    notes = {"bag": "slide", "label": ["tumour"], "known": None, "arrays": []}
    model = BagGP(n_inducing=6, learn=False, random_state=0).fit(bags[::2], y[::2])
    model.save(folder / "model.safetensors", notes=notes)


def _of_slides(folder: Path) -> None:
    write_digit_slides(folder / "slides", n_patients=8, grid=(4, 3), random_state=0)


def _of_scale(folder: Path) -> None:
    table, _ = _cells("cancer")
    table.to_parquet(folder / "cells.parquet")


def _of_elections(folder: Path) -> None:
    rng = np.random.default_rng(0)
    people = rng.integers(20, 100, (12, 2))
    table = pd.DataFrame(people, columns=["young", "old"]).assign(precinct=[f"{b:03}" for b in range(12)])
    table.assign(votes=rng.binomial(people, [0.3, 0.7]).sum(1)).to_csv(folder / "precincts.csv", index=False)


def _of_the_first_tutorial(folder: Path) -> None:
    _write_cells(folder, "tumour", "cells.csv", "new_cells.csv", "test_cells.csv")


_NEEDED = {
    "README.md": _of_the_readme,
    "docs/bring_your_data.md": _of_bring_your_data,
    "docs/guide/compare.md": _of_compare,
    "docs/guide/elections.md": _of_elections,
    "docs/guide/labelling.md": _of_labelling,
    "docs/guide/slides.md": _of_slides,
    "docs/scale.md": _of_scale,
    "docs/tutorials/from_table_to_decision.md": _of_the_first_tutorial,
    "docs/tutorials/what_to_label_next.md": _of_labelling,
}
