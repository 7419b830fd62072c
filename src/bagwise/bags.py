"""Bags of instances: flat rows, offsets, string ids."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from bagwise import _validation as check
from bagwise._files import PathLike, write_whole
from bagwise.exceptions import BagDataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_FORMAT = "bagwise-bags-1"


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
    """

    def __init__(self, X: Any, groups: Any, *, feature_names: Sequence[str] | None = None, known: Any = None) -> None:
        matrix, names = check.feature_matrix(X, feature_names)
        if matrix.shape[0] == 0:
            raise BagDataError("there are no instances: X has 0 rows (0 sample(s)), while a minimum of 1 is required.")
        codes, ids = check.group_codes(groups, matrix.shape[0])
        labels = check.known_labels(known, matrix.shape[0])
        rows = np.arange(matrix.shape[0])
        if (np.diff(codes) < 0).any():
            rows = np.argsort(codes, kind="stable")
            matrix, labels = matrix[rows], None if labels is None else labels[rows]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(ids)))])
        self._set(matrix, offsets, ids, rows, names, labels)

    def _set(
        self,
        X: Any,
        offsets: Ints,
        ids: tuple[str, ...],
        rows: Ints,
        feature_names: tuple[str, ...] | None,
        known: Floats | None,
    ) -> None:
        self._X = _frozen(X)
        self._offsets = _frozen(offsets.astype(np.int64))
        self._ids = ids
        self._rows = _frozen(rows)
        self._feature_names = feature_names
        self._known = None if known is None else _frozen(known)

    def _with(self, **changes: Any) -> Self:
        """The same bags with some parts replaced."""
        parts = {
            "X": self._X,
            "offsets": self._offsets,
            "ids": self._ids,
            "rows": self._rows,
            "feature_names": self._feature_names,
            "known": self._known,
        }
        new = object.__new__(type(self))
        new._set(**(parts | changes))
        return new

    # ------------------------------------------------------------ other ways in

    @classmethod
    def from_list(cls, arrays: Iterable[Any], ids: Iterable[Any] | None = None) -> Self:
        """One 2-D array per bag; ``ids`` default to "0", "1", …"""
        matrices, names = _bag_matrices(list(arrays))
        bag_ids = [str(number) for number in range(len(matrices))] if ids is None else list(check.unique_ids(ids))
        if len(bag_ids) != len(matrices):
            raise BagDataError(f"ids: expected one id per bag ({len(matrices)}), got {len(bag_ids)}.")
        sizes = [matrix.shape[0] for matrix in matrices]
        if 0 in sizes:
            raise BagDataError(f"bag {bag_ids[sizes.index(0)]!r} is empty; every bag needs at least one instance.")
        widths = [matrix.shape[1] for matrix in matrices]
        for bag, width in zip(bag_ids, widths, strict=True):
            if width != widths[0]:
                raise BagDataError(
                    f"bag {bag!r} has {width} features, bag {bag_ids[0]!r} has {widths[0]}; "
                    "every bag needs the same columns."
                )
        stack = scipy.sparse.vstack if scipy.sparse.issparse(matrices[0]) else np.concatenate
        return cls(stack(matrices), np.repeat(np.array(bag_ids, dtype=object), sizes), feature_names=names)

    @classmethod
    def from_frame(
        cls,
        df: Any,
        bag: str,
        *,
        features: Sequence[str] | None = None,
        label: str | Sequence[str] | None = None,
        instance_label: str | None = None,
        ignore: Sequence[str] = (),
    ) -> Any:
        """Bags from a long table with one row per instance.

        Returns the bags alone, ``(bags, y)`` when ``label`` is named (several labels give y one column each), and
        ``(bags, y, instance_y)`` when ``instance_label`` is named too (y is None without ``label``). ``features=None``
        takes every column that is not named otherwise; one of them that is not numeric is an error.
        """
        frame = df if isinstance(df, pd.DataFrame) else df.to_pandas()
        labels = [label] if isinstance(label, str) else list(label or ())
        named = [bag, *labels, *([instance_label] if instance_label else []), *ignore]
        columns = list(features) if features is not None else [name for name in frame.columns if name not in named]
        _check_columns(frame, [*named, *columns])
        bags = cls(frame[columns], frame[bag].to_numpy())
        if not labels and instance_label is None:
            return bags
        y = _bag_labels(frame, labels, bags, single=isinstance(label, str))
        if instance_label is None:
            return bags, y
        return bags, y, frame[instance_label].to_numpy()[bags.rows]

    # ------------------------------------------------------------ what there is

    X = property(lambda self: self._X, doc="(N, D) features, the instances of a bag together.")
    offsets = property(lambda self: self._offsets, doc="(B + 1,) where each bag begins; the last entry is N.")
    ids = property(lambda self: self._ids, doc="The bags' ids as strings, in order of first appearance.")
    rows = property(lambda self: self._rows, doc="(N,) position of each row of X in the original table.")
    feature_names = property(lambda self: self._feature_names, doc="Column names, or None.")
    known = property(lambda self: self._known, doc="(N,) known instance labels (evidence), NaN unknown; or None.")

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
        if isinstance(key, tuple):  # bags[indices, ...], as scikit-learn asks
            key = _leading_key(key)
        if isinstance(key, slice) and key.step in (None, 1):
            return self._stretch(*key.indices(len(self))[:2])
        numbers = self._numbers(key)
        if len(numbers) == 0:
            raise BagDataError("the selection is empty: it keeps no bag.")
        sizes = self.sizes[numbers]
        rows = ragged_ranges(self._offsets[numbers], sizes)
        return self._with(
            X=self._X[rows],
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            ids=tuple(self._ids[number] for number in numbers),
            rows=self._rows[rows],
            known=None if self._known is None else self._known[rows],
        )

    def _stretch(self, start: int, stop: int) -> Self:
        """Neighbouring bags, without copying dense rows."""
        if stop <= start:
            raise BagDataError("the selection is empty: it keeps no bag.")
        rows = slice(self._offsets[start], self._offsets[stop])
        return self._with(
            X=self._X[rows],
            offsets=self._offsets[start : stop + 1] - self._offsets[start],
            ids=self._ids[start:stop],
            rows=self._rows[rows],
            known=None if self._known is None else self._known[rows],
        )

    def _numbers(self, key: Any) -> Ints:
        if isinstance(key, str):
            if key not in self._ids:
                raise KeyError(f"there is no bag {key!r}; bags.ids begins with {check.shorten(self._ids)}")
            key = self._ids.index(key)
        everyone = np.arange(len(self))
        if np.ndim(key) == 0 and not isinstance(key, slice):
            return everyone[[int(key)]]
        chosen = key if isinstance(key, slice) else np.asarray(key)
        if not isinstance(chosen, slice) and chosen.size == 0:
            return everyone[:0]
        return everyone[chosen]

    # ------------------------------------------------------------ labels

    def align(self, y: Mapping[Any, Any] | pd.Series | pd.DataFrame) -> NDArray[Any]:
        """Labels keyed by bag id as an array in the order of ``ids``; a missing or extra id is an error."""
        return check.aligned(y, self._ids)

    def with_known(self, z: Any) -> Self:
        """The same bags with individually known instance labels as evidence (0, 1, NaN; in the order of ``X``)."""
        return self._with(known=check.known_labels(z, self.n_instances))

    def with_features(self, X: Any, feature_names: Sequence[str] | None = None) -> Self:
        """The same bags with other features, row by row."""
        matrix, names = check.feature_matrix(X, feature_names)
        if matrix.shape[0] != self.n_instances:
            raise BagDataError(f"expected one row per instance ({self.n_instances}), got {matrix.shape[0]}.")
        return self._with(X=matrix, feature_names=names)

    # ------------------------------------------------------------ files

    def save(self, path: PathLike) -> None:
        """Write an ``.npz`` file (plain arrays, whole or not at all)."""
        arrays: dict[str, Any] = {"format": np.array(_FORMAT), "offsets": self._offsets, "rows": self._rows}
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
        write_whole(path, lambda stream: np.savez_compressed(stream, **arrays))

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read what ``save`` wrote. Never unpickles."""
        try:
            with np.load(path, allow_pickle=False) as archive:
                parts = {name: archive[name] for name in archive.files}
        except FileNotFoundError:
            raise
        except Exception as error:
            raise BagDataError(f"{path}: not a readable file of bags ({error}).") from error
        if str(parts.get("format")) != _FORMAT:
            raise BagDataError(
                f"{path}: not written by Bags.save; bagwise.datasets.read_npz reads other .npz archives."
            )
        ids = tuple(str(name) for name in parts["ids"])
        X = (
            parts["X"]
            if "X" in parts
            else scipy.sparse.csr_matrix(
                (parts["data"], parts["indices"], parts["indptr"]), shape=tuple(parts["shape"])
            )
        )
        bags = cls(X, np.repeat(np.arange(len(ids)), np.diff(parts["offsets"])), known=parts.get("known"))
        names = parts.get("feature_names")
        return bags._with(ids=ids, rows=parts["rows"], feature_names=None if names is None else tuple(map(str, names)))


def ragged_ranges(starts: Ints, sizes: Ints) -> Ints:
    """``concatenate([arange(a, a + n) for a, n in zip(starts, sizes)])`` without the loop."""
    before = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def as_bags(X: Any) -> Bags:
    """Bags as they are, a list of 2-D arrays as bags, a plain 2-D array as bags of one."""
    if isinstance(X, Bags):
        return X
    if isinstance(X, list | tuple) and len(X) == 0:
        raise BagDataError("there are no bags: the list is empty (0 sample(s)), while a minimum of 1 is required.")
    if isinstance(X, list | tuple) and any(np.ndim(item) == 2 or scipy.sparse.issparse(item) for item in X):
        return Bags.from_list(X)
    matrix, names = check.feature_matrix(X)
    n_rows, n_columns = matrix.shape
    if n_rows == 0 or n_columns == 0:
        what = "sample(s)" if n_rows == 0 else "feature(s)"
        raise BagDataError(f"Found array with 0 {what} (shape={matrix.shape}) while a minimum of 1 is required.")
    bags = Bags(matrix, np.arange(n_rows))
    return bags._with(feature_names=names)


def _frozen(array: Any) -> Any:
    """A view that cannot be written through (sparse matrices are left as they are)."""
    if scipy.sparse.issparse(array):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def _leading_key(key: tuple[Any, ...]) -> Any:
    if len(key) != 2 or key[1] is not Ellipsis:
        raise IndexError("bags are indexed by bag only: bags[3], bags[[0, 5]], bags[mask], bags[2:9]")
    return key[0]


def _bag_matrices(arrays: list[Any]) -> tuple[list[Any], tuple[str, ...] | None]:
    if not arrays:
        raise BagDataError("there are no bags: the list is empty (0 sample(s)), while a minimum of 1 is required.")
    checked = [check.feature_matrix(array) for array in arrays]
    return [matrix for matrix, _ in checked], checked[0][1]


def _check_columns(frame: pd.DataFrame, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise BagDataError(
            f"there is no column {check.shorten(missing)}; the table has {check.shorten(frame.columns, 12)}."
        )


def _bag_labels(frame: pd.DataFrame, labels: list[str], bags: Bags, *, single: bool) -> Any:
    if not labels:
        return None
    columns = [check.label_of_bags(frame[name].iloc[bags.rows], bags.index, bags.ids) for name in labels]
    return columns[0] if single else np.stack(columns, axis=1)
