"""Options that several commands share about parts, groups, metadata and folders; and what they come to together."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bagwise.cli.options import parse_names
from bagwise.io.bag_data import BagData, Layout

PartColumn = Annotated[
    str | None, typer.Option("--part", metavar="COL", help="Column with a part below the bag: the slides of a patient.")
]
GroupColumn = Annotated[
    str | None,
    typer.Option("--group", metavar="COL", help="Column that no split may tear apart: the patient of a slide."),
]
MetaColumns = Annotated[
    str | None,
    typer.Option("--meta", metavar="COL,...", help="Columns that describe instances in results; never learned from."),
]
TableFile = Annotated[
    Path | None,
    typer.Option("--table", metavar="FILE", help="Where DATA is a folder of h5 files: the table with a row per file."),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out files of a folder that cannot be used, and list them at the end.")
]
GivenLabel = Annotated[
    str | None,
    typer.Option(
        "--given-label",
        metavar="COL",
        help="Column with labels of these bags: which instance is it, given the label of its own bag?",
    ),
]


def layout_of(
    part: str | None,
    group: str | None,
    meta: str | None,
    table: Path | None,
    skip_bad: bool,
    remembered: dict[str, Any] | None = None,
) -> Layout:
    """The options, and what the fit found in columns that need not be there again."""
    before = remembered or {}
    asked = {name for name in (part, group, *parse_names(meta)) if name is not None}
    known = {before.get("part"), before.get("group"), *(before.get("meta") or ())} - {None}
    return Layout(
        part or before.get("part"),
        group or before.get("group"),
        tuple(parse_names(meta) or before.get("meta") or ()),
        table,
        skip_bad,
        frozenset(known - asked),
    )


def layout_notes(layout: Layout) -> dict[str, Any]:
    """What the model file remembers of the layout, where there is something to remember."""
    found = {"part": layout.part, "group": layout.group, "meta": list(layout.meta)}
    return {name: value for name, value in found.items() if value}


def say_skipped(found: BagData) -> None:
    """The files of a folder that were left out, one line each, on standard error."""
    for name, why in found.skipped.items():
        typer.echo(f"bagwise: left out {name}: {why}", err=True)
