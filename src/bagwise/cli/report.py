"""``bagwise report``: one HTML page about some bags."""

from pathlib import Path
from typing import Annotated

import typer

from bagwise.cli.arguments import (
    BagColumn,
    CandidateColumns,
    CountColumns,
    Data,
    FractionColumn,
    InstanceColumns,
    LabelColumns,
    Memory,
    MetaColumns,
    ModelFile,
    PartColumn,
    SkipBad,
    TableFile,
)
from bagwise.cli.messages import say_skipped, say_written
from bagwise.cli.options import check_outputs, parse_image_shape, parse_names
from bagwise.cli.stated import chosen, names_of
from bagwise.io.headers import refuse_mistyped


def report(
    model: ModelFile,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="HTML", help="Page to write.")],
    bag: BagColumn = None,
    label: LabelColumns = None,
    fraction: FractionColumn = None,
    count: CountColumns = None,
    candidates: CandidateColumns = None,
    instance_label: InstanceColumns = None,
    part: PartColumn = None,
    meta: MetaColumns = None,
    table: TableFile = None,
    skip_bad: SkipBad = False,
    given_label: Annotated[
        bool, typer.Option("--given-label", help="Judge instances given the label of their own bag, where it is known.")
    ] = False,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    image_shape: Annotated[
        str | None, typer.Option(metavar="HEIGHT,WIDTH", help="Where the features are the pixels of an image.")
    ] = None,
    memory: Memory = None,
) -> None:
    """Write one HTML page about some bags: measures and diagrams where the truth is known, and a table of all bags."""
    shape = parse_image_shape(image_shape)
    stated = chosen(label, fraction, count, candidates)
    refuse_mistyped(data, (bag, part, *names_of(stated), *parse_names(instance_label), *parse_names(meta)))
    from bagwise.cli.evidence import open_model, read_for, truth
    from bagwise.cli.layout import layout_of
    from bagwise.report.page import TITLE, write_report
    from bagwise.scale import within

    check_outputs({"--output": output}, (model, data))
    saved = open_model(model)
    layout = layout_of(part, None, meta, table, skip_bad, saved.columns)
    with within(memory=memory):
        known = read_for(saved, data, bag, stated, instance_label, may_be_absent=stated is None, layout=layout)
    stated_truth = truth(saved, known, stated, data)
    write_report(
        saved.estimator,
        known.bags,
        stated_truth,
        output,
        instance_y=known.instance_y,
        title=TITLE if title is None else title,
        image_shape=shape,
        labels=saved.label_names(),
        given=stated_truth if given_label else None,
    )
    say_written("report", output)
    say_skipped(known.skipped)
