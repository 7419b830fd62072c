"""The commands of the command line, each imported when it is asked for."""

import subprocess
import sys

from typer.testing import CliRunner

from bagwise.cli.app import app
from bagwise.cli.commands import command_line


def test_only_the_command_that_is_asked_for_is_imported():
    code = "import sys; from bagwise.cli import main\ntry: main()\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, "models"], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("bagwise.cli.")}
    assert loaded == {"bagwise.cli.commands", "bagwise.cli.messages", "bagwise.cli.model_list"}


def test_a_command_alone_explains_itself_as_it_does_among_all():
    alone, among = (CliRunner().invoke(made, ["sort", "--help"]) for made in (command_line(["sort"]), app))
    assert alone.exit_code == 0
    assert alone.output == among.output
