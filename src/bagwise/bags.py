"""Bags of instances: flat rows, offsets, string ids."""

import html
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
from bagwise._long_tables import labelled_bags, listed_names, side_by_side
from bagwise._totals import check_totals, joined_weights, row_weights, rows_of_totals
from bagwise.exceptions import BagDataError, BagDataWarning, warn_user
from bagwise.sources.opening import Wanted, open_bags, stored
from bagwise.sources.rows import RowSource, StoredRows
from bagwise.sources.rows import ragged_ranges as ragged_ranges

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NO_BAGS = "there are no bags: the list is empty (0 sample(s)), while a minimum of 1 is required."
_FORMAT = "bagwise-bags-1"
_SHOWN = 8  # bags in a notebook
_KEEPS_NONE = "the selection is empty: it keeps no bag."


class Bags:
    """Instances in bags.

    The rows of one bag stand together in ``X``; bag ``b`` occupies ``X[offsets[b]:offsets[b + 1]]``. Indexing is by
    bag and always gives ``Bags``, so scikit-learn's splitters cut between bags, never through one.

    Parameters
    ----------
    X : (N, D) array, torch tensor, scipy.sparse matrix or frame of numbers (for rows that stay in a file see ``open``)
    groups : N group keys, in any order; they become the bags' string ids, by first appearance
    feature_names : D names, taken from a frame's columns if not given
    known : N individually known instance labels used as evidence (0, 1 or NaN for unknown)
    weight : N whole numbers: how many individuals with these features the row stands for (1 each if not given)
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
        weight: Any = None,
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
            None if isinstance(matrix, StoredRows) else np.arange(matrix.shape[0]),
            names,
            check.known_labels(known, matrix.shape[0]),
            None if parts is None else parts[0],
            columns.Meta.read(meta, matrix.shape[0]),
            weight=row_weights(weight, matrix.shape[0]),
        )
        if (np.diff(order) < 0).any():
            rows = np.argsort(order, kind="stable")
            self._set(**(self._contents() | self._beside(rows) | {"X": matrix[rows], "rows": rows}))
        check_totals(self._weight, offsets, ids)

    def _set(
        self,
        X: Any,
        offsets: Ints,
        ids: tuple[str, ...],
        rows: Ints | None,
        feature_names: tuple[str, ...] | None,
        known: Floats | None,
        part: NDArray[Any] | None = None,
        meta: columns.Meta | None = None,
        group: tuple[str, ...] | None = None,
        kind: str = PANDAS,
        weight: Ints | None = None,
    ) -> None:
        self._X = _frozen(X)
        self._offsets = _frozen(offsets.astype(np.int64))
        self._ids = ids
        self._rows = None if rows is None else _frozen(rows)  # None: the rows of a file themselves know where they are
        self._feature_names = feature_names
        self._known = None if known is None else _frozen(known)
        self._part = None if part is None else _frozen(part)
        self._meta = meta
        self._group = group
        self._kind = kind
        self._weight = None if weight is None else _frozen(weight)

    def _contents(self) -> dict[str, Any]:
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
            "weight": self._weight,
        }

    def _with(self, **changes: Any) -> Self:
        """The same bags with some parts replaced."""
        new = object.__new__(type(self))
        new._set(**(self._contents() | changes))
        return new

    def _beside(self, rows: Any) -> dict[str, Any]:
        """Everything beside the features that has one entry per instance, of some rows."""
        each = {"rows": self._rows, "known": self._known, "part": self._part, "weight": self._weight}
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
        weight: str | None = None,
    ) -> Any:
        """Bags from a long table with one row per instance: pandas, Polars, Arrow, a DuckDB relation.

        Returns the bags alone, ``(bags, y)`` when ``label`` is named (several labels give y one column each), and
        ``(bags, y, instance_y)`` when ``instance_label`` is named too (y is None without ``label``). ``features=None``
        takes every column that is not named otherwise; one of them that is not numeric is an error. ``weight`` names a
        column with the number of individuals that a row stands for.

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
            *listed_names(weight),
            *listed_names(ignore),
        ]
        used = [*named, *described]
        chosen = [name for name in frame.columns if name not in used] if features is None else listed_names(features)
        check.check_named_columns(frame, named, chosen)
        return labelled_bags(
            cls, frame[chosen], None, frame, bag, label, instance_label, part, group, described, weight, kind
        )

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
        ``bags.meta``. Features are kept in single precision. Where all of them together need more memory than
        ``bagwise.scale.within`` allows for rows, they stay in their files and are read when they are needed.

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
            weight=joined_weights([bags.weight for bags in listed], [bags.n_instances for bags in listed]),
        )
        if all(bags.group is None for bags in listed):
            return joined
        return joined.with_group(key for bags in listed for key in bags.group or bags.ids)

    @classmethod
    def open(
        cls,
        path: Any,
        bag: Any,
        *,
        features: str | Sequence[str] | None = None,
        label: Any = None,
        instance_label: Any = None,
        known: Any = None,
        part: Any = None,
        group: Any = None,
        meta: str | Sequence[str] = (),
        ignore: str | Sequence[str] = (),
    ) -> Any:
        """Bags whose rows stay in their file and are read when they are needed, a bounded number at a time.

        Parameters
        ----------
        path : a Parquet file, several of them, or a folder of them; a ``.npy`` or a ``.safetensors`` file
        bag : column with the key of the bag. The rows of a bag must stand together; ``bagwise sort`` sorts a table.
            For ``.npy`` an array with one key per row, or the name of a ``.npy`` file with it; for safetensors the
            name of a tensor, or an array.
        features : feature columns; None takes every column that is not named otherwise. For safetensors the name of
            the tensor with the rows ("X" if not given).
        label, instance_label, ignore : as in ``from_frame``
        known : column, or array, of instances known one by one
        part, group, meta : as in ``from_frame``; the rows of a part must stand together too. Columns of ``meta`` are
            columns of a table, or tensors of a safetensors file.

        Returns the bags alone, ``(bags, y)`` or ``(bags, y, instance_y)``, as ``from_frame`` does. A file that changes
        while it is in use is an error.
        """
        chosen = None if features is None else listed_names(features)
        labels, instances, described = _several(label), _several(instance_label), listed_names(meta)
        groups, parts = _several(group), _several(part)
        wanted = Wanted(bag, chosen, [*labels, *groups], [*instances, *parts, *described], known, listed_names(ignore))
        found = open_bags(path, wanted)
        of_bags, of_rows = iter(found.labels), iter(found.instance_labels)
        y, instance_y = [next(of_bags) for _ in labels], [next(of_rows) for _ in instances]
        bags = cls._opened(
            found.X,
            found.offsets,
            found.ids,
            found.feature_names,
            known=found.known,
            part=next(of_rows) if parts else None,
            meta=dict(zip(described, of_rows, strict=True)),
        )
        bags = bags.with_group(next(of_bags)) if groups else bags
        if not labels and not instances:
            return bags
        told = side_by_side(y, single=not isinstance(label, list | tuple)) if labels else None
        if not instances:
            return bags, told
        return bags, told, side_by_side(instance_y, single=not isinstance(instance_label, list | tuple))

    @classmethod
    def from_source(
        cls,
        source: RowSource,
        sizes: Any,
        ids: Iterable[Any] | None = None,
        *,
        feature_names: Sequence[str] | None = None,
        known: Any = None,
        part: Any = None,
        meta: Any = None,
    ) -> Self:
        """Bags whose rows come from an object with ``shape``, ``dtype`` and ``read(start, stop)``, bag after bag.

        ``known``, ``part`` and ``meta`` are those of ``Bags``; the rows of a part must stand together.
        """
        counts = np.asarray(sizes, dtype=np.int64)
        if counts.ndim != 1 or len(counts) == 0 or (counts < 1).any():
            raise BagDataError("sizes: expected the number of instances of every bag, at least 1 each.")
        bag_ids = tuple(map(str, range(len(counts)))) if ids is None else check.unique_ids(ids)
        if len(bag_ids) != len(counts):
            raise BagDataError(f"ids: expected one id per bag ({len(counts)}), got {len(bag_ids)}.")
        offsets = np.concatenate([[0], np.cumsum(counts)])
        names = None if feature_names is None else check.texts(feature_names, "the name of a feature")
        X = stored(source, bag_ids, offsets, names)
        return cls._opened(X, offsets, bag_ids, names, known=known, part=part, meta=meta)

    @classmethod
    def _opened(
        cls, X: StoredRows, offsets: Ints, ids: tuple[str, ...], names: Any, *, known: Any, part: Any, meta: Any
    ) -> Self:
        """Bags of rows that stay where they are, so everything beside them has to be in their order."""
        bags = object.__new__(cls)
        parts = columns.parts_in_order(part, offsets, ids)
        n_rows = int(offsets[-1])
        described = columns.Meta.read(meta, n_rows)
        bags._set(X, offsets, ids, None, names, check.known_labels(known, n_rows), parts, described)
        return bags

    @classmethod
    def from_totals(
        cls,
        table: Any,
        bag: str,
        groups: Sequence[str],
        *,
        features: str | Sequence[str] = (),
        label: str | Sequence[str] | None = None,
    ) -> Any:
        """Bags from a table with one row per bag and a column with the total of every group.

        Every group of every bag becomes one row that stands for as many individuals as the column says. Its features
        are one column of 0 and 1 for each group and the columns ``features`` of the bag. Returns the bags alone, or
        ``(bags, y)`` when ``label`` is named: the columns of what the bags state (shares, counts).
        """
        frame, kind = as_pandas(table)
        labels, covariates, totals = listed_names(label), listed_names(features), listed_names(groups)
        check.check_named_columns(frame, [bag, *labels], [*totals, *covariates])
        X, keys, weight = rows_of_totals(frame, bag, totals, covariates)
        bags = cls(X, keys, feature_names=[*totals, *covariates], weight=weight)._with(kind=kind)
        if not labels:
            return bags
        stated = frame[labels].to_numpy()
        return bags, stated[:, 0] if isinstance(label, str) else stated

    # ------------------------------------------------------------ what there is

    X = property(lambda self: self._X, doc="(N, D) features, the instances of a bag together.")
    offsets = property(lambda self: self._offsets, doc="(B + 1,) where each bag begins; the last entry is N.")
    ids = property(lambda self: self._ids, doc="The bags' ids as strings, in order of first appearance.")
    stays_in_file = property(lambda self: isinstance(self._X, StoredRows), doc="Whether the rows are read on demand.")
    feature_names = property(lambda self: self._feature_names, doc="Column names, or None.")
    known = property(lambda self: self._known, doc="(N,) known instance labels (evidence), NaN unknown; or None.")
    weight = property(lambda self: self._weight, doc="(N,) number of individuals each row stands for; or None.")
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
        return ", ".join(told) or f"row {self._row(instance)}"

    def _row(self, instance: int) -> int:
        return int(self._X.positions(instance) if self._rows is None else self._rows[instance])

    @property
    def rows(self) -> Ints:
        """(N,) position of each row of ``X`` in the original table."""
        found: Ints = self._X.positions() if self._rows is None else self._rows
        return found

    @property
    def sizes(self) -> Ints:
        """(B,) number of instances of each bag."""
        sizes: Ints = np.diff(self._offsets)
        return sizes

    @property
    def totals(self) -> Ints:
        """(B,) number of individuals of each bag: the sum of its weights, or its number of rows."""
        if self._weight is None:
            return self.sizes
        totals: Ints = np.add.reduceat(self._weight, self._offsets[:-1])
        return totals

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

    def _repr_html_(self) -> str:
        """What a notebook shows: how much there is, and the first bags."""
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{size}</td></tr>"
            for name, size in zip(self._ids[:_SHOWN], self.sizes[:_SHOWN].tolist(), strict=True)
        )
        more = f"<tr><td>…</td><td>{len(self) - _SHOWN} more bags</td></tr>" if len(self) > _SHOWN else ""
        known = 0 if self._known is None else int((~np.isnan(self._known)).sum())
        also = f", {known} known instance{'s' * (known > 1)}" if known else ""
        names = (
            "" if self._feature_names is None else f"<p>features: {html.escape(check.shorten(self._feature_names))}</p>"
        )
        head = "<thead><tr><th>bag</th><th>instances</th></tr></thead>"
        summary = f"<p><b>{html.escape(repr(self))}</b>{also}</p>"
        return f"<div>{summary}{names}<table>{head}<tbody>{rows}{more}</tbody></table></div>"

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for number, name in enumerate(self._ids):
            rows = self._X[self._offsets[number] : self._offsets[number + 1]]
            yield name, np.asarray(rows) if isinstance(rows, StoredRows) else rows

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
            X=self._X.of_bags(self._offsets, numbers) if self.stays_in_file else self._X[rows],
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            ids=tuple(self._ids[number] for number in numbers),
            group=None if self._group is None else tuple(self._group[number] for number in numbers),
            **self._beside(rows),
        )

    def _stretch(self, start: int, stop: int) -> Self:
        """Neighbouring bags, without copying dense rows."""
        if stop <= start:
            raise BagDataError(_KEEPS_NONE)
        rows = slice(self._offsets[start], self._offsets[stop])
        return self._with(
            offsets=self._offsets[start : stop + 1] - self._offsets[start],
            ids=self._ids[start:stop],
            X=self._X[rows],
            group=None if self._group is None else self._group[start:stop],
            **self._beside(rows),
        )

    # ------------------------------------------------------------ parts

    def by_part(self) -> Self:
        """The parts as bags, rows as they are in ``X``; their ``group`` is the bag that they come from."""
        if self._part is None:
            raise BagDataError("these bags have no parts; name them with part=… when the bags are made.")
        starts = columns.starts_of_parts(self._part, self._offsets)
        ids, owners = self._part[starts[:-1]], self.index[starts[:-1]]
        check_totals(self._weight, starts, ids)
        group = tuple(self._ids[owner] for owner in owners)
        return self._with(offsets=starts, ids=tuple(ids), part=None, group=group)

    def merged(self, numbers: Ints, ids: Iterable[Any]) -> Self:
        """Neighbouring bags as parts of larger ones; ``numbers``, which never fall, say which of ``ids`` each is in."""
        starts = np.searchsorted(numbers, np.arange(int(numbers[-1]) + 2))
        keys = np.repeat(np.array(self._ids, dtype=object), self.sizes)
        return self._with(offsets=self._offsets[starts], ids=check.unique_ids(ids), part=keys, group=None)

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

    def with_weight(self, weight: Any) -> Self:
        """The same bags with the number of individuals that each row stands for (in the order of ``X``), or None."""
        weights = row_weights(weight, self.n_instances)
        check_totals(weights, self._offsets, self._ids)
        return self._with(weight=weights)

    def with_features(self, X: Any, feature_names: Sequence[str] | None = None) -> Self:
        """The same bags with other features, row by row."""
        matrix, names = check.feature_matrix(X, feature_names)
        if matrix.shape[0] != self.n_instances:
            raise BagDataError(f"expected one row per instance ({self.n_instances}), got {matrix.shape[0]}.")
        return self._with(X=matrix, feature_names=names)

    def in_memory(self) -> Self:
        """The same bags with their rows in memory: read now if they are in a file."""
        return self._with(X=np.asarray(self._X), rows=self.rows) if self.stays_in_file else self

    def repeated(self) -> Self:
        """The same individuals with a row for each of them, without weights."""
        if self._weight is None:
            return self
        rows = np.repeat(np.arange(self.n_instances), self._weight)
        offsets, beside = np.concatenate([[0], np.cumsum(self.totals)]), self._beside(rows)
        return self._with(**beside | {"X": self._X[rows], "offsets": offsets, "rows": self.rows[rows], "weight": None})

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
    """A view that cannot be written through (sparse matrices and rows in files are left as they are)."""
    if scipy.sparse.issparse(array) or isinstance(array, StoredRows):
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


def _several(given: Any) -> list[Any]:
    """Names or arrays, one of them or a list."""
    return [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
