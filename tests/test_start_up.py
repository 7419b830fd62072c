"""What answers at once imports nothing heavy; names that are imported late are still where they should be."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "gpytorch", "scipy", "sklearn", "pandas", "matplotlib", "pyarrow", "numpy")
PROBE = """
import sys
from bagwise.cli.app import app
try:
    app({arguments!r}, prog_name="bagwise")
except SystemExit as stop:
    code = stop.code
print("CODE", code, "HEAVY", *sorted(set(sys.modules) & set({heavy!r})))
"""


def heavy_imports_of(*arguments):
    """The exit status of a command, and which heavy packages its process has imported."""
    code = PROBE.format(arguments=list(map(str, arguments)), heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    words = done.stdout.split("CODE ")[1].split()
    return int(words[0]), words[2:]


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("models",), ("fit", "--help")], ids=" ".join)
def test_commands_that_only_tell_import_nothing_heavy(arguments):
    assert heavy_imports_of(*arguments) == (0, [])


def test_a_mistyped_column_is_refused_before_anything_heavy_is_imported(tmp_path):
    (tmp_path / "d.csv").write_text("slide,u,tumour\na,1,0\nb,2,1\n")
    assert heavy_imports_of("fit", tmp_path / "d.csv", "--bag", "slid", "-o", tmp_path / "m") == (2, [])


def test_importing_bagwise_imports_nothing_heavy():
    code = f"import sys, bagwise; dir(bagwise); bagwise.BagDataError; print(*(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
