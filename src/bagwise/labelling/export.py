"""The answers as a table that ``bagwise fit`` reads: the user's own, with the labels filled in."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from bagwise.labelling.pool import Floats, Pool
from bagwise.labelling.question import ONE_OF, TWO

KNOWN = "known"


def labelled_table(
    pool: Pool, values: Floats, frame: pd.DataFrame | None, bag: str | None, labels: Sequence[str], known: str | None
) -> pd.DataFrame:
    """One row per instance, with what is known now in the columns ``labels`` (or ``known``, where instances are).

    Without a ``frame`` (an archive) the features are written as columns. Labels are the model's own class values.
    """
    table = _feature_table(pool, bag or "bag", labels) if frame is None else frame.copy()
    place = np.empty(pool.bags.n_instances, dtype=np.int64)
    place[pool.bags.rows] = np.arange(pool.bags.n_instances)  # where every row of the table stands in bags.X
    if pool.what == "instances":
        table[known or KNOWN] = _whole(values[place, 0])
        return table
    of_rows = values[pool.bags.index[place]]
    for name, column in _columns(pool, of_rows, labels).items():
        table[name] = column
    return table


def labelled_files(
    pool: Pool, values: Floats, files: pd.DataFrame | None, bag: str | None, labels: Sequence[str]
) -> pd.DataFrame:
    """The table that belongs to a folder of files, one row each, with what is known of their bags now.

    Without ``files`` every bag is a file. Rows of bags that are not in the pool keep what they state.
    """
    key = bag or "bag"
    table = pd.DataFrame({key: list(pool.bags.ids)}) if files is None else files.copy()
    number = pd.Series(np.arange(len(pool.bags)), index=list(pool.bags.ids)).reindex(table[key])
    there = number.notna().to_numpy()
    for name, column in _columns(pool, values[number[there].astype(int)], labels).items():
        filled = table[name].to_numpy(dtype=object).copy() if name in table else np.full(len(table), None, dtype=object)
        filled[there] = np.asarray(column, dtype=object)
        table[name] = filled
    return table


def described_rows(pool: Pool, bag: str | None) -> pd.DataFrame:
    """What is to be seen of instances that have no table: their bag, part and metadata, in the order of the files."""
    bags = pool.bags
    part = {} if bags.part is None else {"part": bags.part}
    table = pd.DataFrame({bag or "bag": np.array(bags.ids, dtype=object)[bags.index]} | part)
    whole = table if bags.meta is None else pd.concat([table, bags.meta], axis=1)
    return whole.iloc[np.argsort(bags.rows, kind="stable")].reset_index(drop=True)


def _columns(pool: Pool, of_rows: Floats, labels: Sequence[str]) -> dict[str, Any]:
    if pool.question.kind == TWO:
        column = np.full(len(of_rows), None, dtype=object)
        there = ~np.isnan(of_rows[:, 0])
        column[there] = np.asarray(pool.classes)[of_rows[there, 0].astype(int)].tolist()
        return {labels[0] if labels else "label": column}
    names = pool.question.options if pool.question.kind == ONE_OF else labels
    return {name: _whole(of_rows[:, number]) for number, name in enumerate(names)}


def _whole(values: Floats) -> Any:
    """0, 1 and nothing, as whole numbers."""
    return pd.Series(values).astype("Int8")


def _feature_table(pool: Pool, bag: str, labels: Sequence[str]) -> pd.DataFrame:
    """The bags of an archive as a table: features, the bag and, where instances are labelled, what the bags state."""
    rows = pool.bags.X.toarray() if scipy.sparse.issparse(pool.bags.X) else np.asarray(pool.bags.X)
    names = pool.bags.feature_names or [f"x{number}" for number in range(pool.bags.n_features)]
    table = pd.DataFrame(rows, columns=list(names))
    table.insert(0, bag, np.array(pool.bags.ids, dtype=object)[pool.bags.index])
    if pool.what == "instances" and pool.y is not None:
        stated = np.asarray(pool.y).reshape(len(pool.bags), -1)[pool.bags.index]
        table[list(labels)] = stated
    order = np.argsort(pool.bags.rows, kind="stable")
    return table.iloc[order].reset_index(drop=True)
