"""``bagwise suggest``: what to label next."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bagwise.cli.arguments import (
    BagColumn,
    Data,
    Memory,
    MetaColumns,
    ModelFile,
    Raw,
    SkipBad,
    TableFile,
)
from bagwise.cli.messages import say_skipped, say_written
from bagwise.cli.options import check_outputs, parse_names
from bagwise.io.headers import refuse_mistyped
from bagwise.report.terminal import print_table

if TYPE_CHECKING:
    from bagwise.bags import Bags
    from bagwise.io.bag_data import BagData


def suggest_to_label(
    model: ModelFile,
    data: Data,
    n: Annotated[int, typer.Option("-n", metavar="COUNT", help="How many.")] = 1,
    what: Annotated[str, typer.Option(metavar="bags|instances", help="What is to be labelled.")] = "bags",
    strategy: Annotated[
        str,
        typer.Option(metavar="bald|entropy|random", help="Most informative, most uncertain, or random."),
    ] = "bald",
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="OUT", help="Table to write.")] = None,
    bag: BagColumn = None,
    meta: MetaColumns = None,
    table: TableFile = None,
    skip_bad: SkipBad = False,
    raw: Raw = False,
    memory: Memory = None,
) -> None:
    """Suggest what to label next. If some bags (or instances) are labelled already, only the others are suggested."""
    refuse_mistyped(data, (bag, *parse_names(meta)))
    from bagwise import active
    from bagwise.cli.evidence import open_model, read_for
    from bagwise.cli.layout import layout_of
    from bagwise.io.tables import suffix_to_write, write_table
    from bagwise.scale import within

    if output is not None:
        suffix_to_write(output)
    check_outputs({"--output": output}, (model, data))
    saved = open_model(model)
    layout = layout_of(None, None, meta, table, skip_bad, saved.columns)
    with within(memory=memory):
        known = read_for(saved, data, bag, None, may_be_absent=True, with_known=True, layout=layout)
    queries = _unlabelled(known) if what == "bags" else known.bags
    found = active.suggest(saved.estimator, queries, what=what, n=n, strategy=strategy).to_frame()
    if output is None:
        texts = found.assign(utility=found["utility"].map("{:.4f}".format)).astype(str)
        print_table(texts.columns, texts.itertuples(index=False))
    else:
        write_table(found, output, raw=raw)
        say_written("suggestions", output)
    say_skipped(known.skipped)


def _unlabelled(known: "BagData") -> "Bags":
    """The bags of which something is not known; all of them where that is none or nothing is known of any."""
    import numpy as np
    import pandas as pd

    absent = pd.isna(np.asarray(known.y)).reshape(len(known.bags), -1).any(axis=1) if known.y is not None else None
    return known.bags if absent is None or not absent.any() else known.bags[absent]
