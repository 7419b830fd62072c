"""The files around the code say the same as the code."""

import importlib.util
import re
import tomllib
from pathlib import Path

from bagwise.models import cards, discover

ROOT = Path(__file__).parents[1]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_citation_has_the_version_of_the_package():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()


def test_citation_names_every_model_that_comes_from_a_paper():
    notes = " ".join(re.findall(r"notes: (.+)", (ROOT / "CITATION.cff").read_text()))
    from_papers = {model.__name__ for name, model in discover().items() if cards()[name].source != "bagwise"}
    assert from_papers <= set(re.findall(r"\w+", notes))


def test_changelog_begins_with_what_is_not_released_yet():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"


def test_every_command_that_contributing_names_is_a_target_of_make():
    pages = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "releasing.md", ROOT / "README.md"]
    named = {name for page in pages for name in re.findall(r"`?make ([a-z-]+)`?", page.read_text()) if name != "and"}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"docs", "package", "test"} <= named <= targets


def test_package_check_finds_the_lines_of_the_readme():
    found, page = tool("try_readme"), (ROOT / "README.md").read_text(encoding="utf-8")
    assert "BagGP(random_state=0).fit" in found.python_block(page)
    commands = found.shell_lines(page)
    assert [words[1] for words in commands] == ["fit", "predict", "evaluate", "suggest", "compare", "report", "models"]
    tables = {word for words in commands for word in words if word.endswith(".csv")}
    assert set(found.TABLES) <= tables


def test_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "one.html").write_text('<a href="two.html#here">two</a> <a href="https://example.org">other</a>')
    (tmp_path / "two.html").write_text('<p id="here"></p> <a href="one.html#there">one</a> <img src="gone.png">')
    checked = tool("check_links")
    one, two = checked.pages(tmp_path)
    assert not checked.is_broken(one, "two.html#here")
    assert {link for link in checked.links(two) if checked.is_broken(two, link)} == {"one.html#there", "gone.png"}
