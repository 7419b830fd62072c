"""Which columns say what about the bags: from options to a fit, and from a fitted model back to its columns."""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bagwise._validation import feature_names, shorten
from bagwise.cli.options import parse_names
from bagwise.cli.stated import NAME_THEM, StatedColumns
from bagwise.evidence import statements as evidence
from bagwise.exceptions import BagDataError
from bagwise.io.bag_data import BagData, Layout, is_archive, read_bags
from bagwise.io.npz import unnamed_columns
from bagwise.models import cards, discover_estimators, load_with_notes
from bagwise.report.answers import label_names

# ---------------------------------------------------------------- for a fit


def usual(name: str) -> StatedColumns:
    """What bags say to a model where no option says it: candidates where it takes them, labels otherwise."""
    return StatedColumns("candidates") if _learns_classes(name) else StatedColumns()


def _learns_classes(name: str) -> bool:
    """Whether candidates are the first thing that a model is for."""
    return cards()[name].evidence[0] == "candidates"


def with_evidence(name: str, stated: StatedColumns, known: str | None, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings for a model that takes this evidence; one that does not, or a contradiction, is an error."""
    known_cards = cards()
    wanted = {stated.kind: stated.option} | ({} if known is None else {"known": f"--known {known}"})
    for kind, option in wanted.items():
        if kind not in known_cards[name].evidence:
            others = [other for other, card in known_cards.items() if kind in card.evidence]
            raise BagDataError(
                f"{option}: {name} takes {', '.join(known_cards[name].evidence)}; "
                + (f"evidence of the kind {kind} is for {', '.join(others)}." if others else f"no model takes {kind}.")
            )
    if stated.kind == "label" and len(stated.names) > 1 and _learns_classes(name):
        raise BagDataError(
            f"{stated.option}: {name} learns one class out of many, whose names stand in one column; where several "
            f"columns of 0/1 say which classes a bag may have, use --candidates {','.join(stated.names)}."
        )
    if "evidence" not in inspect.signature(discover_estimators()[name]).parameters:
        return settings
    if stated.kind == "label" and settings.get("evidence") == "class":
        return settings
    if settings.get("evidence", stated.kind) != stated.kind:
        raise BagDataError(f"--set evidence={settings['evidence']}: contradicts {wanted[stated.kind]}; leave it out.")
    return settings | {"evidence": stated.kind}


def read_for_fit(
    data: Path,
    bag: str | None,
    stated: StatedColumns,
    known: str | None,
    features: list[str],
    ignore: list[str],
    instance_labels: Sequence[str] = (),
    *,
    weight: str | None = None,
    layout: Layout | None = None,
) -> BagData:
    """The bags and what they say; without any of it there is nothing to learn from."""
    _check_names(stated, data)
    found = read_bags(
        data,
        bag=bag,
        labels=array_names(stated, data),
        known=known,
        weight=weight,
        instance_labels=instance_labels,
        features=features or None,
        ignore=ignore,
        layout=layout,
    )
    if found.y is None:
        raise BagDataError(f"{data}: nothing is stated about the bags that could be learned from; {NAME_THEM}.")
    return _numbered(_with_table(found, stated)) if stated.kind == "candidates" else found


def array_names(stated: StatedColumns, data: Path) -> tuple[str, ...]:
    """The columns to read; of an archive, where none are named, the usual array of candidates."""
    return ("candidates",) if stated.kind == "candidates" and not stated.names and is_archive(data) else stated.names


def _numbered(found: BagData) -> BagData:
    """Candidates of an archive that does not name its classes: by their numbers."""
    numbers = tuple(map(str, range(len(found.labels))))
    return replace(found, y=np.asarray(found.y), labels=numbers) if _is_unnamed(found) else found


def _is_unnamed(found: BagData) -> bool:
    return found.labels == tuple(unnamed_columns(len(found.labels)))


def _with_table(found: BagData, stated: StatedColumns) -> BagData:
    """The same; candidates that are no table of bags and classes are an error."""
    if np.ndim(found.y) != 2:
        raise BagDataError(
            f"{stated.option}: expected a column of 0/1 for every class that a bag may have, at least two (in an .npz "
            "archive one array of shape (B, classes)). For the name of the one class of every bag use --label."
        )
    return found


def columns(
    data: Path, bag: str | None, stated: StatedColumns, known: str | None, found: BagData, weight: str | None = None
) -> dict[str, Any]:
    """What the model file remembers."""
    arrays = list(stated.names) if is_archive(data) else []
    by_name = {stated.kind: list(found.labels), "arrays": arrays}
    there = by_name if stated.kind in ("label", "candidates") else {stated.kind: list(stated.names)}
    return {"bag": bag, "known": known} | ({} if weight is None else {"weight": weight}) | there


def _check_names(stated: StatedColumns, data: Path) -> None:
    if stated.kind == "fraction" and not stated.names:
        raise BagDataError(
            f"{stated.option}: expected one column with the fraction of positives in the bag, or several with the "
            "shares of outcomes that add up to 1."
        )
    if stated.kind == "count" and not stated.names:
        raise BagDataError(
            f"{stated.option}: expected one column with the number of positives in the bag, two columns, LO,HI, with "
            "the lowest and the highest number, or three and more with the numbers of outcomes that add up to everyone."
        )
    if stated.kind == "candidates" and len(set(stated.names)) < len(stated.names):
        raise BagDataError(f"{stated.option}: a column is named twice; name one column for every class.")


# ---------------------------------------------------------------- for a fitted model


class SavedModel(NamedTuple):
    """A model from its file, and the columns that the fit found everything in."""

    estimator: Any
    columns: dict[str, Any]

    def label_names(self) -> tuple[str, ...]:
        """Names of the label columns."""
        return label_names(self.estimator, self.columns.get("label"))


def open_model(path: Path) -> SavedModel:
    """The model in a file, with its columns."""
    return SavedModel(*load_with_notes(path))


def fitted(saved: SavedModel, data: Path) -> StatedColumns:
    """What the bags stated in the fit, by the names that it has in a file of this kind."""
    columns = saved.columns
    for kind in ("fraction", "count"):
        if columns.get(kind):
            return StatedColumns(kind, tuple(columns[kind]))
    kind = "candidates" if columns.get("candidates") else "label"
    return StatedColumns(kind, tuple(columns.get("arrays" if is_archive(data) else kind) or ()))


def read_for(
    saved: SavedModel,
    data: Path,
    bag: str | None,
    stated: StatedColumns | None,
    instance_label: str | None = None,
    *,
    may_be_absent: bool = False,
    with_known: bool = False,
    layout: Layout | None = None,
) -> BagData:
    """Bags and what they say, by the columns the model was fitted on unless the user names others."""
    model, asked = saved.estimator, stated or fitted(saved, data)
    _check_names(asked, data)
    _check_comparable(model, asked, parse_names(instance_label))
    found = read_bags(
        data,
        bag=bag or saved.columns.get("bag"),
        labels=array_names(asked, data),
        known=saved.columns.get("known") if with_known else None,
        weight=saved.columns.get("weight"),
        instance_labels=parse_names(instance_label),
        features=fitted_features(model),
        labels_may_be_absent=may_be_absent,
        layout=layout,
    )
    if not model.of_classes or is_archive(data):
        return found
    y = found.y if asked.kind == "candidates" else _as_text(found.y, model.classes_)
    return replace(found, y=y, instance_y=_as_text(found.instance_y, model.instance_classes_))


def _check_comparable(model: Any, stated: StatedColumns, instance_labels: list[str]) -> None:
    """Refuse a truth of a kind that the model's answers cannot be compared with."""
    if not model.of_classes:
        if stated.kind == "candidates":
            raise BagDataError(
                f"{stated.option}: {type(model).__name__} does not choose one class out of many; compare it with "
                "--label, --fraction or --count."
            )
    elif stated.kind in ("fraction", "count") or (stated.kind == "label" and len(stated.names) > 1):
        raise BagDataError(
            f"{stated.option}: {type(model).__name__} chooses one class out of many; compare it with --label COL, the "
            "column with the true class, or with --candidates COL,COL,..."
        )
    elif len(instance_labels) > 1:
        raise BagDataError(
            f"--instance-label {','.join(instance_labels)}: {type(model).__name__} chooses one class out of many for "
            f"every instance; name the one column with the class, or {model.instance_classes_[-1]!s} where it has none."
        )


def _as_text(values: Any, classes: Any) -> Any:
    """Numbers of a table that are names of classes, such as the digits of an image: as these names."""
    if values is None or np.asarray(values).dtype.kind not in "iuf" or classes.dtype.kind in "iuf":
        return values
    texts = np.array([None if value != value else f"{value:.15g}" for value in values.tolist()], dtype=object)
    return texts if set(texts) - {None} <= set(classes.tolist()) else values


def fitted_features(model: Any) -> list[str] | None:
    """The feature columns of the fit, where they had names."""
    names = feature_names(model)
    return None if names is None else list(names)


def truth(saved: SavedModel, found: BagData, stated: StatedColumns | None, data: Path) -> Any:
    """What is to be compared with the model's answers: labels in its own classes, or an ``Evidence``."""
    if found.y is None:
        return None
    model, asked = saved.estimator, stated or fitted(saved, data)
    kind = asked.kind
    if model.of_classes:
        return _by_class(_with_table(found, asked), model.classes_) if kind == "candidates" else np.asarray(found.y)
    if kind == model.kind_of_y and kind != "label":
        return found.y  # shares or numbers, as the fit takes them
    if kind == "fraction":
        return evidence.fraction(found.y, ids=found.bags.ids)
    if kind == "count":
        ends = np.asarray(found.y).reshape(len(found.bags), -1)
        if ends.shape[1] > 2:
            raise BagDataError(f"--count: expected one number per bag or two, got an array of shape {ends.shape}.")
        return evidence.count(ends[:, 0], ends[:, -1], ids=found.bags.ids)
    return found.y if model.kind_of_y == "label" else evidence.label(found.y)


def _by_class(found: BagData, classes: Any) -> Any:
    """Candidates in the order of the model's classes: by the names of their columns, where these have names."""
    names = [str(name) for name in classes]
    if _is_unnamed(found):
        return np.asarray(found.y)
    if set(found.labels) != set(names):
        raise BagDataError(
            f"candidates {shorten(found.labels, 12)}: expected one column for every class of the model, "
            f"{shorten(names, 12)}. For the name of the true class use --label COL."
        )
    return found.y[names].to_numpy()
