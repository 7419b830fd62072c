"""Bags of instances: flat rows, offsets, string ids."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from bagwise import _columns as columns
from bagwise import _validation as check
from bagwise._archives import opened_archive
from bagwise._bag_arrays import bag_parts, is_stored, plain_arrays
from bagwise._bag_contents import BagContents
from bagwise._files import PathLike, write_whole
from bagwise._frames import as_pandas
from bagwise._joined_bags import NO_BAGS, bags_of_list, joined_bags
from bagwise._long_tables import NamedColumns, bags_of_frame, labelled_bags, listed_names
from bagwise._matrices import check_not_empty, feature_matrix
from bagwise._opened_bags import bags_of_source, opened_bags
from bagwise._totals import check_totals, row_weights, rows_of_totals
from bagwise.exceptions import BagDataError
from bagwise.sources.rows import RowSource, StoredRows
from bagwise.sources.rows import ragged_ranges as ragged_ranges

_FORMAT = "bagwise-bags-1"


class Bags(BagContents):
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
        matrix, names = feature_matrix(X, feature_names)
        check_not_empty(matrix)
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

    # ------------------------------------------------------------ other ways in

    @classmethod
    def from_list(cls, arrays: Iterable[Any], ids: Iterable[Any] | None = None) -> Self:
        """One 2-D array per bag; ``ids`` default to "0", "1", …"""
        bags: Self = bags_of_list(cls, arrays, ids)
        return bags

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
        return bags_of_frame(
            cls,
            df,
            NamedColumns(bag, label, instance_label, part, group, listed_names(meta), weight),
            features=None if features is None else listed_names(features),
            ignore=listed_names(ignore),
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
        from bagwise.io.folder import FolderTable, labelled_folder

        named = FolderTable(bag, part, group, file, tuple(listed_names(label)), tuple(listed_names(meta)))
        bags, y = labelled_folder(folder, table, named, skip_bad=skip_bad)
        return bags if label is None else (bags, y[:, 0] if isinstance(label, str) else y)

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
        named = NamedColumns(bag, label, instance_label, part, group, [*listed_names(meta), "cell"])
        return labelled_bags(cls, X, names, adata.obs.assign(cell=adata.obs_names.to_numpy()), named)

    @classmethod
    def concat(cls, parts: Iterable["Bags"]) -> Self:
        """The bags of several, one after the other; ``rows`` count on. Ids must differ, columns must be the same."""
        bags: Self = joined_bags(cls, parts)
        return bags

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
        named = NamedColumns(bag, label, instance_label, part, group, listed_names(meta))
        chosen = None if features is None else listed_names(features)
        return opened_bags(cls, path, named, features=chosen, known=known, ignore=listed_names(ignore))

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
        names = None if feature_names is None else check.texts(feature_names, "the name of a feature")
        bags: Self = bags_of_source(cls, source, sizes, ids, names, known=known, part=part, meta=meta)
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
        are one column of 0 and 1 for each group and the columns ``features`` of the bag. ``bags.meta`` names the group
        of every row and its people. Returns the bags alone, or ``(bags, y)`` when ``label`` is named: the columns of
        what the bags state (shares, counts).
        """
        frame, kind = as_pandas(table)
        labels, covariates, totals = listed_names(label), listed_names(features), listed_names(groups)
        check.check_named_columns(frame, [bag, *labels], [*totals, *covariates])
        X, keys, weight = rows_of_totals(frame, bag, totals, covariates)
        described = {"group": np.tile(totals, len(frame)), "people": weight}
        bags = cls(X, keys, feature_names=[*totals, *covariates], weight=weight, meta=described)._with(kind=kind)
        if not labels:
            return bags
        stated = frame[labels].to_numpy()
        return bags, stated[:, 0] if isinstance(label, str) else stated

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
        try:
            return cls._of(**bag_parts(stored))
        except Exception as error:
            raise BagDataError(f"{path}: the file of bags is damaged ({error}).") from error


def as_bags(X: Any) -> Bags:
    """Bags as they are, a list of 2-D arrays as bags, a plain 2-D array as bags of one."""
    if isinstance(X, Bags):
        return X
    if isinstance(X, list | tuple) and len(X) == 0:
        raise BagDataError(NO_BAGS)
    if isinstance(X, list | tuple) and any(map(_is_table, X)):
        return Bags.from_list(X)
    matrix, names = feature_matrix(X)
    return Bags(matrix, np.arange(matrix.shape[0]), feature_names=names)


def _is_table(item: Any) -> bool:
    if isinstance(item, list | tuple):
        return len(item) > 0 and isinstance(item[0], list | tuple | np.ndarray)
    return len(getattr(item, "shape", ())) == 2
