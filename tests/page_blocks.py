"""The fenced blocks of the pages: what each says it is, and so what the tests do with it.

``python`` is executed (tests/test_guides.py), ``shell`` is executed line by line (tests/test_shell_lines.py), ``text``
is no code: a diagram, a sketch, an output. A comment ``<!-- not run: why -->`` above a block exempts it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_BUILT = {"_build", "gallery", "generated"}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"] + [
    page for page in sorted((ROOT / "docs").rglob("*.md")) if not _BUILT & set(page.parts)
]
_FENCE = re.compile(
    r"^(?:<!-- not run: (?P<why>[^\n]+) -->\n)?(?P<indent> *)```(?P<language>[^\n]*)\n(?P<code>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: Path
    line: int  # of its first line of code
    language: str
    code: str
    why_not_run: str | None

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line} {self.language}"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str | None = None) -> Iterator[Block]:
    """The blocks of a page, all of them or those of a language that are to be run."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        block = Block(page, line, found["language"], found["code"], found["why"])
        if language is None or (block.language == language and block.why_not_run is None):
            yield block


def pages_with(language: str) -> list[str]:
    """Names of the pages that hold something to be run."""
    return [name_of(page) for page in PAGES if any(True for _ in blocks(page, language))]
