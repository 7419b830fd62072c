"""The command line: thin, typed; bad input ends with one message and status 2."""

import json
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from sklearn.model_selection import train_test_split
from typer.core import TyperGroup

from bagwise import active
from bagwise._files import is_standard_output, write_whole
from bagwise.bags import Bags
from bagwise.cli import evidence as cli_evidence
from bagwise.cli.arguments import (
    GivenLabel,
    GroupColumn,
    MetaColumns,
    PartColumn,
    SkipBad,
    TableFile,
    at_two_levels,
    layout_notes,
    layout_of,
    say_skipped,
    with_part_label,
)
from bagwise.cli.bench import bench
from bagwise.cli.evidence import NAME_THEM, fitted_features, open_model, read_for
from bagwise.cli.heatmap import heatmap
from bagwise.cli.messages import plain_warnings, print_anything, say_fitted, say_refusal, say_written
from bagwise.cli.options import check_outputs, parse_image_shape, parse_names, parse_settings
from bagwise.datasets import load_digit_bags
from bagwise.exceptions import BagDataError, BagwiseError
from bagwise.io.bag_data import BagData, read_bags
from bagwise.io.plain_json import plain_numbers
from bagwise.io.predictions import bag_table, instance_table, part_table
from bagwise.io.tables import suffix_to_write, write_table
from bagwise.model_selection import held_out
from bagwise.models import discover
from bagwise.models.bag_gp import BagGP
from bagwise.report import content, write_report
from bagwise.report.answers import collect
from bagwise.report.page import TITLE
from bagwise.report.terminal import print_frame, print_measures, print_table


class _PoliteGroup(TyperGroup):
    """Turns refusals into one message on standard error and status 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with plain_warnings():
                return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (BagwiseError, OSError) as error:
            say_refusal(error)
            raise typer.Exit(2) from error


app = typer.Typer(
    cls=_PoliteGroup,
    help="Learn about individuals when only groups are labelled.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

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
    typer.Option("--fraction", metavar="COL", help="Column with the fraction of positives in the bag, 0 to 1."),
]
CountColumns = Annotated[
    str | None,
    typer.Option("--count", metavar="LO,HI", help="Columns with the lowest and highest number of positives."),
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


def main() -> None:
    """Entry point of the ``bagwise`` command."""
    print_anything()
    app(prog_name="bagwise")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bagwise {version('bagwise')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Learn about individuals when only groups are labelled."""


# ---------------------------------------------------------------- commands


@app.command()
def models() -> None:
    """What models there are, what evidence they take, where they come from."""
    rows = [(name, ", ".join(model.card.evidence), model.card.source) for name, model in discover().items()]
    print_table(("name", "evidence per bag", "source"), rows)


@app.command()
def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="Model file to write.")],
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="One of `bagwise models`.")] = "bag-gp",
    bag: BagColumn = None,
    label: LabelColumns = None,
    fraction: FractionColumn = None,
    count: CountColumns = None,
    candidates: CandidateColumns = None,
    known: Annotated[
        str | None,
        typer.Option(
            metavar="COL", help="Column with instances known one by one: 0, 1 or empty. They are learned from."
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(metavar="COL,...", help="Feature columns; without it every column not named otherwise."),
    ] = None,
    ignore: Annotated[str | None, typer.Option(metavar="COL,...", help="Columns that are no features.")] = None,
    part: PartColumn = None,
    part_label: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Column with labels of parts, 0, 1 or empty, beside those of the bags."),
    ] = None,
    group: GroupColumn = None,
    meta: MetaColumns = None,
    table: TableFile = None,
    skip_bad: SkipBad = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Setting of the model; may be repeated. VALUE is a number, several numbers between commas, true, "
            "false, none, or a word.",
        ),
    ] = None,
) -> None:
    """Fit a model to what is known of bags (--label, --fraction, --count, --candidates) and write it to a file."""
    chosen = _chosen_model(model)
    stated = cli_evidence.chosen(label, fraction, count, candidates) or cli_evidence.usual(model)
    estimator = chosen(
        **cli_evidence.with_evidence(model, stated, known, {"verbose": 1} | parse_settings(settings or [], chosen))
    )
    checkpoint = getattr(estimator, "checkpoint", None)  # what is no name of a file, fit refuses
    check_outputs(
        {"--output": output, "--set checkpoint": checkpoint if isinstance(checkpoint, str) else None}, (data,)
    )
    layout = layout_of(part, group, meta, table, skip_bad)
    names, unused, wanted = parse_names(features), parse_names(ignore), with_part_label(layout, part_label)
    found = at_two_levels(cli_evidence.read_for_fit(data, bag, stated, known, names, unused, wanted), part_label)
    started = time.perf_counter()
    estimator.fit(found.bags, found.y)
    estimator.save(output, notes=cli_evidence.columns(data, bag, stated, known, found) | layout_notes(layout))
    say_fitted(estimator, found.bags, time.perf_counter() - started, output)
    say_skipped(found)


@app.command()
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
) -> None:
    """Probabilities of every instance, part and bag; without --instances, --parts or --bags the bags are printed."""
    asked = {"instances": (instances, instance_table), "parts": (parts, part_table), "bags": (bags, bag_table)}
    for wanted in filter(None, (instances, parts, bags)):
        suffix_to_write(wanted)
    check_outputs({f"--{what}": path for what, (path, _) in asked.items()}, (model, data))
    saved = open_model(model)
    known = read_bags(
        data,
        bag=bag or saved.columns.get("bag"),
        labels=() if given_label is None else (given_label,),
        features=fitted_features(saved.estimator),
        layout=layout_of(part, None, meta, table, skip_bad, saved.columns),
    )
    how = {"labels": saved.label_names()} | ({} if given_label is None else {"given": known.y})
    for what, (path, make) in asked.items():
        if path is not None:
            write_table(make(saved.estimator, known.bags, **how), path, raw=raw)
            say_written(what, path)
    if not any(path for path, _ in asked.values()):
        print_frame(bag_table(saved.estimator, known.bags, **how))
    say_skipped(known)


@app.command()
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
) -> None:
    """How good the probabilities are: of bags and, where instance labels exist, of instances.

    The truth about bags is looked for where the fit found it; --label, --fraction, --count or --candidates name
    another. With --folds the settings of MODEL are fitted to DATA anew; no --group is in two folds.
    """
    stated = cli_evidence.chosen(label, fraction, count, candidates)
    check_outputs({"--json": json_output}, (model, data))
    saved = open_model(model)
    only_instances = stated is None and instance_label is not None
    layout = layout_of(None, group, None, table, skip_bad, saved.columns)
    known = read_for(saved, data, bag, stated, instance_label, may_be_absent=only_instances, layout=layout)
    if known.y is None and known.instance_y is None:
        raise BagDataError(f"{data}: there is nothing to compare with; {NAME_THEM}.")
    truth = cli_evidence.truth(saved, known, stated, data)
    judge = saved.estimator if folds is None else held_out(saved.estimator, known.bags, known.y, folds)
    found = content.reports(collect(judge, known.bags, truth, known.instance_y, saved.label_names()))
    if json_output is None or not is_standard_output(json_output):
        print_measures(found)
    if json_output is not None:
        text = json.dumps({"model": saved.estimator.card.name} | plain_numbers(found), indent=2, allow_nan=False)
        write_whole(json_output, lambda stream: stream.write(text.encode("utf-8")))
        say_written("measures", json_output)
    say_skipped(known)


@app.command("suggest")
def suggest_to_label(
    model: ModelFile,
    data: Data,
    n: Annotated[int, typer.Option("-n", metavar="COUNT", help="How many.")] = 1,
    what: Annotated[str, typer.Option(metavar="bags|instances", help="What is to be labelled.")] = "bags",
    strategy: Annotated[
        str, typer.Option(metavar="bald|entropy|random", help="Most informative, most uncertain, or by chance.")
    ] = "bald",
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="OUT", help="Table to write.")] = None,
    bag: BagColumn = None,
    meta: MetaColumns = None,
    table: TableFile = None,
    skip_bad: SkipBad = False,
    raw: Raw = False,
) -> None:
    """What to label next. Where something is not known yet of some bags (or instances), only these are suggested."""
    if output is not None:
        suffix_to_write(output)
    check_outputs({"--output": output}, (model, data))
    saved = open_model(model)
    layout = layout_of(None, None, meta, table, skip_bad, saved.columns)
    known = read_for(saved, data, bag, None, may_be_absent=True, with_known=True, layout=layout)
    queries = _unlabelled(known) if what == "bags" else known.bags
    found = active.suggest(saved.estimator, queries, what=what, n=n, strategy=strategy).to_frame()
    if output is None:
        texts = found.assign(utility=found["utility"].map("{:.4f}".format)).astype(str)
        print_table(texts.columns, texts.itertuples(index=False))
    else:
        write_table(found, output, raw=raw)
        say_written("suggestions", output)
    say_skipped(known)


@app.command()
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
    title: Annotated[str, typer.Option(help="Heading of the page.")] = TITLE,
    image_shape: Annotated[
        str | None, typer.Option(metavar="HEIGHT,WIDTH", help="Where the features are the pixels of an image.")
    ] = None,
) -> None:
    """One self-contained HTML page: figures of merit where the truth is known, diagrams, bags to look at."""
    shape = parse_image_shape(image_shape)
    stated = cli_evidence.chosen(label, fraction, count, candidates)
    check_outputs({"--output": output}, (model, data))
    saved = open_model(model)
    layout = layout_of(part, None, meta, table, skip_bad, saved.columns)
    known = read_for(saved, data, bag, stated, instance_label, may_be_absent=stated is None, layout=layout)
    truth = cli_evidence.truth(saved, known, stated, data)
    write_report(
        saved.estimator,
        known.bags,
        truth,
        output,
        instance_y=known.instance_y,
        title=title,
        image_shape=shape,
        labels=saved.label_names(),
        given=truth if given_label else None,
    )
    say_written("report", output)
    say_skipped(known)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")] = Path(
        "demo"
    ),
) -> None:
    """The main job on built-in data: which bags of handwritten digits hold a 9, and which digit is it?"""
    output.mkdir(parents=True, exist_ok=True)
    bags, y, instance_y = load_digit_bags(target=9)
    train, test = map(np.sort, train_test_split(np.arange(len(bags)), test_size=1 / 3, stratify=y, random_state=0))
    note = _DEMO_NOTE.format(n_train=len(train), n_test=len(test))
    typer.echo(note)
    model = BagGP(random_state=0, verbose=1).fit(bags[train], y[train])
    held_out, truth = bags[test], instance_y[np.isin(bags.index, test)]
    print_measures(content.reports(collect(model, held_out, y[test], truth)))
    model.save(output / "model.safetensors")
    page = write_report(
        model,
        held_out,
        y[test],
        output / "report.html",
        instance_y=truth,
        title="Which bags hold a 9?",
        note=note,
        image_shape=(8, 8),
    )
    say_written("model", output / "model.safetensors")
    say_written("report, to open in a browser", page)


app.command()(bench)
app.command()(heatmap)


_DEMO_NOTE = (
    "Every bag holds 6 to 12 handwritten digits. From {n_train} bags the model was told only whether there is a 9 in "
    "them, never which digit it is. Here are {n_test} other bags: which of them hold a 9, and where is it?"
)


# ---------------------------------------------------------------- choosing


def _chosen_model(name: str) -> Any:
    known = discover()
    if name not in known:
        raise BagDataError(f"--model {name}: there is no such model; there are {', '.join(known)}.")
    return known[name]


def _unlabelled(known: BagData) -> Bags:
    """The bags of which something is not known; all of them where that is none or nothing is known of any."""
    absent = pd.isna(np.asarray(known.y)).reshape(len(known.bags), -1).any(axis=1) if known.y is not None else None
    return known.bags if absent is None or not absent.any() else known.bags[absent]
