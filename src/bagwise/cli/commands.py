"""The commands of the command line, each imported when it is asked for; bad input ends with one message and status 2.

What needs PyTorch, scikit-learn or pandas is imported inside the commands: help, the list of models and the refusal of
a mistyped column need none of them and answer at once.
"""

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bagwise.cli.messages import plain_warnings, print_anything, say_refusal
from bagwise.exceptions import BagwiseError

COMMANDS = {  # name: module of this package, and function
    "models": ("model_list", "models"),
    "fit": ("fit", "fit"),
    "predict": ("predict", "predict"),
    "evaluate": ("evaluate", "evaluate"),
    "rates": ("rates", "rates"),
    "suggest": ("suggest", "suggest_to_label"),
    "report": ("report", "report"),
    "demo": ("demo", "demo"),
    "bench": ("bench", "bench"),
    "heatmap": ("heatmap", "heatmap"),
    "compare": ("compare", "compare"),
    "label": ("label", "label_page"),
    "sort": ("sorting", "sort_by_bag"),
}


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


def main() -> None:
    """Entry point of the ``bagwise`` command: with the command that the first word names, or with all of them."""
    print_anything()
    asked = [name for name in sys.argv[1:2] if name in COMMANDS]
    command_line(asked or COMMANDS)(prog_name="bagwise")


def command_line(names: Iterable[str]) -> typer.Typer:
    """The command line with these commands."""
    made = typer.Typer(
        cls=_PoliteGroup,
        help="Learn about individuals when only groups are labelled.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    made.callback()(_options)
    for name in names:
        module, function = COMMANDS[name]
        made.command(name)(getattr(import_module(f"bagwise.cli.{module}"), function))
    return made


def _show_version(wanted: bool) -> None:
    if wanted:
        from bagwise import __version__

        typer.echo(f"bagwise {__version__}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Learn about individuals when only groups are labelled."""
