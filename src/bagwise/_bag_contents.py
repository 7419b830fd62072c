"""What bags hold, which of them an index chooses, and the same bags with something else in them."""

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from bagwise import _columns as columns
from bagwise import _validation as check
from bagwise._frames import PANDAS
from bagwise._indexing import chosen_bags, leading_key
from bagwise._matrices import feature_matrix
from bagwise._totals import check_totals, row_weights
from bagwise.exceptions import BagDataError
from bagwise.sources.rows import StoredRows, ragged_ranges

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SHOWN = 8  # bags in a notebook
_KEEPS_NONE = "the selection is empty: it keeps no bag."


class BagContents:
    """Rows, offsets, ids and what stands beside them; all of it is immutable. ``Bags`` adds the ways in and out."""

    @classmethod
    def _of(cls, **contents: Any) -> Self:
        """Bags of contents that have been checked."""
        new = object.__new__(cls)
        new._set(**contents)
        return new

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
        return self._of(**(self._contents() | changes))

    def _beside(self, rows: Any) -> dict[str, Any]:
        """Everything beside the features that has one entry per instance, of some rows."""
        each = {"rows": self._rows, "known": self._known, "part": self._part, "weight": self._weight}
        chosen = {name: None if values is None else values[rows] for name, values in each.items()}
        return chosen | {"meta": None if self._meta is None else self._meta.take(rows)}

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
        described = part + ([] if self._meta is None else [self._meta.describe(instance)])
        return ", ".join(described) or f"row {self._row(instance)}"

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

    def of_kind(self, kind: str) -> Self:
        """The same bags, of which tables of results are frames of another kind, such as "polars"."""
        return self._with(kind=kind)

    def with_weight(self, weight: Any) -> Self:
        """The same bags with the number of individuals that each row stands for (in the order of ``X``), or None."""
        weights = row_weights(weight, self.n_instances)
        check_totals(weights, self._offsets, self._ids)
        return self._with(weight=weights)

    def with_features(self, X: Any, feature_names: Sequence[str] | None = None) -> Self:
        """The same bags with other features, row by row."""
        matrix, names = feature_matrix(X, feature_names)
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


def _frozen(array: Any) -> Any:
    """A view that cannot be written through (sparse matrices and rows in files are left as they are)."""
    if scipy.sparse.issparse(array) or isinstance(array, StoredRows):
        return array
    view = array.view()
    view.flags.writeable = False
    return view
