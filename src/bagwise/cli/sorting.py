"""The command that sorts a table by bag."""

from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli.messages import say_written
from bagwise.cli.options import check_outputs


def sort_by_bag(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Parquet file, or a folder of them.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT", help="Parquet file to write.")],
    bag: Annotated[str, typer.Option("--bag", metavar="COL", help="Column with the key of the bag.")],
) -> None:
    """Sort a Parquet table once, on disk, so that the rows of every bag stand together and can stay in their file."""
    from bagwise.io.sorting import sort_table

    check_outputs({"--output": output}, (data,))
    count = sort_table(data, bag, output)
    say_written(f"table of {count} bags", output)
