"""The command line, put together of its commands; bad input ends with one message and status 2."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bagwise.cli.bench import bench
from bagwise.cli.compare import compare
from bagwise.cli.demo import demo
from bagwise.cli.evaluate import evaluate
from bagwise.cli.fit import fit
from bagwise.cli.heatmap import heatmap
from bagwise.cli.label import label_page
from bagwise.cli.messages import plain_warnings, print_anything, say_refusal
from bagwise.cli.predict import predict
from bagwise.cli.report import report
from bagwise.cli.sorting import sort_by_bag
from bagwise.cli.suggest import suggest_to_label
from bagwise.exceptions import BagwiseError

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


app.command()(fit)
app.command()(predict)
app.command()(evaluate)
app.command("suggest")(suggest_to_label)
app.command()(report)
app.command()(demo)
app.command()(bench)
app.command()(heatmap)
app.command()(compare)
app.command("label")(label_page)
app.command("sort")(sort_by_bag)
