"""The command line: thin, typed; bad input ends with one message and status 2."""

import inspect
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from bagwise._files import is_standard_output, write_whole
from bagwise.cli.arguments import (
    BagColumn,
    CandidateColumns,
    CountColumns,
    Data,
    FeatureColumns,
    FractionColumn,
    GivenLabel,
    GroupColumn,
    IgnoredColumns,
    InstanceColumns,
    KnownColumn,
    LabelColumns,
    Memory,
    MetaColumns,
    ModelFile,
    PartColumn,
    PartLabel,
    Raw,
    SkipBad,
    TableFile,
    WeightColumn,
)
from bagwise.cli.bench import bench
from bagwise.cli.compare import compare
from bagwise.cli.heatmap import heatmap
from bagwise.cli.label import label_page
from bagwise.cli.messages import plain_warnings, print_anything, say_fitted, say_refusal, say_skipped, say_written
from bagwise.cli.options import check_outputs, parse_image_shape, parse_names, parse_settings
from bagwise.cli.sorting import sort_by_bag
from bagwise.cli.stated import NAME_THEM, StatedColumns, chosen
from bagwise.exceptions import BagDataError, BagwiseError
from bagwise.io.headers import refuse_mistyped
from bagwise.report.terminal import print_frame, print_measures, print_table

if TYPE_CHECKING:
    from bagwise.bags import Bags
    from bagwise.io.bag_data import BagData

# What needs PyTorch, scikit-learn or pandas is imported inside the commands: help, the list of models and the refusal
# of a mistyped column need none of them and answer at once.


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


def main() -> None:
    """Entry point of the ``bagwise`` command."""
    print_anything()
    app(prog_name="bagwise")


def _show_version(wanted: bool) -> None:
    if wanted:
        from bagwise import __version__

        typer.echo(f"bagwise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Learn about individuals when only groups are labelled."""


# ---------------------------------------------------------------- commands


@app.command()
def models() -> None:
    """List models and baselines, the evidence that each takes, where they and their probabilities come from."""
    from bagwise.models import cards

    known = cards()
    width = max(map(len, known))
    for name, card in known.items():
        print(f"{name:{width}s}  {', '.join(card.evidence)}\n{'':{width}s}  {card.source}")
        if card.probabilities != "own":
            print(f"{'':{width}s}  probabilities: {card.probabilities}")


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
    known: KnownColumn = None,
    weight: WeightColumn = None,
    features: FeatureColumns = None,
    ignore: IgnoredColumns = None,
    part: PartColumn = None,
    part_label: PartLabel = None,
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
    memory: Memory = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for features that do not fit into memory.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Scheduler of a Dask cluster whose workers do the work, see docs/scale.md."
        ),
    ] = None,
) -> None:
    """Fit a model to what is known of bags (--label, --fraction, --count, --candidates) and write it to a file."""
    named = chosen(label, fraction, count, candidates)
    described = (weight, part, part_label, group, *parse_names(meta))
    refuse_mistyped(data, (bag, known, *_names(named), *parse_names(features), *parse_names(ignore), *described))
    _check_model(model)
    from bagwise.cli import evidence as cli_evidence
    from bagwise.cli.layout import at_two_levels, layout_notes, layout_of, with_part_label
    from bagwise.models import discover_estimators
    from bagwise.scale import on_address, within

    kind, stated = discover_estimators()[model], named or cli_evidence.usual(model)
    progress = {"verbose": 1} if "verbose" in inspect.signature(kind).parameters else {}
    estimator: Any = kind(
        **cli_evidence.with_evidence(model, stated, known, progress | parse_settings(settings or [], kind))
    )
    checkpoint = getattr(estimator, "checkpoint", None)  # what is no name of a file, fit refuses
    check_outputs(
        {"--output": output, "--set checkpoint": checkpoint if isinstance(checkpoint, str) else None}, (data,)
    )
    layout = layout_of(part, group, meta, table, skip_bad)
    names, unused, wanted = parse_names(features), parse_names(ignore), with_part_label(layout, part_label)
    with within(memory=memory, cache=cache) if cluster is None else on_address(cluster, memory=memory):
        read = cli_evidence.read_for_fit(data, bag, stated, known, names, unused, weight=weight, layout=wanted)
        found = at_two_levels(read, part_label)
        started = time.perf_counter()
        estimator.fit(found.bags, found.y)
    notes = cli_evidence.columns(data, bag, stated, known, found, weight)
    estimator.save(output, notes=notes | layout_notes(layout))
    say_fitted(estimator, found.bags, time.perf_counter() - started, output)
    say_skipped(found.skipped)


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
    memory: Memory = None,
) -> None:
    """Measure how good the probabilities are: of bags and, where instance labels exist, of instances.

    The truth about bags is looked for where the fit found it; --label, --fraction, --count or --candidates name
    another. With --folds the settings of MODEL are fitted to DATA anew; no --group is in two folds.
    """
    stated = chosen(label, fraction, count, candidates)
    refuse_mistyped(data, (bag, group, *_names(stated), *parse_names(instance_label)))
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


@app.command("suggest")
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
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    image_shape: Annotated[
        str | None, typer.Option(metavar="HEIGHT,WIDTH", help="Where the features are the pixels of an image.")
    ] = None,
    memory: Memory = None,
) -> None:
    """Write one HTML page about some bags: measures and diagrams where the truth is known, and a table of all bags."""
    shape = parse_image_shape(image_shape)
    stated = chosen(label, fraction, count, candidates)
    refuse_mistyped(data, (bag, part, *_names(stated), *parse_names(instance_label), *parse_names(meta)))
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


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")] = Path(
        "demo"
    ),
) -> None:
    """Try bagwise on built-in data: which bags of handwritten digits hold a 9, and which digit is it?"""
    import numpy as np
    from sklearn.model_selection import train_test_split

    from bagwise.datasets import load_digit_bags
    from bagwise.models.bag_gp import BagGP
    from bagwise.report import content, write_report
    from bagwise.report.answers import collect

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
app.command()(compare)
app.command("label")(label_page)
app.command("sort")(sort_by_bag)


_DEMO_NOTE = (
    "Every bag holds 6 to 12 handwritten digits. From {n_train} bags the model was told only whether there is a 9 in "
    "them, never which digit it is. Here are {n_test} other bags: which of them hold a 9, and where is it?"
)


# ---------------------------------------------------------------- choosing


def _check_model(name: str) -> None:
    from bagwise.models import cards

    known = cards()
    if name not in known:
        raise BagDataError(f"--model {name}: there is no such model; there are {', '.join(known)}.")


def _write_instances(estimator: Any, bags: "Bags", how: dict[str, Any], path: Path, raw: bool) -> None:
    """Rows that stay in their file are answered for part by part."""
    from bagwise.io.predictions import instance_table
    from bagwise.io.streamed import instance_tables, write_parts
    from bagwise.io.tables import write_table

    if bags.stays_in_file:
        write_parts(instance_tables(estimator, bags, **how), path, raw=raw)
    else:
        write_table(instance_table(estimator, bags, **how), path, raw=raw)


def _names(stated: StatedColumns | None) -> tuple[str, ...]:
    return () if stated is None else stated.names


def _unlabelled(known: "BagData") -> "Bags":
    """The bags of which something is not known; all of them where that is none or nothing is known of any."""
    import numpy as np
    import pandas as pd

    absent = pd.isna(np.asarray(known.y)).reshape(len(known.bags), -1).any(axis=1) if known.y is not None else None
    return known.bags if absent is None or not absent.any() else known.bags[absent]
