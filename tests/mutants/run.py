"""pytest in a child of this process, on a copy of the tree.

A child is forked from a process that has imported everything but bagwise: importing torch and its company takes ten
times as long as most tests do.
"""

import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

SECONDS = 300  # for the tests of one mutant
TOO_LONG = -1  # in place of an exit status
OPTIONS = ("-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not statistical", "--tb", "short")
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # pytest would like to import its plugins itself
_PACKAGES = (
    *("gpytorch", "hypothesis", "jinja2", "matplotlib.pyplot", "mpmath", "pandas", "pyarrow.parquet", "rich.progress"),
    *("safetensors.torch", "scipy.stats", "scipy.integrate", "sklearn.cluster", "sklearn.model_selection"),
    *("sklearn.gaussian_process", "sklearn.svm", "torch", "typer.testing"),
)


def preload() -> None:
    """Import what the tests and bagwise need."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _PACKAGES:
            importlib.import_module(name)


def run_tests(tree: Path, tests: Sequence[str], *options: str) -> tuple[int, str]:
    """The exit status of pytest and what it printed, with an empty home folder and the sources of ``tree``."""
    with tempfile.TemporaryDirectory() as home:
        output = Path(home) / "output"
        arguments = [*OPTIONS, *_QUIET, *options, *tests]
        child = multiprocessing.get_context("fork").Process(target=_child, args=(tree, Path(home), output, arguments))
        child.start()
        child.join(SECONDS)
        if child.exitcode is None:
            os.killpg(child.pid or 0, signal.SIGKILL)  # and whatever its tests have started
            child.join()
            return TOO_LONG, ""
        return child.exitcode, output.read_text()


def _child(tree: Path, home: Path, output: Path, arguments: Sequence[str]) -> None:
    os.setsid()
    handle = os.open(output, os.O_WRONLY | os.O_CREAT)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.chdir(tree)
    sources = str(tree / "src")
    os.environ |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "PYTHONPATH": sources}
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # bytecode of one mutant must not be taken for that of the next
    sys.dont_write_bytecode = True
    sys.path.insert(0, sources)
    for name in [name for name in sys.modules if name == "tests" or name.startswith("tests.")]:
        del sys.modules[name]  # those of the copy are imported instead
    status = int(pytest.main([*arguments]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
