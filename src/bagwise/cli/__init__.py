"""The command line: options in, one call of the library, files or a few lines of text out."""

from bagwise.cli.commands import main

__all__ = ["main"]
