"""``bagwise evaluate``: how good the probabilities are."""

import json
from pathlib import Path
from typing import Annotated

import typer

from bagwise._files import is_standard_output, write_whole
from bagwise.cli.arguments import (
    BagColumn,
    CandidateColumns,
    CountColumns,
    Data,
    FractionColumn,
    GroupColumn,
    InstanceColumns,
    LabelColumns,
    Memory,
    ModelFile,
    SkipBad,
    TableFile,
)
from bagwise.cli.messages import say_skipped, say_written
from bagwise.cli.options import check_outputs, parse_names
from bagwise.cli.stated import NAME_THEM, chosen, names_of
from bagwise.exceptions import BagDataError
from bagwise.io.headers import refuse_mistyped
from bagwise.report.terminal import print_measures


def evaluate(
    model: ModelFile,
    data: Data,
    bag: BagColumn = None,
    label: LabelColumns = None,
    fraction: FractionColumn = None,
    count: CountColumns = None,
    candidates: CandidateColumns = None,
    instance_label: InstanceColumns = None,
    group: GroupColumn = None,
    folds: Annotated[
        int | None,
        typer.Option(metavar="K", help="Fit K times on the other folds of DATA and judge what was held out."),
    ] = None,
    table: TableFile = None,
    skip_bad: SkipBad = False,
    json_output: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Write the measures as JSON.")
    ] = None,
    memory: Memory = None,
) -> None:
    """Measure how good the probabilities are: of bags and, where instance labels exist, of instances.

    The truth about bags is looked for where the fit found it; --label, --fraction, --count or --candidates name
    another. With --folds the settings of MODEL are fitted to DATA anew; no --group is in two folds.
    """
    stated = chosen(label, fraction, count, candidates)
    refuse_mistyped(data, (bag, group, *names_of(stated), *parse_names(instance_label)))
    from bagwise.cli.evidence import open_model, read_for, truth
    from bagwise.cli.layout import layout_of
    from bagwise.io.plain_json import plain_numbers
    from bagwise.model_selection import held_out
    from bagwise.report import content
    from bagwise.report.answers import collect
    from bagwise.scale import within

    check_outputs({"--json": json_output}, (model, data))
    saved = open_model(model)
    only_instances = stated is None and instance_label is not None
    layout = layout_of(None, group, None, table, skip_bad, saved.columns)
    with within(memory=memory):
        known = read_for(saved, data, bag, stated, instance_label, may_be_absent=only_instances, layout=layout)
    if known.y is None and known.instance_y is None:
        raise BagDataError(f"{data}: there is nothing to compare with; {NAME_THEM}.")
    stated_truth = truth(saved, known, stated, data)
    judge = saved.estimator if folds is None else held_out(saved.estimator, known.bags, known.y, folds)
    found = content.reports(collect(judge, known.bags, stated_truth, known.instance_y, saved.label_names()))
    if json_output is None or not is_standard_output(json_output):
        print_measures(found)
    if json_output is not None:
        text = json.dumps({"model": saved.estimator.card.name} | plain_numbers(found), indent=2, allow_nan=False)
        write_whole(json_output, lambda stream: stream.write(text.encode("utf-8")))
        say_written("measures", json_output)
    say_skipped(known.skipped)
