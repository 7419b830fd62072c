"""Frames of any kind at the boundary: pandas inside, and back to the kind that came in."""

from typing import Any, cast

import narwhals as nw
import pandas as pd

from bagwise._validation import shorten
from bagwise.exceptions import BagDataError

PANDAS = "pandas"
_OTHER_NAMES = {"modin": PANDAS, "cudf": PANDAS, "dask": PANDAS}  # kinds that results are not brought back to


def as_pandas(df: Any) -> tuple[pd.DataFrame, str]:
    """A frame as pandas has it, and what kind it was: a pandas frame as it is, Polars, Arrow, a DuckDB relation …"""
    if isinstance(df, pd.DataFrame):
        return _with_single_columns(df), PANDAS
    try:
        given = nw.from_native(df)
    except TypeError:
        raise BagDataError(
            f"from_frame: expected a pandas frame or an Arrow table, got {type(df).__name__}. Polars frames and DuckDB "
            "relations are taken as well."
        ) from None
    kind = given.implementation.value
    whole = given.collect("pandas" if kind == "dask" else "pyarrow") if isinstance(given, nw.LazyFrame) else given
    return _with_single_columns(whole.to_pandas()), _OTHER_NAMES.get(kind, kind)


def as_kind(frame: pd.DataFrame, kind: str) -> Any:
    """A table of results as a frame of the kind that the bags came from."""
    if kind == PANDAS:
        return frame
    table = nw.from_native(frame, eager_only=True).to_arrow()
    if kind == "pyarrow":
        return table
    arrow = nw.from_native(table, eager_only=True)
    return (arrow.lazy("duckdb") if kind == "duckdb" else nw.from_arrow(arrow, backend=cast(Any, kind))).to_native()


def _with_single_columns(frame: pd.DataFrame) -> pd.DataFrame:
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise BagDataError(f"the table has more than one column {shorten(repeated)}; rename or drop one.")
    return frame
