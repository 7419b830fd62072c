"""What the options about parts, groups, metadata and folders come to together."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bagwise._validation import label_of_bags
from bagwise.bags import Bags
from bagwise.cli.options import parse_names
from bagwise.evidence.levels import two_levels
from bagwise.exceptions import BagDataError
from bagwise.io.bag_data import BagData, Layout


def layout_of(
    part: str | None,
    group: str | None,
    meta: str | None,
    table: Path | None,
    skip_bad: bool,
    remembered: dict[str, Any] | None = None,
    totals: str | None = None,
) -> Layout:
    """The options, and what the fit found in columns that need not be there again."""
    before = remembered or {}
    asked = {name for name in (part, group, *parse_names(meta)) if name is not None}
    known = {before.get("part"), before.get("group"), *(before.get("meta") or ())} - {None}
    return Layout(
        part or before.get("part"),
        group or before.get("group"),
        tuple(parse_names(meta) or before.get("meta") or ()),
        tuple(parse_names(totals) or before.get("totals") or ()),
        table,
        skip_bad,
        frozenset(known - asked),
    )


def with_columns_of_bags(layout: Layout, part_label: str | None, bag_weight: str | None) -> Layout:
    """The layout that reads labels of parts and weights of bags as well, as metadata until they are taken out."""
    if part_label is not None and layout.part is None:
        raise BagDataError(f"--part-label {part_label}: name the column of the parts themselves with --part.")
    if part_label is not None and bag_weight is not None:
        raise BagDataError(
            f"--bag-weight {bag_weight}: bags whose parts have labels of their own (--part-label) are taken apart, and "
            "a weight of the whole bag says nothing about its parts. Use one of the two options."
        )
    return replace(layout, meta=(*layout.meta, *(name for name in (part_label, bag_weight) if name is not None)))


class WeighedData(NamedTuple):
    """What was read, and how much every bag counts."""

    data: BagData
    weight: Any


def without_bag_weight(found: BagData, column: str | None) -> WeighedData:
    """Weights of bags taken out of the metadata; none where no column is named."""
    if column is None:
        return WeighedData(found, None)
    values = _of_bags(found.bags, column, found.bags, "weight")
    try:
        weight = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BagDataError(f"--bag-weight {column}: expected a number for every bag ({error}).") from None
    return WeighedData(replace(found, bags=_without(found.bags, column)), weight)


def at_two_levels(found: BagData, part_label: str | None) -> BagData:
    """The bags of a fit where parts have labels of their own: each labelled part is a bag then."""
    if part_label is None:
        return found
    labels = _of_bags(found.bags, part_label, found.bags.by_part(), "label")
    made = two_levels(_without(found.bags, part_label), found.y, labels)
    return replace(found, bags=made.bags, y=made.y)


def _of_bags(bags: Bags, column: str, owners: Bags, what: str) -> Any:
    """One value for every bag, or for every part (``owners``), from a column of the metadata."""
    assert bags.meta is not None
    return label_of_bags(bags.meta[column], owners.index, owners.ids, what)


def _without(bags: Bags, column: str) -> Bags:
    assert bags.meta is not None
    rest = bags.meta.drop(columns=column)
    return bags.with_meta(rest if len(rest.columns) else None)


def layout_notes(layout: Layout) -> dict[str, Any]:
    """What the model file remembers of the layout, where there is something to remember."""
    found = {"part": layout.part, "group": layout.group, "meta": list(layout.meta), "totals": list(layout.totals)}
    return {name: value for name, value in found.items() if value}
