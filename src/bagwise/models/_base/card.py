"""How a model presents itself, and a way to read that without importing the model."""

import ast
import importlib.util
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_CLASS_OR_CARD = re.compile(r"^class (\w+)|^    card = ModelCard(\(.*?\))$", re.MULTILINE | re.DOTALL)


class ModelCard(NamedTuple):
    """How a model presents itself to the command line, the docs and the contract checks.

    A class has it as ``card = ModelCard(...)`` with texts and names of texts in it, so that ``written_cards`` can
    read it from the file: importing a model takes seconds.
    """

    name: str  # on the command line and in model files
    evidence: tuple[str, ...]  # what a bag may say
    source: str  # where it comes from
    probabilities: str = "own"  # or where else they come from


class Abilities(NamedTuple):
    """Questions that not every estimator answers; who wants to ask one looks here first."""

    latent: bool = False  # predict_latent: a Gaussian process is behind the answers, with posterior_ and rule_
    fractions: bool = False  # predict_fraction and predict_count_proba
    parts: bool = False  # predict_part_proba and predict_instance_spread
    given: bool = False  # predict_proba(bags, given=…) and predict_instance_proba(bags, given=…)
    totals: bool = False  # stated_totals, draw_cells and has_seen: what aggregates.group_table asks
    together: bool = False  # predict_both_proba: both of them at once, with one pass over the rows


class WrittenCard(NamedTuple):
    """A card and the class that has it."""

    card: ModelCard
    module: str
    class_name: str


def written_cards(package: str) -> dict[str, WrittenCard]:
    """The cards of all estimators in a package, by their names on the command line; read from its files, sorted."""
    spec = importlib.util.find_spec(package)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    paths = [path for folder in folders for path in Path(folder).glob("[!_]*.py")]
    found = [written for path in paths for written in _cards_in(path, package)]
    return {written.card.name: written for written in sorted(found)}


def _cards_in(path: Path, package: str) -> Iterator[WrittenCard]:
    source, class_name = path.read_text(encoding="utf-8"), ""
    for match in _CLASS_OR_CARD.finditer(source):
        if match[2] is None:
            class_name = match[1]
        else:
            parts = ast.parse(match[2], mode="eval").body
            values = [_value(part, source, path.parent) for part in getattr(parts, "elts", ())]
            yield WrittenCard(ModelCard(*values), f"{package}.{path.stem}", class_name)


def _value(part: ast.expr, source: str, folder: Path) -> Any:
    """A text, a tuple of texts, or the text that a name stands for: in the same file, or in another of the package."""
    if not isinstance(part, ast.Name):
        return ast.literal_eval(part)
    pattern = re.compile(rf'^{part.id} = (".*")$', re.MULTILINE)
    sources = itertools.chain([source], (path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))))
    found = next(filter(None, map(pattern.search, sources)), None)
    if found is None:
        raise ValueError(f"{part.id}: a card is made of texts; this name stands for none in {folder}")
    return ast.literal_eval(found[1])
