"""``bagwise fit``: from a table to a model file."""

import inspect
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from bagwise.cli.arguments import (
    BagColumn,
    BagWeightColumn,
    CandidateColumns,
    CountColumns,
    Data,
    FeatureColumns,
    FractionColumn,
    GroupColumn,
    IgnoredColumns,
    KnownColumn,
    LabelColumns,
    Memory,
    MetaColumns,
    PartColumn,
    PartLabel,
    SkipBad,
    TableFile,
    TotalColumns,
    WeightColumn,
)
from bagwise.cli.messages import say_fitted, say_skipped
from bagwise.cli.options import check_outputs, parse_names, parse_settings
from bagwise.cli.stated import StatedColumns, chosen, names_of
from bagwise.exceptions import BagDataError
from bagwise.io.headers import refuse_mistyped

ModelToWrite = Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="Model file to write.")]
ModelName = Annotated[str, typer.Option("--model", metavar="NAME", help="One of `bagwise models`.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Setting of the model; may be repeated. VALUE is a number, several numbers between commas, true, "
        "false, none, or a word.",
    ),
]
Cache = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for features that do not fit into memory.")]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Scheduler of a Dask cluster whose workers do the work, see docs/scale.md."),
]


def fit(
    data: Data,
    output: ModelToWrite,
    model: ModelName = "bag-gp",
    bag: BagColumn = None,
    label: LabelColumns = None,
    fraction: FractionColumn = None,
    count: CountColumns = None,
    candidates: CandidateColumns = None,
    known: KnownColumn = None,
    weight: WeightColumn = None,
    totals: TotalColumns = None,
    bag_weight: BagWeightColumn = None,
    features: FeatureColumns = None,
    ignore: IgnoredColumns = None,
    part: PartColumn = None,
    part_label: PartLabel = None,
    group: GroupColumn = None,
    meta: MetaColumns = None,
    table: TableFile = None,
    skip_bad: SkipBad = False,
    settings: Settings = None,
    memory: Memory = None,
    cache: Cache = None,
    cluster: Cluster = None,
) -> None:
    """Fit a model to what is known of bags (--label, --fraction, --count, --candidates) and write it to a file."""
    named = chosen(label, fraction, count, candidates)
    names, unused = parse_names(features), parse_names(ignore)
    described = (weight, bag_weight, part, part_label, group, *parse_names(meta), *parse_names(totals))
    refuse_mistyped(data, (bag, known, *names_of(named), *names, *unused, *described))
    _check_model(model)
    from bagwise.cli import evidence as cli_evidence
    from bagwise.cli.layout import at_two_levels, layout_notes, layout_of, with_columns_of_bags, without_bag_weight
    from bagwise.scale import on_address, within

    stated = named or cli_evidence.usual(model)
    estimator = _estimator(model, stated, known, settings or [])
    check_outputs({"--output": output, "--set checkpoint": _checkpoint(estimator)}, (data,))
    layout = layout_of(part, group, meta, table, skip_bad, totals=totals)
    wanted = with_columns_of_bags(layout, part_label, bag_weight)
    with within(memory=memory, cache=cache) if cluster is None else on_address(cluster, memory=memory):
        read = cli_evidence.read_for_fit(data, bag, stated, known, names, unused, weight=weight, layout=wanted)
        weighed = without_bag_weight(read, bag_weight)
        found = at_two_levels(weighed.data, part_label)
        started = time.perf_counter()
        estimator.fit(found.bags, found.y, sample_weight=weighed.weight)
    notes = cli_evidence.columns(data, bag, stated, known, found, weight)
    estimator.save(output, notes=notes | layout_notes(layout))
    say_fitted(estimator, found.bags, time.perf_counter() - started, output)
    say_skipped(found.skipped)


def _check_model(name: str) -> None:
    from bagwise.models import cards

    known = cards()
    if name not in known:
        raise BagDataError(f"--model {name}: there is no such model; there are {', '.join(known)}.")


def _estimator(name: str, stated: StatedColumns, known: str | None, settings: Sequence[str]) -> Any:
    """The model of that name with the settings of the command, and a progress bar if it has one."""
    from bagwise.cli.evidence import with_evidence
    from bagwise.models import discover_estimators

    kind = discover_estimators()[name]
    progress = {"verbose": 1} if "verbose" in inspect.signature(kind).parameters else {}
    return kind(**with_evidence(name, stated, known, progress | parse_settings(settings, kind)))


def _checkpoint(estimator: Any) -> str | None:
    """The file that chains are written to; what is no name of a file, fit refuses."""
    checkpoint = estimator.get_params(deep=False).get("checkpoint")
    return checkpoint if isinstance(checkpoint, str) else None
