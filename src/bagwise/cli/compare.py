"""``bagwise compare``: which model is best for one's own data."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bagwise.cli.arguments import (
    BagColumn,
    CandidateColumns,
    CountColumns,
    Data,
    FeatureColumns,
    FractionColumn,
    IgnoredColumns,
    InstanceColumns,
    KnownColumn,
    LabelColumns,
    PartColumn,
    SkipBad,
    TableFile,
)
from bagwise.cli.messages import say_skipped, say_written
from bagwise.cli.options import parse_names, parse_settings
from bagwise.cli.stated import StatedColumns, chosen

if TYPE_CHECKING:
    from bagwise.compare.result import ComparisonResult
    from bagwise.io.bag_data import BagData


Models = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="Models (see `bagwise models`) and baselines; without it the usual ones for what the bags state.",
    ),
]
KeptTogether = Annotated[
    str | None,
    typer.Option(metavar="COL", help="Column with what must stay together, such as the patient: no fold cuts a group."),
]
Folds = Annotated[int, typer.Option(min=2, metavar="N", help="Parts; each is tested once.")]
Repeats = Annotated[int, typer.Option(min=1, metavar="N", help="How often everything is cut anew.")]
Metric = Annotated[str | None, typer.Option(metavar="NAME", help="What decides, for example 'bag log_likelihood'.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="MODEL.NAME=VALUE", help="Setting of one model; may be repeated."),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for results, table, picture and page.")
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Processes, one thread each.")]
Device = Annotated[str, typer.Option(metavar="NAME", help="What the models compute on: cpu, cuda, cuda:1.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Of the folds.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Begin anew; without it finished fits are kept.")]


def compare(
    data: Data,
    models: Models = None,
    bag: BagColumn = None,
    label: LabelColumns = None,
    fraction: FractionColumn = None,
    count: CountColumns = None,
    candidates: CandidateColumns = None,
    known: KnownColumn = None,
    features: FeatureColumns = None,
    ignore: IgnoredColumns = None,
    instance_label: InstanceColumns = None,
    part: PartColumn = None,
    group: KeptTogether = None,
    table: TableFile = None,
    skip_bad: SkipBad = False,
    folds: Folds = 10,
    repeats: Repeats = 1,
    metric: Metric = None,
    settings: Settings = None,
    output: Output = Path("compare"),
    jobs: Jobs = 2,
    device: Device = "cpu",
    seed: Seed = 0,
    fresh: Fresh = False,
) -> None:
    """Cross-validate several models on your own data and say which is best. An interrupted run goes on."""
    from bagwise.cli.evidence import read_for_fit
    from bagwise.cli.layout import layout_of
    from bagwise.compare.run import compare_models

    stated = chosen(label, fraction, count, candidates) or StatedColumns()
    of_rows = _is_table(data, table)  # then the group is a column like that of the instances' labels
    extra = [*parse_names(instance_label), *([] if group is None or not of_rows else [group])]
    ignored = parse_names(ignore)
    layout = layout_of(part, None if of_rows else group, None, table, skip_bad)
    found = read_for_fit(data, bag, stated, known, parse_names(features), ignored, extra, layout=layout)
    groups, truth = _groups_and_truth(found, group if of_rows else None, instance_label)
    with _interruption_explained(output):
        result = compare_models(
            found.bags,
            found.y,
            parse_names(models) or None,
            evidence=stated.kind,
            folds=folds,
            repeats=repeats,
            groups=groups,
            instance_y=truth,
            metric=metric,
            settings=_settings_by_model(settings or []),
            output=output,
            fresh=fresh,
            jobs=jobs,
            device=device,
            seed=seed,
            name=data.stem,
        )
    columns = {"--bag": bag, f"--{stated.kind}": ",".join(stated.names), "--known": known, "--features": features}
    columns["--ignore"] = "" if features else ",".join([*ignored, *extra])
    columns |= {"--part": part, "--group": None if of_rows else group, "--table": None if table is None else str(table)}
    lines = how_to_fit(result, data, columns, ["--skip-bad"] if skip_bad else [])
    _say(result, output, lines, f"{data}, {len(found.bags)} bags")
    say_skipped(found.skipped)


@contextmanager
def _interruption_explained(output: Path) -> Iterator[None]:
    """Ctrl-C ends with a message, and the usual status of an interrupted command."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(
            f"interrupted; what was finished is kept in {output}, and the same command goes on from there.", err=True
        )
        raise typer.Exit(130) from None


def _is_table(data: Path, table: Path | None) -> bool:
    """Whether the data are a table with a row per instance, rather than an archive or a folder of h5 files."""
    from bagwise.io.bag_data import Layout, is_archive, is_of_h5

    return not is_archive(data) and not is_of_h5(data, Layout(table=table))


def _groups_and_truth(found: "BagData", group: str | None, instance_label: str | None) -> tuple[Any, Any]:
    """The group and the label of every instance (or None), from the columns read beside the features."""
    import numpy as np

    if group is None:
        return None, found.instance_y if instance_label else None
    columns = np.asarray(found.instance_y).reshape(found.bags.n_instances, -1)
    n_labels = columns.shape[1] - 1
    return columns[:, -1], None if n_labels == 0 else columns[:, 0] if n_labels == 1 else columns[:, :-1]


def _settings_by_model(pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    from bagwise.compare.contestants import known_contestants
    from bagwise.exceptions import BagDataError

    chosen: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        model, dot, setting = pair.partition(".")
        if not dot or model not in known_contestants():
            raise BagDataError(f"--set {pair}: expected MODEL.NAME=VALUE, for example --set bag-gp.n_inducing=50.")
        chosen.setdefault(model, {}).update(parse_settings([setting], known_contestants()[model]))
    return chosen


def how_to_fit(
    result: "ComparisonResult", data: Path, columns: dict[str, str | None], flags: Sequence[str] = ()
) -> list[str]:
    """The command that fits the best model to all bags."""
    best = result.best
    (settings,) = [model.settings for model in result.models if model.name == best]
    options = [*(part for option, text in columns.items() if text for part in (option, text)), *flags]
    for name, value in settings.items():
        options += ["--set", f"{name}={value}"] if name != "evidence" else []
    return [shlex.join(["bagwise", "fit", str(data), "--model", best, *options, "-o", f"{best}.safetensors"])]


def _say(result: "ComparisonResult", output: Path, lines: list[str], note: str) -> None:
    from bagwise.compare.page import differences_table, measures_table, narrow_metrics, verdict, write_comparison
    from bagwise.report.terminal import print_table

    for table in (measures_table(result, narrow_metrics(result)), differences_table(result)):
        if table.rows:
            print_table(table.header, table.rows, table.title)
    for sentence in verdict(result):
        typer.echo(sentence)
    *_, page = write_comparison(result, output, lines, note)
    typer.echo("To fit the best model to all bags:")
    for line in lines:
        typer.echo(f"  {line}")
    say_written("page", page)
