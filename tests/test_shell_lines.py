"""The shell lines of the pages: those of ``bagwise`` run as they stand, and the others name what exists."""

import importlib.util
import re
import shlex
import tomllib
import webbrowser

import pytest
import typer
from tests.cli.command import done
from tests.page_blocks import ROOT, blocks, pages_with
from tests.page_data import prepare

import bagwise.labelling.server
from bagwise.cli.app import app

NEEDS_PAPERS = "bench"  # the data of the papers are not part of the package
LONG = {  # `make package` runs the lines of the README as well
    "README.md",
    "docs/bring_your_data.md",
    "docs/guide/compare.md",
    "docs/guide/slides.md",
    "docs/install.md",
}
PAGES = [pytest.param(page, marks=pytest.mark.statistical if page in LONG else ()) for page in pages_with("shell")]


def lines_of(page):
    """Every line as words, its comment left out."""
    text = "\n".join(block.code for block in blocks(ROOT / page, "shell"))
    return [words for line in text.splitlines() if (words := shlex.split(line, comments=True))]


@pytest.mark.parametrize("page", pages_with("shell"))
def test_shell_lines_name_commands_options_targets_and_modules_that_exist(page):
    for words in lines_of(page):
        assert _exists([word for word in words if "=" not in word.partition(" ")[0] or word.startswith("-")]), words


def _exists(words):
    first, *others = words
    if first == "bagwise":
        return _known_options(others)
    if first == "make":
        return re.search(rf"^{others[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    if words[:2] == ["python", "-m"]:
        return importlib.util.find_spec(others[1])
    if words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        return {name for found in re.findall(r"\[(.+)\]", others[1]) for name in found.split(",")} <= extras.keys()
    return False


def _known_options(words):
    commands = typer.main.get_command(app)
    parameters = commands.params if words[0].startswith("-") else commands.commands[words[0]].params
    known = {name for parameter in parameters for name in (*parameter.opts, *parameter.secondary_opts)}
    return {word for word in words if re.match("--?[a-z]", word)} <= known


@pytest.mark.parametrize("page", PAGES)
def test_lines_of_bagwise_run_as_they_stand(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(webbrowser, "open", lambda url: True)
    monkeypatch.setattr(bagwise.labelling.server, "serve", lambda make, host, port, ready: ready(8000))
    prepare(page, tmp_path)
    for words in lines_of(page):
        while "=" in words[0]:
            monkeypatch.setenv(*words.pop(0).split("=", 1))
        if words[0] == "bagwise" and words[1] != NEEDS_PAPERS:
            done(*words[1:])
