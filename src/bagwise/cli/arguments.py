"""Arguments and options that several commands have in common."""

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="CSV, Parquet or Arrow table with one row per instance, .npz archive, or folder of h5 files (--table).",
    ),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file written by `bagwise fit`.")]
BagColumn = Annotated[str | None, typer.Option("--bag", metavar="COL", help="Column with the key of the bag.")]
LabelColumns = Annotated[
    str | None, typer.Option("--label", metavar="COL[,COL]", help="Column(s) with the bag's label.")
]
FractionColumn = Annotated[
    str | None,
    typer.Option(
        "--fraction",
        metavar="COL[,COL]",
        help="Column with the fraction of positives in the bag, 0 to 1; or several with the shares of outcomes.",
    ),
]
CountColumns = Annotated[
    str | None,
    typer.Option(
        "--count",
        metavar="COL or LO,HI",
        help="Column with the number of positives, two with the lowest and the highest number, or more with the "
        "numbers of outcomes.",
    ),
]
CandidateColumns = Annotated[
    str | None,
    typer.Option(
        "--candidates",
        metavar="COL,COL,...",
        help="Columns of 0/1, one per class that the bag may have; in an .npz archive one array of shape (B, classes).",
    ),
]
Raw = Annotated[
    bool,
    typer.Option(
        "--raw", help="Keep text in CSV files as it is, even where a spreadsheet would take it for a formula."
    ),
]
InstanceColumns = Annotated[
    str | None,
    typer.Option("--instance-label", metavar="COL[,COL]", help="Column(s) with instance labels, for evaluation only."),
]
KnownColumn = Annotated[
    str | None,
    typer.Option(
        "--known", metavar="COL", help="Column with instances known one by one: 0, 1 or empty. They are learned from."
    ),
]
FeatureColumns = Annotated[
    str | None,
    typer.Option("--features", metavar="COL,...", help="Feature columns; without it every column not named otherwise."),
]
IgnoredColumns = Annotated[
    str | None, typer.Option("--ignore", metavar="COL,...", help="Columns that are no features.")
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory for rows and features, e.g. 4GB. A Parquet table that needs more stays in its file, and features "
        "go to a temporary file. Without it, a quarter of the memory of this machine.",
    ),
]
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
PartLabel = Annotated[
    str | None,
    typer.Option(
        "--part-label", metavar="COL", help="Column with labels of parts, 0, 1 or empty, beside those of the bags."
    ),
]
WeightColumn = Annotated[
    str | None,
    typer.Option("--weight", metavar="COL", help="Column with the number of individuals that a row stands for."),
]
TotalColumns = Annotated[
    str | None,
    typer.Option(
        "--totals",
        metavar="COL,COL,...",
        help="Columns with the number of people of every group, where DATA has one row per bag. Of the other columns "
        "only --features are learned from.",
    ),
]
BagWeightColumn = Annotated[
    str | None,
    typer.Option(
        "--bag-weight",
        metavar="COL",
        help="Column with the weight of the bag, the same on all its rows: 2 counts as if the bag were there twice.",
    ),
]
