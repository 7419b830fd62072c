"""``bagwise label``: a page in the browser that asks what the model would learn most from."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from bagwise.cli.arguments import BagColumn, Data, MetaColumns, PartColumn, SkipBad, TableFile
from bagwise.cli.messages import say_skipped, say_written
from bagwise.cli.options import check_outputs, parse_image_shape, parse_names
from bagwise.exceptions import BagDataError

if TYPE_CHECKING:
    import pandas as pd

    from bagwise.cli.evidence import SavedModel
    from bagwise.labelling.journal import Journal
    from bagwise.labelling.pool import Floats, Pool

_OPTIONS_IN_TITLE = 4


def label_page(
    data: Data,
    model: Annotated[Path, typer.Option("--model", metavar="MODEL", help="Model file written by `bagwise fit`.")],
    bag: BagColumn = None,
    part: PartColumn = None,
    meta: MetaColumns = None,
    table: TableFile = None,
    skip_bad: SkipBad = False,
    what: Annotated[str, typer.Option(metavar="bags|instances", help="What is to be labelled.")] = "bags",
    by: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Who answers; without it your login.")] = None,
    answers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the answers are kept; without it beside DATA. A restart goes on."),
    ] = None,
    show: Annotated[str | None, typer.Option(metavar="COL,...", help="Columns to show in the table.")] = None,
    image: Annotated[
        str | None, typer.Option(metavar="COL", help="Column with files of pictures, relative to DATA.")
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="COL", help="Column to show as running text.")] = None,
    image_shape: Annotated[
        str | None, typer.Option(metavar="HEIGHT,WIDTH", help="Where the features are the pixels of an image.")
    ] = None,
    strategy: Annotated[
        str, typer.Option(metavar="bald|entropy|random", help="Most informative, most uncertain, or by chance.")
    ] = "bald",
    export: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Write the table with the answers filled in, for `bagwise fit`, and end."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="0 takes a free one.")] = 0,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen; only this machine by default.")] = (
        "127.0.0.1"
    ),
    allow_other_machines: Annotated[
        bool, typer.Option("--allow-other-machines", help="Needed for any --host that other machines can reach.")
    ] = False,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Label bags or instances in the browser, in the order in which the model learns most from them."""
    import getpass

    from bagwise.active import QUERIES, STRATEGIES

    _check_choice("--what", what, QUERIES)
    _check_choice("--strategy", strategy, STRATEGIES)
    shape = parse_image_shape(image_shape)
    check_outputs({"--answers": answers, "--export": export}, (model, data))
    kept = answers or data.with_name(f"{data.name}.{what}.jsonl")
    work = _open(data, model, bag, _Described(part, meta, table, skip_bad), what, kept)
    if export is not None:
        _export(work, export)
        return
    shown = {"show": parse_names(show), "image": image, "text": text, "image_shape": shape, "folder": data.parent}
    person = getpass.getuser() if by is None else by
    _serve(work, shown, person, strategy, (host, port, allow_other_machines), browser)


@dataclass(frozen=True, eq=False)
class _Work:
    """What is labelled, for which model, and where the answers are."""

    saved: "SavedModel"
    pool: "Pool"
    journal: "Journal"
    frame: "pd.DataFrame | None"  # None for an archive
    bag: str | None
    folder: "_Folder | None" = None  # where the rows are those of h5 files

    @property
    def title(self) -> str:
        """Heading of the page."""
        from bagwise.labelling.question import SEVERAL

        name = ", ".join(self.saved.columns.get("label") or ()) or f"Label the {self.pool.what}"
        question = self.pool.question
        return name if question.kind == SEVERAL else f"{name}: {' or '.join(question.options[:_OPTIONS_IN_TITLE])}?"

    def stated(self) -> tuple[str, list[str]]:
        """What the bags stated in the fit, and in which columns."""
        columns = self.saved.columns
        named = [
            (kind, list(columns[kind])) for kind in ("fraction", "count", "candidates", "label") if columns.get(kind)
        ]
        return named[0] if named else ("label", list(self.saved.label_names()))

    def known_column(self) -> str | None:
        """The column with instances known one by one."""
        from bagwise.labelling.export import KNOWN

        found: str | None = self.saved.columns.get("known")
        return found or (KNOWN if self.pool.what == "instances" else None)

    def table(self, values: "Floats") -> "pd.DataFrame":
        """The user's table with what is known now."""
        from bagwise.labelling.export import labelled_files, labelled_table

        if self.folder is not None and self.pool.what == "bags":
            return labelled_files(self.pool, values, self.folder.files, self.bag, self.stated()[1])
        return labelled_table(self.pool, values, self.frame, self.bag, self.stated()[1], self.known_column())

    def fit_command(self, path: Path, table: "pd.DataFrame") -> str:
        """The command that fits such a model to the table."""
        (kind, names), known = self.stated(), self.known_column()
        model = ["--model", self.saved.estimator.card.name, "--bag", self.bag or "bag"]
        if self.folder is not None:
            part = ["--part", self.folder.part] if self.folder.part else []
            found = ["--table", str(path), *part, f"--{kind}", ",".join(names), "-o", "model.safetensors"]
            return shlex.join(["bagwise", "fit", str(self.folder.path), *model, *found])
        features = self.pool.bags.feature_names or [f"x{number}" for number in range(self.pool.bags.n_features)]
        used = {self.bag or "bag", known, *names, *features}
        ignored = ",".join(str(name) for name in table.columns if name not in used)
        command = ["bagwise", "fit", str(path), *model]
        command += [f"--{kind}", ",".join(names)] + (["--known", known] if known else [])
        return shlex.join([*command, *(["--ignore", ignored] if ignored else []), "-o", "model.safetensors"])


class _Described(NamedTuple):
    """The options about what describes instances, and about folders."""

    part: str | None
    meta: str | None
    table: Path | None
    skip_bad: bool


class _Folder(NamedTuple):
    """A folder of h5 files and its table, one row per file."""

    path: Path
    files: "pd.DataFrame | None"
    part: str | None


def _open(data: Path, model: Path, bag: str | None, described: _Described, what: str, answers: Path) -> _Work:
    from bagwise.cli.evidence import open_model, read_for
    from bagwise.cli.layout import layout_of
    from bagwise.io.bag_data import is_archive, is_of_h5
    from bagwise.io.tables import read_table
    from bagwise.labelling.export import described_rows
    from bagwise.labelling.journal import Journal
    from bagwise.labelling.pool import make_pool
    from bagwise.labelling.question import question_for

    saved = open_model(model)
    layout = layout_of(described.part, None, described.meta, described.table, described.skip_bad, saved.columns)
    of_h5 = is_of_h5(data, layout)
    found = read_for(saved, data, bag, None, may_be_absent=True, with_known=not of_h5, layout=layout)
    say_skipped(found.skipped)
    question = question_for(saved.estimator, what, saved.label_names())
    pool = make_pool(saved.estimator, found.bags, found.y, what, question)
    column = bag or saved.columns.get("bag")
    if of_h5:
        files = None if layout.table is None else read_table(layout.table, column, layout.keys())
        folder = _Folder(data, files, layout.part)
        return _Work(saved, pool, Journal(answers, what, question), described_rows(pool, column), column, folder)
    frame = None if is_archive(data) else read_table(data, column)
    return _Work(saved, pool, Journal(answers, what, question), frame, column)


def _export(work: _Work, path: Path) -> None:
    from bagwise.io.tables import write_table

    table = work.table(work.pool.known(work.journal.latest()))
    write_table(table, path, raw=True)  # as it was: an apostrophe before an id would make another bag of it
    say_written("table with the labels", path)
    if work.folder is not None and work.pool.what == "instances":
        typer.echo("Its rows are those of Bags.from_folder: fit to bags.with_known(table['known']) in Python.")
    else:
        typer.echo(f"To fit the model to it:\n  {work.fit_command(path, table)}")


def _serve(
    work: _Work, shown: dict[str, Any], by: str, strategy: str, address: tuple[str, int, bool], browser: bool
) -> None:
    server, gate = _server_modules()
    from bagwise.io.tables import csv_bytes
    from bagwise.labelling.exhibit import make_exhibit
    from bagwise.labelling.session import Session

    host, port, allow_others = address
    gate.check_interface(host, allow_others)
    hidden = [*work.stated()[1], *filter(None, [work.known_column()])]
    exhibit = make_exhibit(work.pool, work.frame, bag=work.bag, hidden=hidden, **shown)
    _say_start(work)
    session = Session(work.saved.estimator, work.pool, work.journal, by=by, strategy=strategy)
    desk = server.Desk(session, exhibit, work.title, lambda: csv_bytes(work.table(session.known()), raw=True))
    token = gate.new_token()

    def ready(found: int) -> None:
        url = f"http://{f'[{host}]' if ':' in host else host}:{found}/{token}/"
        typer.echo(f"Open {url}\nCtrl-C ends it; every answer is in {work.journal.path} at once.")
        if browser:
            import webbrowser

            webbrowser.open(url)

    try:
        server.serve(lambda found: server.make_app(desk, token, gate.allowed_hosts(host, found)), host, port, ready)
    finally:
        session.close()
        typer.echo(f"{session.progress().answers} answers are in {work.journal.path}; the same command goes on.")


def _server_modules() -> tuple[Any, Any]:
    try:
        from bagwise.labelling import gate, server
    except ImportError as error:
        raise BagDataError(f"bagwise label needs the package {error.name}: pip install 'bagwise[label]'.") from error
    return server, gate


def _say_start(work: _Work) -> None:
    import numpy as np

    if np.isnan(work.pool.before).all() and work.pool.y is None:
        typer.echo(
            "bagwise: nothing is labelled in these data: from the first fit on, the model learns from your answers "
            "only. To keep what it knows, put the bags that it was fitted to into the same table.",
            err=True,
        )
    if work.journal.entries:
        typer.echo(f"going on with {len(work.journal.entries)} answers in {work.journal.path}")


def _check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise BagDataError(f"{option} {value}: expected {' or '.join(choices)}.")
