"""Bags of instances: flat rows, offsets, string ids."""

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from bagwise import _validation as check
from bagwise._archives import opened_archive
from bagwise._files import PathLike, write_whole
from bagwise._totals import check_totals, row_weights, rows_of_totals
from bagwise.exceptions import BagDataError
from bagwise.sources.opening import Wanted, open_bags, stored
from bagwise.sources.rows import RowSource, StoredRows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NO_BAGS = "there are no bags: the list is empty (0 sample(s)), while a minimum of 1 is required."
_FORMAT = "bagwise-bags-1"
_STORED = ("X", "data", "indices", "indptr", "shape", "offsets", "rows", "ids", "feature_names", "known", "weight")
_SHOWN = 8  # bags in a notebook
_KEEPS_NONE = "the selection is empty: it keeps no bag."
_HOW_TO_INDEX = "bags are indexed by bag only: bags[3], bags[[0, 5]], bags[mask], bags[2:9], bags['id']"


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
    """

    def __init__(
        self,
        X: Any,
        groups: Any,
        *,
        feature_names: Sequence[str] | None = None,
        known: Any = None,
        weight: Any = None,
    ) -> None:
        matrix, names = check.feature_matrix(X, feature_names)
        check.check_not_empty(matrix)
        codes, ids = check.group_codes(groups, matrix.shape[0])
        labels = check.known_labels(known, matrix.shape[0])
        weights = row_weights(weight, matrix.shape[0])
        rows = None if isinstance(matrix, StoredRows) else np.arange(matrix.shape[0])
        if (np.diff(codes) < 0).any():
            rows = np.argsort(codes, kind="stable")
            matrix, labels, weights = matrix[rows], _chosen(labels, rows), _chosen(weights, rows)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(ids)))])
        check_totals(weights, offsets, ids)
        self._set(matrix, offsets, ids, rows, names, labels, weights)

    def _set(
        self,
        X: Any,
        offsets: Ints,
        ids: tuple[str, ...],
        rows: Ints | None,
        feature_names: tuple[str, ...] | None,
        known: Floats | None,
        weight: Ints | None,
    ) -> None:
        self._X = _frozen(X)
        self._offsets = _frozen(offsets.astype(np.int64))
        self._ids = ids
        self._rows = None if rows is None else _frozen(rows)  # None: the rows of a file themselves know where they are
        self._feature_names = feature_names
        self._known = None if known is None else _frozen(known)
        self._weight = None if weight is None else _frozen(weight)

    def _with(self, **changes: Any) -> Self:
        """The same bags with some parts replaced."""
        parts = {
            "X": self._X,
            "offsets": self._offsets,
            "ids": self._ids,
            "rows": self._rows,
            "feature_names": self._feature_names,
            "known": self._known,
            "weight": self._weight,
        }
        new = object.__new__(type(self))
        new._set(**(parts | changes))
        return new

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
        ignore: str | Sequence[str] = (),
        weight: str | None = None,
    ) -> Any:
        """Bags from a long table with one row per instance.

        Returns the bags alone, ``(bags, y)`` when ``label`` is named (several labels give y one column each), and
        ``(bags, y, instance_y)`` when ``instance_label`` is named too (y is None without ``label``). ``features=None``
        takes every column that is not named otherwise; one of them that is not numeric is an error. ``weight`` names a
        column with the number of individuals that a row stands for.
        """
        frame = _as_frame(df)
        labels, instance, ignored = _listed(label), _listed(instance_label), _listed(ignore)
        named = [bag, *labels, *instance, *ignored, *_listed(weight)]
        columns = [name for name in frame.columns if name not in named] if features is None else _listed(features)
        check.check_named_columns(frame, named, columns)
        bags = cls(frame[columns], frame[bag].to_numpy(), weight=None if weight is None else frame[weight].to_numpy())
        if not labels and instance_label is None:
            return bags
        y = _bag_labels(frame, labels, bags, single=isinstance(label, str))
        if instance_label is None:
            return bags, y
        return bags, y, frame[instance_label].to_numpy()[bags.rows]

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
        label, instance_label, known, ignore : as in ``from_frame``, and ``known`` for instances known one by one

        Returns the bags alone, ``(bags, y)`` or ``(bags, y, instance_y)``, as ``from_frame`` does. A file that changes
        while it is in use is an error.
        """
        labels, instances = _several(label), _several(instance_label)
        chosen = None if features is None else _listed(features)
        found = open_bags(path, Wanted(bag, chosen, labels, instances, known, _listed(ignore)))
        bags = object.__new__(cls)
        bags._set(found.X, found.offsets, found.ids, None, found.feature_names, found.known, None)
        if not labels and not instances:
            return bags
        y = _side_by_side(found.labels, single=not isinstance(label, list | tuple)) if labels else None
        if not instances:
            return bags, y
        return bags, y, _side_by_side(found.instance_labels, single=not isinstance(instance_label, list | tuple))

    @classmethod
    def from_source(
        cls,
        source: RowSource,
        sizes: Any,
        ids: Iterable[Any] | None = None,
        *,
        feature_names: Sequence[str] | None = None,
        known: Any = None,
    ) -> Self:
        """Bags whose rows come from an object with ``shape``, ``dtype`` and ``read(start, stop)``, bag after bag."""
        counts = np.asarray(sizes, dtype=np.int64)
        if counts.ndim != 1 or len(counts) == 0 or (counts < 1).any():
            raise BagDataError("sizes: expected the number of instances of every bag, at least 1 each.")
        bag_ids = tuple(map(str, range(len(counts)))) if ids is None else check.unique_ids(ids)
        if len(bag_ids) != len(counts):
            raise BagDataError(f"ids: expected one id per bag ({len(counts)}), got {len(bag_ids)}.")
        offsets = np.concatenate([[0], np.cumsum(counts)])
        names = None if feature_names is None else check.texts(feature_names, "the name of a feature")
        bags = object.__new__(cls)
        X = stored(source, bag_ids, offsets, names)
        bags._set(X, offsets, bag_ids, None, names, check.known_labels(known, int(offsets[-1])), None)
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
        frame, labels, covariates, totals = _as_frame(table), _listed(label), _listed(features), _listed(groups)
        check.check_named_columns(frame, [bag, *labels], [*totals, *covariates])
        X, keys, weight = rows_of_totals(frame, bag, totals, covariates)
        bags = cls(X, keys, feature_names=[*totals, *covariates], weight=weight)
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
        if isinstance(key, tuple):  # bags[indices, ...], as scikit-learn asks
            key = _leading_key(key)
        if isinstance(key, slice) and key.step in (None, 1):
            return self._stretch(*key.indices(len(self))[:2])
        numbers = self._numbers(key)
        if len(numbers) == 0:
            raise BagDataError(_KEEPS_NONE)
        sizes = self.sizes[numbers]
        rows = ragged_ranges(self._offsets[numbers], sizes)
        return self._with(
            X=self._X.of_bags(self._offsets, numbers) if self.stays_in_file else self._X[rows],
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            ids=tuple(self._ids[number] for number in numbers),
            rows=None if self._rows is None else self._rows[rows],
            known=_chosen(self._known, rows),
            weight=_chosen(self._weight, rows),
        )

    def _stretch(self, start: int, stop: int) -> Self:
        """Neighbouring bags, without copying dense rows."""
        if stop <= start:
            raise BagDataError(_KEEPS_NONE)
        rows = slice(self._offsets[start], self._offsets[stop])
        return self._with(
            X=self._X[rows],
            offsets=self._offsets[start : stop + 1] - self._offsets[start],
            ids=self._ids[start:stop],
            rows=None if self._rows is None else self._rows[rows],
            known=_chosen(self._known, rows),
            weight=_chosen(self._weight, rows),
        )

    def _numbers(self, key: Any) -> Ints:
        everyone = np.arange(len(self))
        if isinstance(key, slice):
            chosen: Ints = everyone[key]
            return chosen
        if isinstance(key, str):
            return everyone[[self._number_of(key)]]
        asked = np.asarray(key)
        if asked.shape == (0,):
            return everyone[:0]
        mask = asked.dtype.kind == "b"
        if asked.ndim > 1 or asked.dtype.kind not in "iub" or (mask and asked.ndim == 0):
            raise IndexError(f"{_HOW_TO_INDEX}; got {key!r}")
        if mask and len(asked) != len(self):
            raise IndexError(f"the mask has {len(asked)} entries, but there are {len(self)} bags")
        if not mask and (asked.max() >= len(self) or asked.min() < -len(self)):
            raise IndexError(f"there are {len(self)} bags, numbered from 0; got {key!r}")
        return np.atleast_1d(everyone[asked])

    def _number_of(self, name: str) -> int:
        if name not in self._ids:
            raise KeyError(f"there is no bag {name!r}; bags.ids begins with {check.shorten(self._ids)}")
        return self._ids.index(name)

    # ------------------------------------------------------------ labels

    def align(self, y: Mapping[Any, Any] | pd.Series | pd.DataFrame) -> NDArray[Any]:
        """Labels keyed by bag id as an array in the order of ``ids``; a missing or extra id is an error."""
        return check.aligned(y, self._ids)

    def with_known(self, z: Any) -> Self:
        """The same bags with individually known instance labels as evidence (0, 1, NaN; in the order of ``X``)."""
        return self._with(known=check.known_labels(z, self.n_instances))

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
        return self._with(
            X=self._X[rows],
            offsets=np.concatenate([[0], np.cumsum(self.totals)]),
            rows=self.rows[rows],
            known=_chosen(self._known, rows),
            weight=None,
        )

    # ------------------------------------------------------------ files

    def save(self, path: PathLike) -> None:
        """Write an ``.npz`` file (plain arrays, whole or not at all)."""
        arrays: dict[str, Any] = {"format": np.array(_FORMAT), "offsets": self._offsets, "rows": self.rows}
        arrays["ids"] = np.array(self._ids, dtype=str)
        if scipy.sparse.issparse(self._X):
            arrays |= {"data": self._X.data, "indices": self._X.indices, "indptr": self._X.indptr}
            arrays["shape"] = np.array(self._X.shape)
        else:
            arrays["X"] = self._X
        if self._feature_names is not None:
            arrays["feature_names"] = np.array(self._feature_names, dtype=str)
        if self._known is not None:
            arrays["known"] = self._known
        if self._weight is not None:
            arrays["weight"] = self._weight
        write_whole(path, lambda stream: np.savez_compressed(stream, **arrays))

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read what ``save`` wrote. Never unpickles."""
        with opened_archive(path, "not a readable file of bags") as archive:
            if str(archive.get("format")) != _FORMAT:
                raise BagDataError(
                    f"{path}: not written by Bags.save; bagwise.datasets.read_npz reads other .npz archives."
                )
            stored = {name: archive[name] for name in _STORED if name in archive}
        bags = object.__new__(cls)
        try:
            bags._set(**_parts(stored))
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


def _chosen(values: Any, rows: Any) -> Any:
    """Some entries of what bags may have for every row."""
    return None if values is None else values[rows]


def _frozen(array: Any) -> Any:
    """A view that cannot be written through (sparse matrices and rows in files are left as they are)."""
    if scipy.sparse.issparse(array) or isinstance(array, StoredRows):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def _leading_key(key: tuple[Any, ...]) -> Any:
    if len(key) != 2 or key[1] is not Ellipsis:
        raise IndexError(_HOW_TO_INDEX)
    return key[0]


def _bag_matrix(array: Any, bag: str) -> tuple[Any, tuple[str, ...] | None]:
    try:
        matrix, names = check.feature_matrix(array)
    except BagDataError as error:
        raise BagDataError(f"bag {bag!r}: {error}") from None
    if matrix.shape[0] == 0:
        raise BagDataError(f"bag {bag!r} is empty; every bag needs at least one instance.")
    return matrix, names


def _as_frame(df: Any) -> pd.DataFrame:
    if not isinstance(df, pd.DataFrame) and not hasattr(df, "to_pandas"):
        raise BagDataError(f"from_frame: expected a pandas frame or an Arrow table, got {type(df).__name__}.")
    frame: pd.DataFrame = df if isinstance(df, pd.DataFrame) else df.to_pandas()
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise BagDataError(f"the table has more than one column {check.shorten(repeated)}; rename or drop one.")
    return frame


def _listed(names: str | Sequence[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def _several(given: Any) -> list[Any]:
    """Names or arrays, one of them or a list."""
    return [] if given is None else list(given) if isinstance(given, list | tuple) else [given]


def _bag_labels(frame: pd.DataFrame, labels: list[str], bags: Bags, *, single: bool) -> Any:
    if not labels:
        return None
    columns = [check.label_of_bags(frame[name].iloc[bags.rows], bags.index, bags.ids) for name in labels]
    return _side_by_side(columns, single=single)


def _side_by_side(columns: list[NDArray[Any]], *, single: bool) -> NDArray[Any]:
    return columns[0] if single else np.stack(columns, axis=1)


# ---------------------------------------------------------------- reading what save wrote


def _parts(stored: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The attributes of the bags in a file, checked as closely as if they were new."""
    names = list(stored["feature_names"]) if "feature_names" in stored else None
    X, feature_names = check.feature_matrix(_stored_matrix(stored), names)
    check.check_not_empty(X)
    ids, offsets, rows = check.texts(stored["ids"], "the id of a bag"), stored["offsets"], stored["rows"]
    check.check_layout(offsets, rows, len(ids), X.shape[0])
    known = check.known_labels(stored.get("known"), X.shape[0])
    weight = row_weights(stored.get("weight"), X.shape[0])
    check_totals(weight, offsets, ids)
    own = {"known": known, "weight": weight, "feature_names": feature_names}
    return {"X": X, "offsets": offsets, "ids": ids, "rows": rows} | own


def _stored_matrix(stored: dict[str, NDArray[Any]]) -> Any:
    if "X" in stored:
        return stored["X"]
    return check.stored_matrix(*(stored[name] for name in ("data", "indices", "indptr", "shape")))
