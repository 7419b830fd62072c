"""Results as tables in the terminal."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from bagwise._text import visible

if TYPE_CHECKING:
    import pandas as pd

    from bagwise.report.content import ReportTable

ROWS_PRINTED = 100
_NARROW = ("auc", "average_precision", "log_likelihood", "calibration_error")  # what fits beside the name of a label


def print_measures(found: dict[str, dict[str, Any]]) -> None:
    """The measures of bags and instances."""
    from bagwise.report.content import measure_tables

    for part in measure_tables(found, by_label=_NARROW):
        print_table(part.header, part.rows, part.title)


def print_frame(frame: "pd.DataFrame") -> None:
    """The first rows of a table of bags."""
    rows = frame.head(ROWS_PRINTED).itertuples(index=False)
    texts = ([f"{entry:.4f}" if isinstance(entry, float) else str(entry) for entry in row] for row in rows)
    print_table([str(name).replace("_", " ") for name in frame.columns], texts)  # so that long ones can be broken
    if len(frame) > ROWS_PRINTED:
        typer.echo(f"and {len(frame) - ROWS_PRINTED} more; --bags OUT.csv writes them all.")


def print_rows(table: "ReportTable") -> None:
    """The first rows of a table that has its texts already."""
    print_table(table.header, table.rows[:ROWS_PRINTED], table.title)
    if len(table.rows) > ROWS_PRINTED:
        typer.echo(f"and {len(table.rows) - ROWS_PRINTED} more rows; --output OUT.csv writes them all.")


def print_table(header: Iterable[str], rows: Iterable[Iterable[str]], title: str | None = None) -> None:
    """Text as it is written: a bag may well be called "[red]". What would steer the terminal is shown escaped."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    table = Table(*(escape(visible(name)) for name in header), title=title, title_justify="left", title_style="bold")
    for row in rows:
        table.add_row(*(Text(visible(entry)) for entry in row))
    Console().print(table)
