"""From the columns of a long table to bags with their labels."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bagwise._frames import PANDAS, as_pandas
from bagwise._validation import check_named_columns, label_of_bags


def listed_names(names: str | Sequence[str] | None) -> list[str]:
    """One name, several, or none, as a list."""
    return [names] if isinstance(names, str) else list(names or ())


class NamedColumns(NamedTuple):
    """Which columns say what of the rows, beside the features."""

    bag: Any
    label: Any
    instance_label: Any
    part: Any
    group: Any
    meta: list[str]
    weight: str | None = None

    def beside_features(self) -> list[str]:
        """The names of all of them but the metadata."""
        others = (self.instance_label, self.part, self.group, self.weight)
        return [self.bag, *listed_names(self.label), *(name for several in others for name in listed_names(several))]


def bags_of_frame(
    cls: type[Any], df: Any, named: NamedColumns, *, features: Sequence[str] | None, ignore: Sequence[str]
) -> Any:
    """Bags from a long table of any kind; every column that is not named is a feature if ``features`` is None."""
    frame, kind = as_pandas(df)
    others = [*named.beside_features(), *ignore]
    used = [*others, *named.meta]
    chosen = [name for name in frame.columns if name not in used] if features is None else list(features)
    check_named_columns(frame, others, chosen)
    return labelled_bags(cls, frame[chosen], None, frame, named, kind)


def labelled_bags(
    cls: type[Any],
    X: Any,
    feature_names: Sequence[str] | None,
    frame: pd.DataFrame,
    named: NamedColumns,
    kind: str = PANDAS,
) -> Any:
    """Rows as bags, by what the columns of a frame say of each; with labels where columns of labels are named."""
    labels, instance_label = listed_names(named.label), named.instance_label
    check_named_columns(frame, [*named.beside_features(), *named.meta], ())
    keys, weights = (None if name is None else frame[name].to_numpy() for name in (named.part, named.weight))
    beside: dict[str, Any] = {"part": keys, "weight": weights, "meta": frame[named.meta] if named.meta else None}
    bags = cls(X, frame[named.bag].to_numpy(), feature_names=feature_names, **beside)._with(kind=kind)
    if named.group is not None:
        bags = bags.with_group(label_of_bags(frame[named.group].iloc[bags.rows], bags.index, bags.ids))
    if not labels and instance_label is None:
        return bags
    y = _bag_labels(frame, labels, bags, single=isinstance(named.label, str))
    return (bags, y) if instance_label is None else (bags, y, frame[instance_label].to_numpy()[bags.rows])


def _bag_labels(frame: pd.DataFrame, labels: list[str], bags: Any, *, single: bool) -> Any:
    if not labels:
        return None
    columns = [label_of_bags(frame[name].iloc[bags.rows], bags.index, bags.ids) for name in labels]
    return side_by_side(columns, single=single)


def side_by_side(columns: Sequence[NDArray[Any]], *, single: bool) -> NDArray[Any]:
    """One array per label as columns of one, or the only one as it is."""
    return columns[0] if single else np.stack(columns, axis=1)
