"""The command line as one object, with all commands."""

from bagwise.cli.commands import COMMANDS, command_line

app = command_line(COMMANDS)
