"""From the columns of a long table to bags with their labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise._frames import PANDAS
from bagwise._validation import check_named_columns, label_of_bags


def listed_names(names: str | Sequence[str] | None) -> list[str]:
    """One name, several, or none, as a list."""
    return [names] if isinstance(names, str) else list(names or ())


def labelled_bags(
    cls: type[Any],
    X: Any,
    feature_names: Sequence[str] | None,
    frame: pd.DataFrame,
    bag: str,
    label: str | Sequence[str] | None,
    instance_label: str | None,
    part: str | None,
    group: str | None,
    meta: Sequence[str],
    weight: str | None = None,
    kind: str = PANDAS,
) -> Any:
    """Rows as bags, by what the columns of a frame say of each; with labels where columns of labels are named."""
    labels = listed_names(label)
    check_named_columns(frame, [bag, *labels, *map(str, filter(None, (instance_label, part, group))), *meta], ())
    keys, weights = (None if name is None else frame[name].to_numpy() for name in (part, weight))
    beside: dict[str, Any] = {"part": keys, "weight": weights, "meta": frame[list(meta)] if meta else None}
    bags = cls(X, frame[bag].to_numpy(), feature_names=feature_names, **beside)._with(kind=kind)
    if group is not None:
        bags = bags.with_group(label_of_bags(frame[group].iloc[bags.rows], bags.index, bags.ids))
    if not labels and instance_label is None:
        return bags
    y = _bag_labels(frame, labels, bags, single=isinstance(label, str))
    return (bags, y) if instance_label is None else (bags, y, frame[instance_label].to_numpy()[bags.rows])


def _bag_labels(frame: pd.DataFrame, labels: list[str], bags: Any, *, single: bool) -> Any:
    if not labels:
        return None
    columns = [label_of_bags(frame[name].iloc[bags.rows], bags.index, bags.ids) for name in labels]
    return side_by_side(columns, single=single)


def side_by_side(columns: Sequence[NDArray[Any]], *, single: bool) -> NDArray[Any]:
    """One array per label as columns of one, or the only one as it is."""
    return columns[0] if single else np.stack(columns, axis=1)
