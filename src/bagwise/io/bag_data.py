"""One way in for every kind of data: a table, an archive or a folder of h5 files as bags and labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from bagwise._archives import read_limit
from bagwise._files import PathLike
from bagwise._validation import shorten
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.inference.places import PLACE
from bagwise.io.folder import FolderTable, read_folder
from bagwise.io.headers import refuse_missing
from bagwise.io.npz import Described, known_in_order, read_archive
from bagwise.io.table_sizes import parquet_bytes
from bagwise.io.tables import SUFFIXES, read_table
from bagwise.sources.parquet import common_schema, parquet_files


@dataclass(frozen=True)
class BagData:
    """Bags with what is known about them."""

    bags: Bags
    y: Any  # (B,) for one label, a frame with one column per label for several, None without
    instance_y: NDArray[Any] | None  # in the order of bags.X
    labels: tuple[str, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)  # of a folder: what was left out, and why


@dataclass(frozen=True)
class Layout:
    """Columns that say more of the bags than their key, and the table that belongs to a folder of h5 files."""

    part: str | None = None  # below the bags
    group: str | None = None  # above the bags: what no split may tear apart
    meta: tuple[str, ...] = ()
    totals: tuple[str, ...] = ()  # of groups: the table then has one row per bag
    table: PathLike | None = None
    skip_bad: bool = False
    optional: frozenset[str] = frozenset()  # columns that need not be there

    def keys(self) -> list[str]:
        """Columns that are to be read as text."""
        return [name for name in (self.part, self.group) if name is not None]

    def described(self) -> dict[str, Any]:
        """As arguments of ``Bags.from_frame`` and ``Bags.open``."""
        return {"part": self.part, "group": self.group, "meta": self.meta}

    def within(self, columns: Iterable[str]) -> "Layout":
        """The same without optional columns that a table does not have."""
        gone = self.optional - set(columns)
        part, group = (None if name in gone else name for name in (self.part, self.group))
        return replace(self, part=part, group=group, meta=tuple(name for name in self.meta if name not in gone))


def read_bags(
    path: PathLike,
    *,
    bag: str | None = None,
    labels: Sequence[str] = (),
    instance_labels: Sequence[str] = (),
    known: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    labels_may_be_absent: bool = False,
    layout: Layout | None = None,
) -> BagData:
    """Read bags from a long table (``bag`` names the column of keys), an ``.npz`` archive or a folder.

    A folder holds h5 files, or Parquet files with the rows of one table.

    ``labels`` name what each bag says (labels, a fraction, the two ends of a range), ``known`` the individually known
    instance labels that become ``bags.known``, ``weight`` the number of individuals that a row stands for; in an
    archive all are names of arrays. ``features=None`` takes every column of a table that is not named
    otherwise. With ``labels_may_be_absent`` a file that lacks one of the ``labels`` is read as unlabelled, and one that
    lacks ``known`` as knowing no instance.
    """
    layout = layout or Layout()
    if layout.totals:
        _refuse_beside_totals(path, layout, (known, weight), instance_labels)
        return _from_totals(path, _bag_column(path, bag), labels, features, labels_may_be_absent, layout.totals)
    if is_of_h5(path, layout):
        _refuse_of_folder(path, (known, weight), instance_labels, features, ignore)
        return _from_folder(path, bag, labels, labels_may_be_absent, layout)
    if is_archive(path):
        return _from_archive(path, labels, known, weight, layout, labels_may_be_absent)
    if weight is None and is_left_in_its_file(path):
        asked = {"bag": _bag_column(path, bag), "features": features, "known": known, "ignore": ignore}
        return _from_file(path, labels, instance_labels, asked, labels_may_be_absent, layout)
    frame = read_table(path, _bag_column(path, bag), layout.keys())
    layout = layout.within(frame.columns)
    if labels_may_be_absent:
        labels = labels if set(labels) <= set(frame.columns) else ()
        known = known if known in frame.columns else None
    others = [*instance_labels, *(name for name in (known, weight) if name is not None), *ignore]
    _check_columns(path, frame, [*labels, *others, *layout.keys()], features or ())
    found = _from_frame(frame, str(bag), labels, instance_labels, features, others, layout)
    if weight is not None:
        found = replace(found, bags=found.bags.with_weight(frame[weight].to_numpy()[found.bags.rows]))
    if known is None:
        return found
    where = f"{path}: column {known!r}"
    return replace(found, bags=known_in_order(found.bags, frame[known].to_numpy(), where))


def is_of_h5(path: PathLike, layout: Layout) -> bool:
    """Whether this is a folder of h5 files rather than one of Parquet files."""
    place = Path(path)
    return place.is_dir() and (layout.table is not None or not any(place.glob("*.[pP][aA][rR][qQ][uU][eE][tT]")))


def is_left_in_its_file(path: PathLike) -> bool:
    """Whether rows are read on demand: those of a folder of Parquet files, or of a table too large for memory."""
    place = Path(path)
    if place.suffix.lower() != ".parquet":
        return place.is_dir()
    size = sum(parquet_bytes(file) for file in parquet_files(place))
    return size > min(PLACE.get().memory_bytes(), read_limit())


def _from_file(
    path: PathLike,
    labels: Sequence[str],
    instance_labels: Sequence[str],
    asked: dict[str, Any],
    may_be_absent: bool,
    layout: Layout,
) -> BagData:
    columns = common_schema(parquet_files(path)).names
    layout = layout.within(columns)
    if may_be_absent:
        labels = labels if set(labels) <= set(columns) else ()
        asked["known"] = asked["known"] if asked["known"] in columns else None
    named: dict[str, Any] = {"label": list(labels) or None, "instance_label": list(instance_labels) or None}
    found = Bags.open(path, **asked, **named, **layout.described())
    bags, y, instance_y = (*found, None)[:3] if isinstance(found, tuple) else (found, None, None)
    return BagData(bags, _labelled(y, bags, labels), _squeezed(instance_y), tuple(labels))


def is_archive(path: PathLike) -> bool:
    """Whether this is an ``.npz`` archive rather than a table, by its name."""
    return Path(path).suffix.lower() == ".npz"


def _from_frame(
    frame: pd.DataFrame,
    bag: str,
    labels: Sequence[str],
    instance_labels: Sequence[str],
    features: Sequence[str] | None,
    unused: Sequence[str],
    layout: Layout,
) -> BagData:
    named = layout.described()
    bags = Bags.from_frame(frame, bag, features=features, label=list(labels) or None, ignore=unused, **named)
    bags, y = bags if labels else (bags, None)
    instance_y = frame[list(instance_labels)].to_numpy()[bags.rows] if instance_labels else None
    return BagData(bags, _labelled(y, bags, labels), _squeezed(instance_y), tuple(labels))


def _from_totals(
    path: PathLike,
    bag: str,
    labels: Sequence[str],
    features: Sequence[str] | None,
    may_be_absent: bool,
    groups: Sequence[str],
) -> BagData:
    """A table with one row per bag; of its other columns only ``features`` are covariates."""
    frame = read_table(path, bag)
    labels = () if may_be_absent and not set(labels) <= set(frame.columns) else labels
    others = [name for name in features or () if name not in groups]
    _check_columns(path, frame, [*labels, *groups], others)
    refuse_missing(path, others, frame.columns)
    found = Bags.from_totals(frame, bag, groups, features=others, label=list(labels) or None)
    bags, y = found if labels else (found, None)
    return BagData(bags, _labelled(y, bags, labels), None, tuple(labels))


def _refuse_beside_totals(path: PathLike, layout: Layout, *asked: Sequence[str | None]) -> None:
    """A table of totals has no rows of single individuals that anything could be said of."""
    if is_archive(path) or Path(path).is_dir():
        raise BagDataError(
            f"{path}: totals of groups are columns of a table ({', '.join(SUFFIXES)}) with one row per bag."
        )
    named = [*layout.keys(), *layout.meta, *(name for names in asked for name in names if name is not None)]
    if named:
        raise BagDataError(
            f"{path}: has one row per bag and the totals of its groups (--totals), so columns of single rows, such as "
            f"{shorten(named)}, cannot be named beside them. A table with one row per bag and group takes --weight."
        )


def _from_archive(
    path: PathLike, labels: Sequence[str], known: str | None, weight: str | None, layout: Layout, may_be_absent: bool
) -> BagData:
    described = Described(layout.part, layout.group, layout.meta, layout.optional)
    found = read_archive(path, labels, known, weight, described=described, may_be_absent=may_be_absent)
    return BagData(found.bags, _labelled(found.y, found.bags, found.names), found.instance_y, tuple(found.names))


def _from_folder(
    path: PathLike, bag: str | None, labels: Sequence[str], may_be_absent: bool, layout: Layout
) -> BagData:
    """Every file of a folder, as its table has it; without a table each file is a bag."""
    if layout.table is None:
        if not may_be_absent and labels:
            raise BagDataError(f"{path}: a folder needs a table that says what is known of its files (--table).")
        found = read_folder(path, skip_bad=layout.skip_bad)
        return BagData(found.bags, None, None, (), found.skipped)
    key = _bag_column(layout.table, bag)
    frame = read_table(layout.table, key, layout.keys())
    layout = layout.within(frame.columns)
    wanted = tuple(labels) if not may_be_absent or set(labels) <= set(frame.columns) else ()
    named = FolderTable(key, layout.part, layout.group, None, wanted, layout.meta)
    found = read_folder(path, frame, named, skip_bad=layout.skip_bad)
    y = _labelled(found.labels.to_numpy(), found.bags, wanted) if wanted else None
    return BagData(found.bags, y, None, wanted, found.skipped)


def _refuse_of_folder(path: PathLike, *asked: Sequence[str | None] | None) -> None:
    named = [name for names in asked for name in names or () if name is not None]
    if named:
        raise BagDataError(
            f"{path}: is a folder of h5 files, whose rows have no columns {shorten(named)}; only columns of its table "
            "can be named."
        )


def _bag_column(path: PathLike, bag: str | None) -> str:
    if bag is None:
        raise BagDataError(
            f"{path}: which column says to what bag a row belongs? Name it with --bag (bag=…); only an .npz archive "
            f"needs none. Tables are {', '.join(SUFFIXES)}."
        )
    return bag


def _check_columns(path: PathLike, frame: pd.DataFrame, names: Sequence[str], features: Sequence[str]) -> None:
    both = [name for name in names if name in features]
    if both:
        raise BagDataError(f"{path}: column {shorten(both)} is named both as a feature and as something else.")
    refuse_missing(path, names, frame.columns)


def _labelled(y: Any, bags: Bags, names: Sequence[str]) -> Any:
    """Several labels as a frame that carries their names."""
    if y is None or y.ndim == 1:
        return y
    return pd.DataFrame(y, index=list(bags.ids), columns=list(names)) if y.shape[1] > 1 else y[:, 0]


def _squeezed(values: NDArray[Any] | None) -> NDArray[Any] | None:
    return values[:, 0] if values is not None and values.shape[1] == 1 else values
