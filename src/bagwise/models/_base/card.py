"""How a model presents itself, and a way to read that without importing the model."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_CLASS_OR_CARD = re.compile(r"^class (\w+)|^    card = ModelCard(\(.*?\))$", re.MULTILINE | re.DOTALL)


class ModelCard(NamedTuple):
    """How a model presents itself to the command line, the docs and the contract checks.

    A class has it as ``card = ModelCard(...)`` with nothing but texts in it, so that ``written_cards`` can read it from
    the file: importing a model takes seconds.
    """

    name: str  # on the command line and in model files
    evidence: tuple[str, ...]  # what a bag may say
    source: str  # where it comes from
    probabilities: str = "own"  # or where else they come from


class WrittenCard(NamedTuple):
    """A card and the class that has it."""

    card: ModelCard
    module: str  # without the name of its package
    class_name: str


def written_cards(folder: Path) -> dict[str, WrittenCard]:
    """The cards of all estimators in a folder of source files, by their names on the command line."""
    found = [written for path in folder.glob("[!_]*.py") for written in _cards_in(path)]
    return {written.card.name: written for written in sorted(found)}


def _cards_in(path: Path) -> Iterator[WrittenCard]:
    class_name = ""
    for match in _CLASS_OR_CARD.finditer(path.read_text(encoding="utf-8")):
        if match[2] is None:
            class_name = match[1]
        else:
            yield WrittenCard(ModelCard(*ast.literal_eval(match[2])), path.stem, class_name)
