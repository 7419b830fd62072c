"""The command line: options in, one call of the library, files or a few lines of text out."""

from bagwise.cli.app import app, main

__all__ = ["app", "main"]
