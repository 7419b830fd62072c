"""``bagwise rates``: rates of groups from totals."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli.arguments import BagColumn, CountColumns, Data, FractionColumn, ModelFile, Raw
from bagwise.cli.messages import say_written
from bagwise.cli.options import check_outputs, parse_names
from bagwise.cli.stated import NAME_THEM, chosen, names_of
from bagwise.exceptions import BagDataError
from bagwise.io.headers import refuse_mistyped


def rates(
    model: ModelFile,
    data: Data,
    bag: BagColumn = None,
    fraction: FractionColumn = None,
    count: CountColumns = None,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups",
            metavar="COL,COL,...",
            help="Columns of 0 and 1 that say which group a row belongs to, where the fit had no --totals.",
        ),
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="The rates of every single bag, not of all together.")] = False,
    level: Annotated[float, typer.Option(help="What a range is to cover.")] = 0.9,
    check: Annotated[
        bool,
        typer.Option(
            help="Fit a second time, with the composition of the bags as a feature, and say whether the rates change."
        ),
    ] = True,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT", help="Table to write: CSV, Parquet or Arrow.")
    ] = None,
    raw: Raw = False,
) -> None:
    """Tell the rates of groups in the bags of a fit to totals, with ranges, bounds and Goodman's regression."""
    stated = chosen(None, fraction, count)
    refuse_mistyped(data, (bag, *names_of(stated), *parse_names(groups)))
    from bagwise.aggregates import group_table
    from bagwise.cli.evidence import fitted, open_model, read_for
    from bagwise.cli.layout import layout_of
    from bagwise.io.tables import write_table
    from bagwise.report.rates import checked, rates_table
    from bagwise.report.terminal import print_rows

    check_outputs({"--output": output}, (model, data))
    saved = open_model(model)
    found = read_for(saved, data, bag, stated, layout=layout_of(None, None, None, None, False, saved.columns))
    if found.y is None:
        raise BagDataError(f"{data}: nothing is stated about the bags; {NAME_THEM}.")
    named = parse_names(groups) or saved.columns.get("totals")
    verdict = checked(saved.estimator, found.bags, found.y, named, level) if check and not each else None
    if verdict is not None:
        table = verdict.without
    else:
        sets = "bags" if each else None
        table = group_table(saved.estimator, found.bags, found.y, groups=named, sets=sets, level=level)
    columns = (stated or fitted(saved, data)).names
    if len(columns) == len(table.outcomes):
        table = replace(table, outcomes=columns)
    print_rows(rates_table(table))
    if verdict is not None:
        typer.echo(verdict.sentence)
    if output is not None:
        write_table(table.to_frame(), output, raw=raw)
        say_written("rates", output)
