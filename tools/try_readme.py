"""Run what the README shows, with the bagwise that is installed: python tools/try_readme.py

The Python block and the shell lines run in an empty folder, one after the other. The shell lines find small tables
under the names that they use. ``bagwise bench`` is left out, which needs the data of the papers, and ``bagwise label``,
which waits for somebody at the browser.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
TABLES = ("slides.csv", "new.csv", "test.csv", "unlabelled.csv")
LEFT_OUT = ("bench", "label")
MAKE_TABLES = f"""
import pandas as pd
from bagwise.datasets import make_bags
for seed, path in enumerate({TABLES!r}):
    bags, y, _ = make_bags(30, (3, 6), 3, random_state=seed)
    table = pd.DataFrame(bags.X, columns=["area", "roundness", "stain"]).assign(slide=bags.index)
    (table if path == "unlabelled.csv" else table.assign(tumour=y[bags.index])).to_csv(path, index=False)
"""


def python_block(page: str) -> str:
    """The first Python block of the page."""
    return _first(r"^```python\n(.*?)^```", page)


def shell_lines(page: str) -> list[list[str]]:
    """The lines that call ``bagwise`` below the heading "From the shell", but for those of ``LEFT_OUT``."""
    block = _first(r"^## From the shell\n\n```shell\n(.*?)^```", page)
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    return [words for words in lines if words[:1] == ["bagwise"] and words[1] not in LEFT_OUT]


def _first(pattern: str, page: str) -> str:
    found = re.search(pattern, page, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(f"{README}: there is nothing like {pattern!r}; mend the README or this script.")
    return found.group(1)


def main() -> None:
    """Run everything; the first failure ends the program."""
    page = README.read_text(encoding="utf-8")
    command = str(Path(sys.executable).with_name("bagwise"))
    with tempfile.TemporaryDirectory() as folder:
        for code in (python_block(page), MAKE_TABLES):
            _run([sys.executable, "-c", code], folder)
        for words in shell_lines(page):
            print("\n$", *words, flush=True)
            _run([command, *words[1:]], folder)


def _run(command: list[str], folder: str) -> None:
    subprocess.run(command, cwd=folder, env=_environment(), check=True)


def _environment() -> dict[str, str]:
    """Ours, without a path that could lead to another bagwise than the installed one."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


if __name__ == "__main__":
    main()
