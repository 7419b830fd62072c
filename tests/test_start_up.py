"""What answers at once imports nothing heavy; names that are imported late are still where they should be."""

import ast
import gzip
import subprocess
import sys
from pathlib import Path

import pytest

import bagwise
from bagwise.exceptions import BagDataError
from bagwise.io.headers import csv_header, refuse_mistyped
from bagwise.models import cards, discover_estimators
from bagwise.models._base.card import written_cards
from bagwise.models._base.saved import SavedEstimator

SOURCE = Path(bagwise.__file__).parent
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


# ---------------------------------------------------------------- late names


@pytest.mark.parametrize("package", ["__init__.py", "io/__init__.py", "report/__init__.py"])
def test_late_names_are_those_that_type_checkers_see(package):
    body = ast.parse((SOURCE / package).read_text(encoding="utf-8")).body
    (checked,) = (node for node in body if isinstance(node, ast.If))
    imported = {alias.name: node.module for node in checked.body for alias in node.names}
    values = {node.targets[0].id: node.value for node in body if isinstance(node, ast.Assign) and len(node.targets) == 1
              and isinstance(node.targets[0], ast.Name)}  # fmt: skip
    assert ast.literal_eval(values["_WHERE"]) == imported
    assert set(ast.literal_eval(values["__all__"])) == set(imported) - {"__version__"}


def test_dir_lists_every_public_name_and_submodule():
    assert {*bagwise.__all__, "__version__", "plots", "datasets"} <= set(dir(bagwise))


def test_submodules_can_be_had_without_importing_them_first():
    code = "import bagwise; bagwise.metrics.bag_report; bagwise.exceptions.ConvergenceWarning"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'bagwise' has no attribute 'BagGpp'"):
        _ = bagwise.BagGpp


# ---------------------------------------------------------------- cards, headers


def test_cards_read_from_files_are_those_of_the_classes():
    def below(cls):
        return {cls}.union(*map(below, cls.__subclasses__()))

    found = discover_estimators()
    packages = ("bagwise.models", "bagwise.baselines")
    own = {cls for cls in below(SavedEstimator) if "card" in vars(cls) and cls.__module__.startswith(packages)}
    assert cards() == {cls.card.name: cls.card for cls in own}
    assert found == {cls.card.name: cls for cls in own}


def test_a_card_may_name_a_text_of_its_package(tmp_path, monkeypatch):
    package = tmp_path / "some_models"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_words.py").write_text('PAPER = "A paper"\n')
    (package / "one.py").write_text('class One:\n    card = ModelCard("one", ("label",), PAPER)\n')
    monkeypatch.syspath_prepend(tmp_path)
    assert written_cards("some_models") == {"one": (("one", ("label",), "A paper", "own"), "some_models.one", "One")}
    (package / "_words.py").unlink()
    with pytest.raises(ValueError, match="PAPER: a card is made of texts"):
        written_cards("some_models")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b\n1,2\n", ["a", "b"]),
        ("\ufeffa,b\r\n", ["a", "b"]),
        ('"a,x",b\n', ["a,x", "b"]),
        ('"a\nx",b\n', None),
        ("a;b\n", None),
        ("", None),
        ("a,b", None),
    ],
)
def test_a_header_is_read_only_where_it_is_plain(tmp_path, text, names):
    (tmp_path / "d.csv").write_text(text, encoding="utf-8", newline="")
    assert csv_header(tmp_path / "d.csv") == names


def test_a_header_that_is_no_text_is_left_to_the_reader(tmp_path):
    (tmp_path / "d.csv").write_bytes(b"\xff\xfe,b\n")
    (tmp_path / "d.csv.gz").write_bytes(b"no gzip")
    (tmp_path / "spoilt.csv.gz").write_bytes(gzip.compress(b"")[:10] + b"\xff" * 20)
    for name in ("d.csv", "d.csv.gz", "spoilt.csv.gz"):
        refuse_mistyped(tmp_path / name, ["nothing"])


def test_all_missing_columns_are_named_at_once(tmp_path):
    (tmp_path / "d.csv").write_text("a,b\n")
    with pytest.raises(BagDataError, match="there is no column 'x', 'y'; the table has 'a', 'b'"):
        refuse_mistyped(tmp_path / "d.csv", ["a", "x", None, "y"])
