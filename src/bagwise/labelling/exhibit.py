"""What a person sees of an item: rows as a table, an image column as pictures, a text column as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from bagwise._validation import shorten, visible
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.labelling.pool import Pool
from bagwise.plots import as_images
from bagwise.report.bag_cards import extremes
from bagwise.report.figures import image_uri

ROWS_SHOWN = 60  # at a time
_COLUMNS_SHOWN = 12
_LONGEST_CELL = 2000  # characters of an entry of the table
PICTURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_BEGINNINGS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF")


@dataclass(frozen=True, eq=False)
class Exhibit:
    """How items are shown. ``frame`` is the user's table, in its own order (None for an archive)."""

    pool: Pool
    frame: pd.DataFrame | None
    columns: tuple[str, ...]
    image: str | None = None
    text: str | None = None
    image_shape: tuple[int, ...] | None = None
    folder: Path = Path()

    def item(self, number: int, start: int = 0) -> dict[str, Any]:
        """An item from its row ``start`` on, as plain values."""
        bag, row = self.pool.key(number)
        rows = self.pool.rows(number)
        shown = rows[start : start + ROWS_SHOWN]
        return {
            "number": number,
            "bag": visible(bag),
            "row": row,
            "columns": list(self.columns),
            "rows": [self._row(int(place)) for place in shown],
            "start": start,
            "total": len(rows),
        }

    def _row(self, place: int) -> dict[str, Any]:
        """One row of ``bags.X``: its cells, its text and where its picture is to be had."""
        line = int(self.pool.bags.rows[place])
        return {
            "row": line,
            "cells": [_cell(value) for value in self._values(place, line)],
            "text": None if self.text is None else self._text(line),
            "picture": self._picture(place, line),
        }

    def _values(self, place: int, line: int) -> list[Any]:
        if self.frame is not None:
            return self.frame.iloc[line][list(self.columns)].tolist()
        values = self.pool.bags.X[[place]]
        dense = values.toarray() if scipy.sparse.issparse(values) else values
        return list(np.ravel(dense)[: len(self.columns)].tolist())

    def _text(self, line: int) -> str:
        assert self.frame is not None
        value = self.frame[self.text].iloc[line]
        return "" if pd.isna(value) else str(value)

    def _picture(self, place: int, line: int) -> str | None:
        if self.image_shape is not None:
            one = Bags(self.pool.bags.X[[place]], [0])
            return image_uri(as_images(one, self.image_shape)[0], *self._grey_scale)
        if self.image is None or self.frame is None or pd.isna(self.frame[self.image].iloc[line]):
            return None
        return f"picture/{line}"

    @cached_property
    def _grey_scale(self) -> tuple[float, float]:
        """The smallest and the largest value, the same for all pictures."""
        return extremes(self.pool.bags)

    def picture(self, line: int) -> tuple[bytes, str]:
        """The picture that a row of the table names, and its kind; anything but a picture is an error."""
        if self.frame is None or self.image is None or not 0 <= line < len(self.frame):
            raise BagDataError(f"row {line}: has no picture.")
        path = self.folder / str(self.frame[self.image].iloc[line])
        kind = PICTURES.get(path.suffix.lower())
        if kind is None or not path.is_file():
            raise BagDataError(f"row {line}: {path.name!r} is no picture; expected a file {', '.join(PICTURES)}.")
        content = path.read_bytes()
        if not content.startswith(_BEGINNINGS):
            raise BagDataError(f"row {line}: {path.name!r} does not hold a picture.")
        return content, kind


def make_exhibit(
    pool: Pool,
    frame: pd.DataFrame | None,
    *,
    bag: str | None = None,
    hidden: Sequence[str] = (),
    show: Sequence[str] = (),
    image: str | None = None,
    text: str | None = None,
    image_shape: tuple[int, ...] | None = None,
    folder: Path = Path(),
) -> Exhibit:
    """Choose the columns to show: those named, or the first few that are neither label nor picture nor text.

    ``hidden`` are columns that must never be shown, such as what is to be found out.
    """
    if frame is None:
        names = pool.bags.feature_names or [f"feature {number}" for number in range(pool.bags.n_features)]
        if show or image or text:
            raise BagDataError("--show, --image and --text name columns of a table; the data are an .npz archive.")
        few = [] if image_shape is not None else list(names)[:_COLUMNS_SHOWN]
        return Exhibit(pool, None, tuple(few), image_shape=image_shape)
    missing = [name for name in (*show, image, text) if name is not None and name not in frame.columns]
    if missing:
        raise BagDataError(f"there is no column {shorten(missing)}; the table has {shorten(frame.columns, 12)}.")
    features = pool.bags.feature_names or () if image_shape is not None else ()
    left_out = {bag, image, text, *hidden, *features}
    usual = [name for name in frame.columns if name not in left_out][:_COLUMNS_SHOWN]
    columns = tuple(map(str, show or usual))
    return Exhibit(pool, frame, columns, image, text, image_shape, folder)


def _cell(value: Any) -> str:
    if pd.isna(value):
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return visible(text)[:_LONGEST_CELL]
