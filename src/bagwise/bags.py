"""Bags of instances: flat rows, offsets, string ids."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from bagwise import _columns as columns
from bagwise import _validation as check
from bagwise._archives import opened_archive
from bagwise._bag_arrays import bag_parts, is_stored, plain_arrays
from bagwise._files import PathLike, write_whole
from bagwise._frames import PANDAS, as_pandas
from bagwise._indexing import chosen_bags, leading_key
from bagwise._long_tables import labelled_bags, listed_names
from bagwise.exceptions import BagDataError, BagDataWarning, warn_user

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NO_BAGS = "there are no bags: the list is empty (0 sample(s)), while a minimum of 1 is required."
_FORMAT = "bagwise-bags-1"
_KEEPS_NONE = "the selection is empty: it keeps no bag."


class Bags:
    """Instances in bags.

    The rows of one bag stand together in ``X``; bag ``b`` occupies ``X[offsets[b]:offsets[b + 1]]``. Indexing is by
    bag and always gives ``Bags``, so scikit-learn's splitters cut between bags, never through one.

    Parameters
    ----------
    X : (N, D) array, torch tensor, scipy.sparse matrix or frame of numbers
    groups : N group keys, in any order; they become the bags' string ids, by first appearance
    feature_names : D names, taken from a frame's columns if not given
    known : N individually known instance labels used as evidence (0, 1 or NaN for unknown)
    part : N keys of parts below the bags (the slides of a patient); each part lies in one bag, and its rows stand
        together in ``X``
    meta : frame, or dict of columns, that describes the N instances (file, position, text); it is carried along and
        shown beside answers, never learned from
    """

    def __init__(
        self,
        X: Any,
        groups: Any,
        *,
        feature_names: Sequence[str] | None = None,
        known: Any = None,
        part: Any = None,
        meta: Any = None,
    ) -> None:
        matrix, names = check.feature_matrix(X, feature_names)
        check.check_not_empty(matrix)
        codes, ids = check.group_codes(groups, matrix.shape[0])
        parts = columns.part_keys(part, codes, ids)
        order = codes if parts is None else codes * (int(parts[1].max()) + 1) + parts[1]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(ids)))])
        self._set(
            matrix,
            offsets,
            ids,
            np.arange(matrix.shape[0]),
            names,
            check.known_labels(known, matrix.shape[0]),
            None if parts is None else parts[0],
            columns.Meta.read(meta, matrix.shape[0]),
        )
        if (np.diff(order) < 0).any():
            self._set(**(self._fields() | self._of_rows(np.argsort(order, kind="stable"))))

    def _set(
        self,
        X: Any,
        offsets: Ints,
        ids: tuple[str, ...],
        rows: Ints,
        feature_names: tuple[str, ...] | None,
        known: Floats | None,
        part: NDArray[Any] | None = None,
        meta: columns.Meta | None = None,
        group: tuple[str, ...] | None = None,
        kind: str = PANDAS,
    ) -> None:
        self._X = _frozen(X)
        self._offsets = _frozen(offsets.astype(np.int64))
        self._ids = ids
        self._rows = _frozen(rows)
        self._feature_names = feature_names
        self._known = None if known is None else _frozen(known)
        self._part = None if part is None else _frozen(part)
        self._meta = meta
        self._group = group
        self._kind = kind

    def _fields(self) -> dict[str, Any]:
        return {
            "X": self._X,
            "offsets": self._offsets,
            "ids": self._ids,
            "rows": self._rows,
            "feature_names": self._feature_names,
            "known": self._known,
            "part": self._part,
            "meta": self._meta,
            "group": self._group,
            "kind": self._kind,
        }

    def _with(self, **changes: Any) -> Self:
        """The same bags with some parts replaced."""
        new = object.__new__(type(self))
        new._set(**(self._fields() | changes))
        return new

    def _of_rows(self, rows: Any) -> dict[str, Any]:
        """Everything that has one entry per instance, of some rows."""
        each = {"X": self._X, "rows": self._rows, "known": self._known, "part": self._part}
        chosen = {name: None if values is None else values[rows] for name, values in each.items()}
        return chosen | {"meta": None if self._meta is None else self._meta.take(rows)}

    # ------------------------------------------------------------ other ways in

    @classmethod
    def from_list(cls, arrays: Iterable[Any], ids: Iterable[Any] | None = None) -> Self:
        """One 2-D array per bag; ``ids`` default to "0", "1", …"""
        listed = list(arrays)
        if not listed:
            raise BagDataError(NO_BAGS)
        bag_ids = tuple(map(str, range(len(listed)))) if ids is None else check.unique_ids(ids)
        if len(bag_ids) != len(listed):
            raise BagDataError(f"ids: expected one id per bag ({len(listed)}), got {len(bag_ids)}.")
        checked = [_bag_matrix(array, bag) for array, bag in zip(listed, bag_ids, strict=True)]
        check.check_same_columns(checked, bag_ids)
        matrices = [matrix for matrix, _ in checked]
        stack = scipy.sparse.vstack if any(map(scipy.sparse.issparse, matrices)) else np.concatenate
        groups = np.repeat(np.array(bag_ids, dtype=object), [matrix.shape[0] for matrix in matrices])
        return cls(stack(matrices), groups, feature_names=checked[0][1])

    @classmethod
    def from_frame(
        cls,
        df: Any,
        bag: str,
        *,
        features: str | Sequence[str] | None = None,
        label: str | Sequence[str] | None = None,
        instance_label: str | None = None,
        part: str | None = None,
        group: str | None = None,
        meta: str | Sequence[str] = (),
        ignore: str | Sequence[str] = (),
    ) -> Any:
        """Bags from a long table with one row per instance: pandas, Polars, Arrow, a DuckDB relation.

        Returns the bags alone, ``(bags, y)`` when ``label`` is named (several labels give y one column each), and
        ``(bags, y, instance_y)`` when ``instance_label`` is named too (y is None without ``label``). ``features=None``
        takes every column that is not named otherwise; one of them that is not numeric is an error.

        ``part`` names a column of parts below the bags (the slides of a patient), ``group`` one of what stands above
        them and may not be torn apart by a split (the patient of a slide), ``meta`` columns that describe instances.
        """
        frame, kind = as_pandas(df)
        described = listed_names(meta)
        named = [
            bag,
            *listed_names(label),
            *listed_names(instance_label),
            *listed_names(part),
            *listed_names(group),
            *listed_names(ignore),
        ]
        used = [*named, *described]
        chosen = [name for name in frame.columns if name not in used] if features is None else listed_names(features)
        check.check_named_columns(frame, named, chosen)
        return labelled_bags(cls, frame[chosen], None, frame, bag, label, instance_label, part, group, described, kind)

    @classmethod
    def from_folder(
        cls,
        folder: PathLike,
        table: Any = None,
        *,
        bag: str = "slide_id",
        label: str | Sequence[str] | None = None,
        part: str | None = None,
        group: str | None = None,
        file: str | None = None,
        meta: str | Sequence[str] = (),
        skip_bad: bool = False,
    ) -> Any:
        """Bags from a folder with one h5 file of tile features per slide, as TRIDENT, CLAM and STAMP write them.

        Returns the bags, or ``(bags, y)`` when ``label`` is named. Positions of tiles (``coords``) go into
        ``bags.meta``. Features are kept in single precision.

        Parameters
        ----------
        folder : files ``*.h5`` with ``features`` (or ``feats``, ``patch_embeddings``) and ``coords``
        table : a file or a frame with one row per h5 file; None makes a bag of every file
        bag : column with the key of the bag; with ``part`` several files may belong to one bag
        label : column(s) with labels of the bags
        part : column with the key of the slide, where a bag is a patient
        group : column of what no split may tear apart, where a bag is a slide (the patient)
        file : column with the name of the h5 file; without it the key of the part, or of the bag, is that name
        meta : columns of the table to carry along beside the positions
        skip_bad : leave out files that cannot be used, files without a row and rows without a file, with a warning that
            names them all; otherwise they are an error
        """
        from bagwise.io.folder import FolderTable, listed, read_folder

        named = FolderTable(bag, part, group, file, tuple(listed_names(label)), tuple(listed_names(meta)))
        found = read_folder(folder, table, named, skip_bad=skip_bad)
        if found.skipped:
            warn_user(f"{folder}: left out {len(found.skipped)}: {listed(found.skipped)}.", BagDataWarning)
        if label is None:
            return found.bags
        y = found.labels.to_numpy()
        return found.bags, y[:, 0] if isinstance(label, str) else y

    @classmethod
    def from_anndata(
        cls,
        adata: Any,
        bag: str,
        *,
        features: str = "X",
        label: str | Sequence[str] | None = None,
        instance_label: str | None = None,
        part: str | None = None,
        group: str | None = None,
        meta: str | Sequence[str] = (),
    ) -> Any:
        """Bags of cells from an AnnData object, also a backed one; returns what ``from_frame`` returns.

        ``features`` names an entry of ``obsm`` ("X_pca"), or "X" for the matrix itself, which stays sparse if it is.
        All other names are columns of ``obs``. The names of the cells are carried as ``bags.meta["cell"]``;
        ``bagwise.io.add_to_anndata`` writes predictions back.
        """
        from bagwise.io.cells import cell_features

        X, names = cell_features(adata, features)
        obs = adata.obs.assign(cell=adata.obs_names.to_numpy())
        described = [*listed_names(meta), "cell"]
        return labelled_bags(cls, X, names, obs, bag, label, instance_label, part, group, described)

    @classmethod
    def concat(cls, parts: Iterable["Bags"]) -> Self:
        """The bags of several, one after the other; ``rows`` count on. Ids must differ, columns must be the same."""
        listed = list(parts)
        if not listed:
            raise BagDataError(NO_BAGS)
        check.check_same_columns([(bags.X, bags.feature_names) for bags in listed], [bags.ids[0] for bags in listed])
        ids = check.unique_ids(name for bags in listed for name in bags.ids)
        sparse = any(scipy.sparse.issparse(bags.X) for bags in listed)
        stack = scipy.sparse.vstack if sparse else np.concatenate
        groups = np.repeat(np.array(ids, dtype=object), np.concatenate([bags.sizes for bags in listed]))
        joined = cls(
            stack([bags.X for bags in listed]),
            groups,
            feature_names=listed[0].feature_names,
            known=columns.joined([bags.known for bags in listed], [bags.n_instances for bags in listed]),
            part=columns.joined_parts([bags.part for bags in listed]),
            meta=columns.joined_meta([bags._meta for bags in listed]),
        )
        if all(bags.group is None for bags in listed):
            return joined
        return joined.with_group(key for bags in listed for key in bags.group or bags.ids)

    # ------------------------------------------------------------ what there is

    X = property(lambda self: self._X, doc="(N, D) features, the instances of a bag together.")
    offsets = property(lambda self: self._offsets, doc="(B + 1,) where each bag begins; the last entry is N.")
    ids = property(lambda self: self._ids, doc="The bags' ids as strings, in order of first appearance.")
    rows = property(lambda self: self._rows, doc="(N,) position of each row of X in the original table.")
    feature_names = property(lambda self: self._feature_names, doc="Column names, or None.")
    known = property(lambda self: self._known, doc="(N,) known instance labels (evidence), NaN unknown; or None.")
    part = property(lambda self: self._part, doc="(N,) key of the part that each instance belongs to; or None.")
    frame_kind = property(lambda self: self._kind, doc="Kind of frame that the bags came from, such as 'polars'.")
    group = property(lambda self: self._group, doc="(B,) what no split may tear apart, for every bag; or None.")

    @property
    def meta(self) -> pd.DataFrame | None:
        """Columns that describe the instances, in the order of ``X``; or None."""
        return None if self._meta is None else self._meta.to_frame()

    def describe(self, instance: int) -> str:
        """One instance for reading: its part and its metadata, or its row in the table where there is neither."""
        part = [] if self._part is None else [str(self._part[instance])]
        told = part + ([] if self._meta is None else [self._meta.describe(instance)])
        return ", ".join(told) or f"row {self._rows[instance]}"

    @property
    def sizes(self) -> Ints:
        """(B,) number of instances of each bag."""
        sizes: Ints = np.diff(self._offsets)
        return sizes

    @property
    def index(self) -> Ints:
        """(N,) number of the bag of each row of ``X``."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def n_instances(self) -> int:
        """N, the number of rows of ``X``."""
        return int(self._offsets[-1])

    @property
    def n_features(self) -> int:
        """D, the number of columns of ``X``."""
        return int(self._X.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """(number of bags, number of features)."""
        return len(self), self.n_features

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        sizes = self.sizes
        return (
            f"Bags({len(self)} bags of {sizes.min()}–{sizes.max()}, {self.n_instances} instances, "
            f"{self.n_features} features)"
        )

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for number, name in enumerate(self._ids):
            yield name, self._X[self._offsets[number] : self._offsets[number + 1]]

    def __getitem__(self, key: Any) -> Self:
        key = leading_key(key)
        if isinstance(key, slice) and key.step in (None, 1):
            return self._stretch(*key.indices(len(self))[:2])
        numbers = chosen_bags(key, self._ids)
        if len(numbers) == 0:
            raise BagDataError(_KEEPS_NONE)
        sizes = self.sizes[numbers]
        rows = ragged_ranges(self._offsets[numbers], sizes)
        return self._with(
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            ids=tuple(self._ids[number] for number in numbers),
            group=None if self._group is None else tuple(self._group[number] for number in numbers),
            **self._of_rows(rows),
        )

    def _stretch(self, start: int, stop: int) -> Self:
        """Neighbouring bags, without copying dense rows."""
        if stop <= start:
            raise BagDataError(_KEEPS_NONE)
        rows = slice(self._offsets[start], self._offsets[stop])
        return self._with(
            offsets=self._offsets[start : stop + 1] - self._offsets[start],
            ids=self._ids[start:stop],
            group=None if self._group is None else self._group[start:stop],
            **self._of_rows(rows),
        )

    # ------------------------------------------------------------ parts

    def by_part(self) -> Self:
        """The parts as bags, rows as they are in ``X``; their ``group`` is the bag that they come from."""
        if self._part is None:
            raise BagDataError("these bags have no parts; name them with part=… when the bags are made.")
        starts = columns.starts_of_parts(self._part, self._offsets)
        ids, owners = self._part[starts[:-1]], self.index[starts[:-1]]
        group = tuple(self._ids[owner] for owner in owners)
        return self._with(offsets=starts, ids=tuple(ids), part=None, group=group)

    # ------------------------------------------------------------ labels

    def align(self, y: Mapping[Any, Any] | pd.Series | pd.DataFrame) -> NDArray[Any]:
        """Labels keyed by bag id as an array in the order of ``ids``; a missing or extra id is an error."""
        return check.aligned(y, self._ids)

    def with_known(self, z: Any) -> Self:
        """The same bags with individually known instance labels as evidence (0, 1, NaN; in the order of ``X``)."""
        return self._with(known=check.known_labels(z, self.n_instances))

    def with_group(self, group: Mapping[Any, Any] | pd.Series | Iterable[Any]) -> Self:
        """The same bags with what no split may tear apart (the patient of every slide): one key per bag, or by id."""
        keys = self.align(group) if isinstance(group, Mapping | pd.Series) else group
        return self._with(group=columns.checked_group(keys, len(self)))

    def with_rows(self, rows: Any) -> Self:
        """The same bags with other positions of their rows in the user's table, in the order of ``X``."""
        positions = np.asarray(rows)
        if positions.shape != (self.n_instances,) or positions.dtype.kind not in "iu":
            raise BagDataError(f"rows: expected one whole number per instance ({self.n_instances}).")
        return self._with(rows=positions)

    def with_meta(self, meta: Any) -> Self:
        """The same bags with other columns that describe the instances, in the order of ``X``; None for none."""
        return self._with(meta=columns.Meta.read(meta, self.n_instances))

    def with_features(self, X: Any, feature_names: Sequence[str] | None = None) -> Self:
        """The same bags with other features, row by row."""
        matrix, names = check.feature_matrix(X, feature_names)
        if matrix.shape[0] != self.n_instances:
            raise BagDataError(f"expected one row per instance ({self.n_instances}), got {matrix.shape[0]}.")
        return self._with(X=matrix, feature_names=names)

    # ------------------------------------------------------------ files

    def save(self, path: PathLike) -> None:
        """Write an ``.npz`` file (plain arrays, whole or not at all)."""
        arrays: dict[str, Any] = {"format": np.array(_FORMAT)} | plain_arrays(self, self._meta)
        write_whole(path, lambda stream: np.savez_compressed(stream, **arrays))

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read what ``save`` wrote. Never unpickles."""
        with opened_archive(path, "not a readable file of bags") as archive:
            if str(archive.get("format")) != _FORMAT:
                raise BagDataError(
                    f"{path}: not written by Bags.save; bagwise.datasets.read_npz reads other .npz archives."
                )
            stored = {name: archive[name] for name in archive if is_stored(name)}
        bags = object.__new__(cls)
        try:
            bags._set(**bag_parts(stored))
        except Exception as error:
            raise BagDataError(f"{path}: the file of bags is damaged ({error}).") from error
        return bags


def ragged_ranges(starts: Ints, sizes: Ints) -> Ints:
    """``concatenate([arange(a, a + n) for a, n in zip(starts, sizes)])`` without the loop."""
    before = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def as_bags(X: Any) -> Bags:
    """Bags as they are, a list of 2-D arrays as bags, a plain 2-D array as bags of one."""
    if isinstance(X, Bags):
        return X
    if isinstance(X, list | tuple) and len(X) == 0:
        raise BagDataError(NO_BAGS)
    if isinstance(X, list | tuple) and any(map(_is_table, X)):
        return Bags.from_list(X)
    matrix, names = check.feature_matrix(X)
    return Bags(matrix, np.arange(matrix.shape[0]), feature_names=names)


def _is_table(item: Any) -> bool:
    if isinstance(item, list | tuple):
        return len(item) > 0 and isinstance(item[0], list | tuple | np.ndarray)
    return len(getattr(item, "shape", ())) == 2


def _frozen(array: Any) -> Any:
    """A view that cannot be written through (sparse matrices are left as they are)."""
    if scipy.sparse.issparse(array):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def _bag_matrix(array: Any, bag: str) -> tuple[Any, tuple[str, ...] | None]:
    try:
        matrix, names = check.feature_matrix(array)
    except BagDataError as error:
        raise BagDataError(f"bag {bag!r}: {error}") from None
    if matrix.shape[0] == 0:
        raise BagDataError(f"bag {bag!r} is empty; every bag needs at least one instance.")
    return matrix, names
