"""What the command line says: results, warnings and refusals, each on one line that is safe to print."""

import io
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from bagwise._files import PathLike, is_standard_output
from bagwise._text import visible

if TYPE_CHECKING:
    from bagwise.bags import Bags


def say_written(what: str, path: PathLike) -> None:
    """Where a result is; on standard error if the result itself went to standard output."""
    typer.echo(visible(f"{what}: {path}"), err=is_standard_output(path))


def say_fitted(model: Any, bags: "Bags", seconds: float, path: PathLike) -> None:
    """How a fit went, and where the model is."""
    typer.echo(
        f"{type(model).__name__}: {len(bags)} bags, {bags.n_instances} instances, {bags.n_features} features; "
        f"{_course(model)} in {seconds:.1f} s",
        err=is_standard_output(path),
    )
    record = model.fit_record()
    if record.learning is not None and record.learning.gains:
        from bagwise.models._base.flat_evidence import starts_told

        typer.echo(f"learning the kernel: {starts_told(record.learning)}", err=is_standard_output(path))
    effect = record.size_effect
    if effect is not None:
        import numpy as np

        pairs = zip(np.ravel(effect.mean), np.ravel(effect.sd), strict=True)
        each = ", ".join(f"{mean:.2f} ± {sd:.2f}" for mean, sd in pairs)
        typer.echo(f"effect of log size on every instance of a bag: {each}", err=is_standard_output(path))
    if record.leftovers == "none":
        typer.echo("instances unlike all others count as ordinary ones (leftovers)", err=is_standard_output(path))
    say_written("model", path)


def _course(model: Any) -> str:
    """The iterations of a fit; baselines keep no record of theirs."""
    record = model.fit_record()
    if record.trace is None:
        return "fitted"
    end = "settled" if record.trace.converged else "not settled"
    end = f"{end}; {record.fallback}, so this inference was used" if record.fallback else end
    inference = record.inference or record.solver
    return f"{len(record.trace.values)} iterations{f' of {inference}' if inference else ''} ({end})"


def say_refusal(error: BaseException) -> None:
    """One line on standard error."""
    typer.echo(f"bagwise: {_one_line(error)}", err=True)


def _one_line(message: object) -> str:
    if isinstance(message, OSError) and message.strerror is not None:
        return visible(f"{message.filename}: {message.strerror}" if message.filename is not None else message.strerror)
    return visible(" ".join(str(message).split()))


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings as one line of text, without the place in the source."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        typer.echo(f"bagwise: warning: {_one_line(message)}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def print_anything() -> None:
    """Let a terminal or a file that knows few letters get "?" for the others, instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def say_skipped(skipped: Mapping[str, str]) -> None:
    """The files of a folder that were left out, one line each, on standard error."""
    for name, why in skipped.items():
        typer.echo(f"bagwise: left out {name}: {why}", err=True)
