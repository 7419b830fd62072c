"""The rules of the house: layers, the GPyTorch boundary, a true README."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import bagwise
from bagwise.models import discover

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "bagwise").rglob("*.py"))
CODE = ("src", "tests", "docs", "benchmarks", "examples", "tools")
LONGEST = 400  # lines of a module
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_data_flows_downward_and_nothing_imports_upward():
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_module_has_its_layer():
    layers = re.search(r"layers = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.S).group(1)
    named = set(re.findall(r"bagwise\.(\w+)", layers))
    found = {path.relative_to(ROOT / "src" / "bagwise").parts[0].removesuffix(".py") for path in SOURCES}
    assert found - {"__init__", "__main__"} == named


def test_gpytorch_stops_at_the_kernels():
    users = {path.name for path in SOURCES if re.search(r"^\s*(import|from) gpytorch", path.read_text(), re.M)}
    assert users == {"kernels.py"}


def test_nothing_looks_for_attributes_of_a_model_instead_of_asking_what_it_declares():
    sniffing = re.compile(r'(?:has|get)attr\((?:model|estimator|\w+\.estimator|models\[0\]), "')
    assert {path.name for path in SOURCES if sniffing.search(path.read_text())} == {
        "_validation.py"
    }  # scikit-learn's names


def test_importing_bagwise_raises_no_warning():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import bagwise"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_optional_packages_are_imported_only_where_used():
    code = (
        "import sys, bagwise; "
        "sys.exit(any(name in sys.modules for name in ('arviz', 'distributed', 'dask', 'matplotlib.pyplot')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_readme_is_short_and_its_table_of_models_is_true():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 150
    rows = re.findall(r"^\| `(\w+)` \| `([\w-]+)` \| (.+?) \| (.+?) \|$", text, re.M)
    cards = [(model.__name__, model.card) for model in discover().values()]
    assert sorted(rows) == sorted((name, card.name, ", ".join(card.evidence), card.source) for name, card in cards)


def test_everything_promised_at_the_top_is_there():
    assert all(hasattr(bagwise, name) for name in bagwise.__all__)
    assert bagwise.__version__ == re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M).group(1)


def definitions():
    """Names of classes and public functions at the top of modules, and where they are defined."""
    found = defaultdict(list)
    for path in SOURCES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) or (isinstance(node, ast.FunctionDef) and not node.name.startswith("_")):
                found[node.name].append(path.relative_to(ROOT).as_posix())
    return found


def test_no_two_modules_define_a_class_or_a_public_function_of_one_name():
    assert not {name: places for name, places in definitions().items() if len(places) > 1}


def too_long(paths):
    """Modules that hold more than a reader can keep in mind, with their lengths."""
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    return {name: length for name, length in lengths.items() if length > LONGEST}


def test_no_module_is_longer_than_400_lines():
    assert not too_long(SOURCES)


def test_a_module_of_401_lines_is_found(tmp_path):
    (tmp_path / "right.py").write_text("x = 1\n" * 400)
    (tmp_path / "long.py").write_text("x = 1\n" * 401)
    assert too_long(tmp_path.iterdir()) == {"long.py": 401}


# Modules with code that have no test file of their name, and where they are tested.
TESTED_ELSEWHERE = {
    "_contract_problems.py": "tests/test_testing.py: the problems of the contract",
    "baselines/_base/kernel_baseline.py": "tests/baselines/test_nsk.py and those of the other kernel machines",
    "baselines/_base/kernel_settings.py": "tests/baselines/test_contract_of_baselines.py",
    "baselines/_base/machines.py": "tests/baselines/_base/test_files.py, and every baseline",
    "baselines/_base/parameters.py": "tests/models/_base/test_documented.py",
    "bench/tables/candidates.py": "tests/bench/test_tables.py: all tables",
    "gp/latent.py": "tests/bag_models/test_rules.py, test_rule_answers.py: what rules see",
    "inference/belief.py": "tests/inference/test_expectation_propagation.py and its sisters hold one each",
    "inference/kernel_learning/rows.py": "tests/inference/kernel_learning/test_by_messages.py and its sisters",
    "io/streamed.py": "tests/cli/test_streaming.py",
    "predict/cells.py": "tests/test_aggregates.py, tests/bag_models/test_cell_effects.py",
    "report/templates.py": "tests/report/test_page.py",
    "report/terminal.py": "tests/cli/test_evaluate.py",
    "scale/tasks.py": "tests/scale/test_cluster.py: what workers do",
}


def without_tests(sources, tests):
    """Modules with functions of their own for which ``tests`` has no file of their name, by their paths."""
    modules = [path.relative_to(sources) for path in sorted(sources.rglob("*.py")) if not path.stem.startswith("__")]
    alone = [path for path in modules if not (tests / path.parent / f"test_{path.stem.lstrip('_')}.py").is_file()]
    return {path.as_posix() for path in alone if re.search(r"^ *def ", (sources / path).read_text("utf-8"), re.M)}


def test_tests_mirror_the_tree():
    assert without_tests(ROOT / "src" / "bagwise", ROOT / "tests") == set(TESTED_ELSEWHERE)


def test_module_without_a_test_file_of_its_name_is_found(tmp_path):
    for name, text in {"a/one.py": "def f(): ...", "a/_two.py": "def g(): ...", "data.py": "X = 1"}.items():
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).write_text(text)
    (tmp_path / "tests" / "a").mkdir(parents=True)
    (tmp_path / "tests" / "a" / "test_two.py").write_text("")
    assert without_tests(tmp_path / "src", tmp_path / "tests") == {"a/one.py"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_module_that_a_page_names_exists(page):
    named = set(re.findall(r"(?<![\w/.-])((?:\w+/)*\w+\.py)\b", page.read_text(encoding="utf-8")))
    there = [path.relative_to(ROOT).as_posix() for top in CODE for path in (ROOT / top).rglob("*.py")]
    assert not {name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in there)}
