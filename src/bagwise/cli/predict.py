"""``bagwise predict``: tables of instances, parts and bags with their probabilities."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bagwise.cli.arguments import (
    BagColumn,
    Data,
    GivenLabel,
    Memory,
    MetaColumns,
    ModelFile,
    PartColumn,
    Raw,
    SkipBad,
    TableFile,
)
from bagwise.cli.messages import say_skipped, say_written
from bagwise.cli.options import check_outputs, parse_names
from bagwise.io.headers import refuse_mistyped
from bagwise.report.terminal import print_frame

if TYPE_CHECKING:
    from bagwise.bags import Bags


def predict(
    model: ModelFile,
    data: Data,
    instances: Annotated[Path | None, typer.Option(metavar="OUT", help="Table to write, one row per instance.")] = None,
    bags: Annotated[Path | None, typer.Option(metavar="OUT", help="Table to write, one row per bag.")] = None,
    parts: Annotated[Path | None, typer.Option(metavar="OUT", help="Table to write, one row per part.")] = None,
    bag: BagColumn = None,
    part: PartColumn = None,
    meta: MetaColumns = None,
    table: TableFile = None,
    skip_bad: SkipBad = False,
    given_label: GivenLabel = None,
    raw: Raw = False,
    memory: Memory = None,
) -> None:
    """Predict every instance, part and bag. Without --instances, --parts or --bags the bags are printed."""
    refuse_mistyped(data, (bag, part, given_label, *parse_names(meta)))
    from bagwise.cli.evidence import fitted_features, open_model
    from bagwise.cli.layout import layout_of
    from bagwise.io.bag_data import read_bags
    from bagwise.io.predictions import bag_table, part_table
    from bagwise.io.tables import suffix_to_write, write_table
    from bagwise.scale import within

    asked = {"instances": instances, "parts": parts, "bags": bags}
    for wanted in filter(None, asked.values()):
        suffix_to_write(wanted)
    check_outputs({f"--{what}": path for what, path in asked.items()}, (model, data))
    saved = open_model(model)
    estimator = saved.estimator
    with within(memory=memory):
        known = read_bags(
            data,
            bag=bag or saved.columns.get("bag"),
            labels=parse_names(given_label),
            weight=saved.columns.get("weight"),
            features=fitted_features(estimator),
            layout=layout_of(part, None, meta, table, skip_bad, saved.columns),
        )
    how: dict[str, Any] = {"labels": saved.label_names(), "given": None if given_label is None else known.y}
    if instances is not None:
        _write_instances(estimator, known.bags, how, instances, raw)
        say_written("instances", instances)
    for what, path, make in (("parts", parts, part_table), ("bags", bags, bag_table)):
        if path is not None:
            write_table(make(estimator, known.bags, **how), path, raw=raw)
            say_written(what, path)
    if not any(asked.values()):
        print_frame(bag_table(estimator, known.bags, **how))
    say_skipped(known.skipped)


def _write_instances(estimator: Any, bags: "Bags", how: dict[str, Any], path: Path, raw: bool) -> None:
    """Rows that stay in their file are answered for part by part."""
    from bagwise.io.predictions import instance_table
    from bagwise.io.streamed import instance_tables, write_parts
    from bagwise.io.tables import write_table

    if bags.stays_in_file:
        write_parts(instance_tables(estimator, bags, **how), path, raw=raw)
    else:
        write_table(instance_table(estimator, bags, **how), path, raw=raw)
