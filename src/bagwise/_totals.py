"""Rows that stand for many individuals: their weights, checked, and tables of totals as such rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise._validation import shorten
from bagwise.exceptions import BagDataError

Ints = NDArray[np.int64]

LARGEST_TOTAL = 2**40  # whole numbers up to here keep all their digits in everything that is computed with them


def row_weights(weight: Any, n_rows: int) -> Ints | None:
    """One whole number of at least 0 for every row; None where every row stands for one individual."""
    if weight is None:
        return None
    given = np.asarray(weight)
    if given.shape != (n_rows,):
        raise BagDataError(f"weight: expected one whole number per row ({n_rows}), got shape {given.shape}.")
    values = _numbers(given)
    wrong = _not_whole(values)
    if len(wrong):
        row = int(wrong[0])
        raise BagDataError(
            f"weight: row {row} holds {given[row]}; the number of individuals that a row stands for is a whole "
            "number of at least 0."
        )
    return values.astype(np.int64)


def _not_whole(values: NDArray[np.float64]) -> Ints:
    """Places of what is no number of individuals."""
    return np.flatnonzero(~((values >= 0) & (values <= LARGEST_TOTAL) & (values == np.floor(values))))


def _numbers(given: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return np.where(pd.isna(given), np.nan, given).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise BagDataError(f"weight: expected whole numbers ({error}).") from None


def joined_weights(parts: Sequence[Ints | None], lengths: Sequence[int]) -> Ints | None:
    """The weights of several, one after the other; rows without one stand for one individual each."""
    if all(weight is None for weight in parts):
        return None
    pairs = zip(parts, lengths, strict=True)
    return np.concatenate([np.ones(n, dtype=np.int64) if weight is None else weight for weight, n in pairs])


def check_totals(weight: Ints | None, offsets: Ints, ids: Sequence[str]) -> None:
    """Every bag needs at least one individual."""
    if weight is None:
        return
    empty = np.flatnonzero(np.add.reduceat(weight, offsets[:-1]) == 0)
    if len(empty):
        raise BagDataError(
            f"bag {ids[int(empty[0])]!r} is empty: the weights of its rows are all 0. Leave it out, or correct them."
        )


def rows_of_totals(
    frame: pd.DataFrame, bag: str, groups: Sequence[str], features: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[Any]]:
    """Features, bag keys and weights of the rows behind a table of totals: bag after bag, group after group."""
    if len(groups) == 0:
        raise BagDataError("groups: expected the names of the columns with the totals of the groups, at least one.")
    repeated = frame[bag][frame[bag].duplicated()]
    if len(repeated):
        raise BagDataError(
            f"column {bag!r}: {shorten(repeated)} stands in more than one row; a table of totals has one row per bag. "
            "A table with one row per bag and group goes through Bags.from_frame(..., weight=...), or --weight COL."
        )
    if len(frame) == 0:
        raise BagDataError("the table of totals has no rows; it needs one row for every bag.")
    _check_people(frame, bag, groups)
    indicators = np.tile(np.eye(len(groups)), (len(frame), 1))
    covariates = np.repeat(frame[list(features)].to_numpy(dtype=np.float64), len(groups), axis=0)
    keys = np.repeat(frame[bag].to_numpy(), len(groups))
    return np.hstack([indicators, covariates]), keys, frame[list(groups)].to_numpy().ravel()


def _check_people(frame: pd.DataFrame, bag: str, groups: Sequence[str]) -> None:
    """Refuse numbers of people that are none, by the bag and the group that they are of."""
    for group in groups:
        values = pd.to_numeric(frame[group], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        wrong = _not_whole(values)
        if len(wrong):
            row = int(wrong[0])
            raise BagDataError(
                f"column {group!r}: bag {str(frame[bag].iloc[row])!r} holds {frame[group].iloc[row]}; the number of "
                "people of a group is a whole number of at least 0."
            )
