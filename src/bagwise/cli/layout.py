"""What the options about parts, groups, metadata and folders come to together."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from bagwise._validation import label_of_bags
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
) -> Layout:
    """The options, and what the fit found in columns that need not be there again."""
    before = remembered or {}
    asked = {name for name in (part, group, *parse_names(meta)) if name is not None}
    known = {before.get("part"), before.get("group"), *(before.get("meta") or ())} - {None}
    return Layout(
        part or before.get("part"),
        group or before.get("group"),
        tuple(parse_names(meta) or before.get("meta") or ()),
        table,
        skip_bad,
        frozenset(known - asked),
    )


def with_part_label(layout: Layout, part_label: str | None) -> Layout:
    """The layout that reads labels of parts as well; they come as metadata until ``at_two_levels`` takes them out."""
    if part_label is None:
        return layout
    if layout.part is None:
        raise BagDataError(f"--part-label {part_label}: name the column of the parts themselves with --part.")
    return replace(layout, meta=(*layout.meta, part_label))


def at_two_levels(found: BagData, part_label: str | None) -> BagData:
    """The bags of a fit where parts have labels of their own: each labelled part is a bag then."""
    meta = found.bags.meta
    if part_label is None or meta is None:
        return found
    parts = found.bags.by_part()
    labels = label_of_bags(meta[part_label], parts.index, parts.ids)
    rest = meta.drop(columns=part_label)
    made = two_levels(found.bags.with_meta(rest if len(rest.columns) else None), found.y, labels)
    return replace(found, bags=made.bags, y=made.y)


def layout_notes(layout: Layout) -> dict[str, Any]:
    """What the model file remembers of the layout, where there is something to remember."""
    found = {"part": layout.part, "group": layout.group, "meta": list(layout.meta)}
    return {name: value for name, value in found.items() if value}
