"""Figures on the pages: every section that shows some names the command that gives them again, and the command exists.

A result is written ".83"; a setting, which nobody measured, is written "0.83".
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.page_blocks import PAGES, ROOT, name_of

from bagwise.bench.tables import TABLES

_SHARE = re.compile(r"(?<![\w.({\[=])[−+-]?\.\d{2,4}(?![\w])")
_CELL = re.compile(r"\| *[−-]?\d[\d,]*\.\d[^|a-z]*\|")
_FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_GENERATED = re.compile(r"^<!-- measured: begin -->$.*?^<!-- measured: end -->$", re.DOTALL | re.MULTILINE)
_WAYS = (
    r"python -m (?:benchmarks|tests)\b",
    r"`benchmarks\.\w+",
    r"bagwise bench \w",
    r"(?:tests|examples)/[\w/]+\.py",  # a test or an example that gives them
    r"random_state=\d",  # code that stands on the page itself
)
_COMMAND = re.compile("|".join(_WAYS))
_OF_A_MODULE = re.compile(r"(?:python -m |`)(benchmarks(?:\.[a-z_]+)+)((?: [^`\n]*)?)")
_OF_BENCH = re.compile(r"bagwise bench (\w+)((?: [^`\n|]*)?)")


def sections(page: Path) -> Iterator[tuple[str, str]]:
    """Heading and text of every section of a page, without what a command has written there itself."""
    text = page.read_text(encoding="utf-8")
    written_by_command = f"--page {name_of(page)}" in text
    for part in re.split(r"^(?=#{1,4} )", _GENERATED.sub("", text) if written_by_command else text, flags=re.MULTILINE):
        yield part.partition("\n")[0], part


def shows_figures(section: str) -> bool:
    text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", section))
    return bool(_SHARE.search(text) or _CELL.search(text))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_section_with_figures_names_the_command_that_measures_them(page):
    assert not [heading for heading, text in sections(page) if shows_figures(text) and not _COMMAND.search(text)]


def module_file(name: str) -> Path:
    """Of ``benchmarks.NAME``, a file or a package."""
    path = ROOT / name.replace(".", "/")
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_benchmarks_that_pages_name_exist_with_their_options(page):
    for name, arguments in _OF_A_MODULE.findall(page.read_text(encoding="utf-8")):
        file = module_file(name)
        assert file.is_file(), name
        source = file.read_text(encoding="utf-8")
        assert not [option for option in re.findall(r"--[a-z]+", arguments) if f'"{option}"' not in source], name


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tables_that_pages_ask_bench_for_exist_with_their_columns_and_sets(page):
    for name, arguments in _OF_BENCH.findall(page.read_text(encoding="utf-8")):
        if name in ("TABLE", "all"):
            continue
        table, only = TABLES[name], re.search(r"--only ([\w,+.-]+)", arguments)
        there = {model.name for model in table.models} | {data.name for data in table.sets}
        assert not set(only.group(1).split(",") if only else ()) - there, (name, arguments)


def test_figures_are_told_from_settings_and_code():
    assert shows_figures("## Speed\n\nThe AUC is .93.")
    assert shows_figures("| model | s |\n|---|---|\n| BagGP | 12.5 |")
    assert not shows_figures("The default is 0.05, and `x = .25`; see (7.4).\n\n```python\ny = .25\n```\n")
