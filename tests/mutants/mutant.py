"""One planted bug: where it goes, what it looks like, and the tests that should notice it."""

import re
from pathlib import Path
from typing import NamedTuple

SOURCES = Path("src/bagwise")
TESTS = Path("tests")


class MutantError(Exception):
    """A mutant that cannot be planted, or whose tests cannot be run."""


class Mutant(NamedTuple):
    """``old`` must occur once in ``file``, which lies below src/bagwise.

    ``tests`` are files below tests/ with blanks between them; "file.py ::test_one ::test_two" are two tests of a file.
    """

    file: str
    bug: str
    old: str
    new: str
    tests: str

    @property
    def name(self) -> str:
        """What it is called in reports, and what ``--only`` looks into."""
        return f"{self.file}: {self.bug}"

    @property
    def test_paths(self) -> list[str]:
        """The tests to run, from the root of the tree."""
        paths: list[str] = []
        for file, *names in (part.split() for part in re.findall(r"\S+\.py(?:\s+::\w+)*", self.tests)):
            paths += [f"{TESTS / file}{name}" for name in names or [""]]
        return paths

    def planted(self, root: Path) -> str:
        """The text of the file with the bug in it."""
        text = (root / SOURCES / self.file).read_text()
        found = text.count(self.old)
        if found != 1:
            raise MutantError(f"{self.name}: {self.old!r} occurs {found} times in {self.file}; expected once.")
        return text.replace(self.old, self.new)


def mutants_of(file: str, tests: str, *bugs: tuple[str, str, str]) -> list[Mutant]:
    """Mutants of one file that the same tests should notice: what the bug is, the text that is there, the new one."""
    return [Mutant(file, *bug, tests) for bug in bugs]
