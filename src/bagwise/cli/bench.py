"""``bagwise bench``: the papers' tables, re-run."""

from pathlib import Path
from typing import Annotated

import typer

from bagwise._text import visible
from bagwise.bench.tables import NAMES, tables_named
from bagwise.cli.options import parse_names


def bench(
    table: Annotated[str, typer.Argument(metavar="TABLE", help=f"{', '.join(NAMES)}, or all.")],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Folder with the data sets (.npz archives).")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for results, Markdown and HTML.")
    ] = Path("bench"),
    quick: Annotated[bool, typer.Option("--quick", help="A few folds of a few data sets.")] = False,
    only: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Only these models and data sets of the table.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, metavar="N", help="Another number of repeats.")] = None,
    repeat: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only this repeat, counted from 1.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Processes, one thread each.")] = 2,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Scheduler of a Dask cluster to run on instead.")
    ] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="What the models compute on: cpu, cuda, cuda:1.")] = "cpu",
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew; without it finished cells are kept.")] = False,
) -> None:
    """Re-run a published table: published and measured side by side. An interrupted run goes on where it stopped."""
    from bagwise.bench.cells import Choice
    from bagwise.bench.run import Plan, run

    choice = Choice(quick, tuple(parse_names(only)), rounds, repeat)
    plan = Plan(tables_named(table), data, output, choice, jobs, cluster, fresh, device)
    try:
        written = run(plan)
    except KeyboardInterrupt:
        typer.echo(
            f"interrupted; what was finished is kept in {output}, and the same command goes on from there.", err=True
        )
        raise typer.Exit(130) from None
    for path in written:
        typer.echo(visible(path))
