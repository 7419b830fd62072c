"""The command line, called in this process."""

from typer.testing import CliRunner

from bagwise.cli.app import app


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def refused(*arguments):
    """The one message of a refusal."""
    result = run(*arguments)
    assert result.exit_code == 2, (result.output, result.exception)
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("bagwise: ")
    return line
