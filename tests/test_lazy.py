"""Names that are imported when first asked for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bagwise

SOURCE = Path(bagwise.__file__).parent


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
