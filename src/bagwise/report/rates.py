"""Rates of groups from totals as texts and pictures: for the page, and the table for the terminal as well."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise.aggregates import CompositionCheck, GroupTable, composition_check, group_table
from bagwise.bags import Bags
from bagwise.evidence.groups import group_columns
from bagwise.exceptions import BagDataWarning
from bagwise.plots import RatesDisplay, TomographyDisplay
from bagwise.report import figures
from bagwise.report.content import ReportTable, number

DRAWS = 400
_HEADER = ("people", "rate", "range", "bounds", "Goodman", "all alike")


@dataclass(frozen=True)
class RatesSection:
    """What the page says about the groups; nothing but a ``sentence`` where they cannot be told."""

    sentence: str
    doubtful: bool = False  # whether the sentence is a warning
    tables: Sequence[ReportTable] = ()
    pictures: Sequence[dict[str, str]] = ()


def rates_section(model: Any, bags: Bags, y: Any) -> RatesSection | None:
    """Rates of the groups that rows with a weight belong to; None where there are no such rows, or no statements."""
    if y is None or bags.weight is None or not model.abilities.totals or not group_columns(bags, most=None):
        return None
    if not model.has_seen(bags, y):
        return RatesSection(
            "Rates of groups are told for the bags that a model was fitted to. These are other bags, or they state "
            "something else: fit a model to them to see the rates of their groups."
        )
    check = checked(model, bags, y)
    return RatesSection(
        check.sentence,
        bool(check.differs.any()),
        [rates_table(check.without), _beside_composition(check)],
        _pictures(check.without, model, bags, y),
    )


def checked(
    model: Any, bags: Bags, y: Any, groups: Sequence[str] | None = None, level: float = 0.9
) -> CompositionCheck:
    """The check of the assumption, whose warning is a sentence of the page instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BagDataWarning)
        return composition_check(model, bags, y, groups=groups, level=level, n_draws=DRAWS)


def rates_table(table: GroupTable) -> ReportTable:
    """One row for every set of bags, group and outcome."""
    names, several = table.outcomes, len(table.sets) > 1
    rows = [
        (*((table.sets[s],) if several else ()), table.groups[g], *_named(names, o), *_told(table, (s, g, o)))
        for s, g, o in np.ndindex(table.mean.shape)
    ]
    header = (*(("set",) if several else ()), "group", *_named(names), *_HEADER)
    return ReportTable(f"Rates, with {table.level:.0%} ranges", header, rows)


def _named(outcomes: Sequence[str], number: int | None = None) -> tuple[str, ...]:
    """The entry of a column of outcomes, or its heading; there is no such column where there is one outcome."""
    if len(outcomes) == 1:
        return ()
    return ("outcome",) if number is None else (str(outcomes[number]),)


def _told(table: GroupTable, at: tuple[int, int, int]) -> tuple[str, ...]:
    return (
        f"{table.people[at[:2]]:,}",
        number(table.mean[at]),
        _range(table.lower[at], table.upper[at]),
        _range(table.least[at], table.most[at]),
        number(table.goodman[at]),
        number(table.alike[at]),
    )


def _range(low: float, high: float) -> str:
    return "–" if np.isnan(low) else f"{number(low)} to {number(high)}"


def _beside_composition(check: CompositionCheck) -> ReportTable:
    """The answer with and without the composition as a feature, and how much of the bounds its range leaves."""
    plain, other = check.without, check.with_composition
    rows = [
        (
            plain.groups[g],
            *_named(plain.outcomes, o),
            f"{number(plain.mean[0, g, o])} ({_range(plain.lower[0, g, o], plain.upper[0, g, o])})",
            f"{number(other.mean[0, g, o])} ({_range(other.lower[0, g, o], other.upper[0, g, o])})",
            _share_of_bounds(plain, (0, g, o)),
        )
        for g, o in np.ndindex(plain.mean.shape[1:])
    ]
    header = ("group", *_named(plain.outcomes), "rate", "with the composition as a feature", "range / bounds")
    return ReportTable("How much rests on the assumption", header, rows)


def _share_of_bounds(table: GroupTable, at: tuple[int, int, int]) -> str:
    """How wide the range is, as a share of what arithmetic leaves possible: the rest is the assumption's doing."""
    possible = table.most[at] - table.least[at]
    return number((table.upper[at] - table.lower[at]) / possible, 2) if possible > 0 else "–"


def _pictures(table: GroupTable, model: Any, bags: Bags, y: Any) -> list[dict[str, str]]:
    each = ", ".join(f"{name} {number(rate)}" for name, rate in zip(table.groups, table.mean[0, :, 0], strict=True))
    drawn = [
        {
            "title": "Rates of groups",
            "meaning": "Dots are rates, dark lines their ranges, pale bars the bounds that the totals leave possible.",
            "image": figures.display_figure(RatesDisplay(table), height=0.9 + 0.34 * table.mean[0].size),
            "alt": f"Rates of groups: {each}",
        }
    ]
    if len(table.groups) != 2:
        return drawn
    by_bag = group_table(model, bags, y, groups=table.groups, sets="bags", n_draws=DRAWS // 4)
    meaning = (
        "Each line is a bag: the pairs of rates that its totals allow. The dot is where the model puts it. Short lines "
        "tell much, long lines little."
    )
    alt = f"Tomography of {len(bags)} bags, rates of {table.groups[0]} and {table.groups[1]}"
    image = figures.display_figure(TomographyDisplay(by_bag))
    return [*drawn, {"title": "Tomography", "meaning": meaning, "image": image, "alt": alt}]
