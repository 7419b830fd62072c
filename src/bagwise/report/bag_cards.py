"""Some bags to look at, and the table of all of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jinja2.utils import htmlsafe_json_dumps
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.evidence.statements import COUNT, FRACTION, LABEL
from bagwise.plots import as_images
from bagwise.predict.counts import FractionSummary
from bagwise.report.answers import PLAIN_WORDS, Answers
from bagwise.report.figures import image_uri

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

INSTANCES_SHOWN = 12
ROWS_SHOWN = 100
MOST_IN_TABLE = 10_000  # bags that the page holds: some hundred bytes each …
MOST_BYTES = 1_200_000  # … and fewer where names and further columns are long
UNKNOWN = "–"


@dataclass(frozen=True)
class Instance:
    """One instance of a bag on the page."""

    place: str  # what it is known by: its part and metadata, or its row in the user's table
    probability: float
    positive: bool | None  # None: not known
    image: str | None


@dataclass(frozen=True)
class BagCard:
    """One bag on the page, its most probable instances first."""

    name: str
    why: str
    of: str | None  # the class that the card is about, where there are many
    probability: float
    stated: tuple[str, str] | None  # how and what
    instances: list[Instance]
    size: int
    expected: str | None = None  # share of positives with its interval, where bags state shares


@dataclass(frozen=True)
class BagTable:
    """Bags as rows of plain values, the first of very many; ``kinds`` says of every column what it holds."""

    header: tuple[str, ...]
    kinds: tuple[str, ...]  # "text", "number" or "probability"
    rows: list[list[Any]]
    sorted: int = 2  # the column that they are sorted by


def bag_cards(answers: Answers, image_shape: Sequence[int] | None) -> list[BagCard]:
    """A few bags, by the first label: the clearest, the wrong ones, the doubtful ones."""
    images = _Images(answers, image_shape) if image_shape is not None else None
    if answers.of_shares:
        chosen = choose_by_surprise(answers)
    elif answers.classes is not None:
        probability = answers.bag_probability.max(axis=1)
        chosen = choose_bags(probability, class_mistakes(probability, answers.classes.hits()))
    else:
        probability = answers.bag_probability[:, 0]
        truth = None if answers.bag_truth is None else answers.bag_truth[:, 0]
        chosen = choose_bags(probability, label_mistakes(probability, truth))
    return [_card(answers, number, why, images) for number, why in chosen.items()]


def choose_bags(probability: Floats, mistakes: Ints) -> dict[int, str]:
    """Numbers of the bags to show, and why; no bag twice. ``mistakes`` are the wrongly judged ones, the worst first."""
    down = np.argsort(-probability, kind="stable")
    doubt = np.argsort(np.abs(probability - 0.5), kind="stable")
    chosen: dict[int, str] = {}
    for why, numbers, most in (
        ("most probable", down[probability[down] > 0.5], 4),
        ("judged wrongly", mistakes, 2),
        ("least certain", doubt, 2),
        ("least probable", down[::-1], 2),
    ):
        fresh = [int(number) for number in numbers if int(number) not in chosen][:most]
        chosen |= dict.fromkeys(fresh, why)
    return chosen


def choose_by_surprise(answers: Answers) -> dict[int, str]:
    """Numbers of the bags to show where they state shares, and why; no bag twice."""
    odd, expected = np.argsort(-answers.surprise(), kind="stable"), np.argsort(-answers.bag_probability[:, 0])
    if answers.counts is not None:
        expected = np.argsort(-answers.counts.expected.mean)
    of = f"share of {answers.labels[0]}" if answers.outcomes else "share"
    chosen: dict[int, str] = {}
    for why, numbers, most in (
        ("most surprising", odd[answers.surprise()[odd] > 1.0], 4),
        (f"highest {of} expected", expected, 2),
        (f"lowest {of} expected", expected[::-1], 2),
        ("least surprising", odd[::-1], 2),
    ):
        fresh = [int(number) for number in numbers if int(number) not in chosen][:most]
        chosen |= dict.fromkeys(fresh, why)
    return chosen


def label_mistakes(probability: Floats, truth: Floats | None) -> Ints:
    """Bags whose more probable label is not the true one (0, 1, NaN), the worst first."""
    if truth is None:
        return np.empty(0, dtype=np.int64)
    wrong = ~np.isnan(truth) & ((probability > 0.5) != (truth == 1))
    worst = np.argsort(-np.abs(probability - truth), kind="stable")
    mistakes: Ints = worst[wrong[worst]]
    return mistakes


def class_mistakes(probability: Floats, hits: Floats) -> Ints:
    """Bags whose most probable class is wrong, the surest first; ``hits`` (1, 0, NaN) says whether it is right."""
    surest = np.argsort(-probability, kind="stable")
    mistakes: Ints = surest[hits[surest] == 0]
    return mistakes


class _Images:
    """Images of instances, all on the same grey scale."""

    def __init__(self, answers: Answers, image_shape: Sequence[int]) -> None:
        self.bags = answers.bags
        self.shape = image_shape
        self.low, self.high = extremes(answers.bags)

    def of_bag(self, number: int, order: Ints) -> list[str]:
        return [image_uri(image, self.low, self.high) for image in as_images(self.bags[number], self.shape)[order]]


def extremes(bags: Bags) -> tuple[float, float]:
    """The smallest and the largest number of all rows."""
    parts = [bags.X] if not bags.stays_in_file else bags.X.blocks(8192)
    ends = [(float(rows.min()), float(rows.max())) for rows in parts]
    return min(low for low, _ in ends), max(high for _, high in ends)


def _card(answers: Answers, number: int, why: str, images: _Images | None) -> BagCard:
    if answers.outcomes:
        outcome = answers.most_surprising(number)
        return replace(_card(outcome, number, why, images), of=outcome.labels[0])
    bags = answers.bags
    column = 0 if answers.classes is None else int(answers.bag_probability[number].argmax())
    start, stop = bags.offsets[number], bags.offsets[number + 1]
    probability = answers.instance_probability[start:stop, column]
    order = np.argsort(-probability, kind="stable")[:INSTANCES_SHOWN]
    truth = (
        answers.instance_truth[start:stop, column]
        if answers.instance_truth is not None
        else np.full(stop - start, np.nan)
    )
    pictures = images.of_bag(number, order) if images is not None else [None] * len(order)
    return BagCard(
        name=bags.ids[number],
        why=why,
        of=None if answers.classes is None else answers.labels[column],
        probability=float(answers.bag_probability[number, column]),
        stated=_card_statement(answers, number),
        instances=[
            Instance(bags.describe(int(start + place)), float(probability[place]), _known(truth[place]), picture)
            for place, picture in zip(order, pictures, strict=True)
        ],
        size=int(stop - start),
        expected=_interval(answers.counts.expected, number) if answers.of_shares and answers.counts else None,
    )


def table_of_bags(answers: Answers, n_labels: int, about: Mapping[str, Sequence[Any]]) -> BagTable:
    """The bags, the most probable by the first label first; ``about`` are the user's own columns."""
    if answers.outcomes:
        return _table_of_outcomes(answers, n_labels, about)
    if answers.of_shares:
        return _table_of_shares(answers, about)
    columns: list[tuple[str, str, Sequence[Any]]] = [
        ("bag", "text", answers.bags.ids),
        ("instances", "number", answers.bags.sizes.tolist()),
    ]
    for column in range(n_labels):
        columns += _label_columns(answers, column)
    if answers.counts is not None:
        expected = answers.counts.expected
        intervals = [_interval(expected, number) for number in range(len(answers.bags))]
        columns.append(("expected fraction (90 % interval)", "text", intervals))
    columns += [(name, "text", list(map(str, values))) for name, values in about.items()]
    return _first_rows(columns, answers.bag_probability[:, 0])


def _table_of_shares(answers: Answers, about: Mapping[str, Sequence[Any]]) -> BagTable:
    """Bags that state a share beside what was expected of it."""
    columns = _surprises(answers) + _share_columns(answers, ("expected share", "90 % interval", "stated"))
    columns += [(name, "text", list(map(str, values))) for name, values in about.items()]
    return _first_rows(columns, answers.surprise())


def _table_of_outcomes(answers: Answers, n_labels: int, about: Mapping[str, Sequence[Any]]) -> BagTable:
    """Bags that state shares of several outcomes, and which of them is farthest from what was expected."""
    columns = _surprises(answers)
    farthest = [answers.most_surprising(number).labels[0] for number in range(len(answers.bags))]
    columns.append(("most surprising", "text", farthest))
    for outcome in answers.outcomes[:n_labels]:
        name = outcome.labels[0]
        columns += _share_columns(outcome, (f"{name} expected", f"{name}, 90 % interval", f"{name} stated"))
    columns += [(name, "text", list(map(str, values))) for name, values in about.items()]
    return _first_rows(columns, answers.surprise())


def _surprises(answers: Answers) -> list[tuple[str, str, Sequence[Any]]]:
    return [
        ("bag", "text", answers.bags.ids),
        ("individuals", "number", answers.bags.totals.tolist()),
        ("surprise", "number", answers.surprise().round(2).tolist()),
    ]


def _share_columns(answers: Answers, names: tuple[str, str, str]) -> list[tuple[str, str, Sequence[Any]]]:
    """Expected share, its interval and what is stated."""
    assert answers.counts is not None
    expected, everyone = answers.counts.expected, range(len(answers.bags))
    intervals = [f"{expected.lower[b]:.2f} to {expected.upper[b]:.2f}" for b in everyone]
    stated = [_stated(answers, b, 0) for b in everyone]
    means = expected.mean.round(4).tolist()
    return list(zip(names, ("probability", "text", "text"), (means, intervals, stated), strict=True))


def _first_rows(columns: Sequence[tuple[str, str, Sequence[Any]]], rank: Floats) -> BagTable:
    """Columns of all bags as rows, the highest rank first."""
    header, kinds, values = zip(*columns, strict=True)
    order = np.argsort(-rank, kind="stable")[:MOST_IN_TABLE]
    rows = [[column[number] for column in values] for number in order]
    bytes_so_far = np.cumsum([len(htmlsafe_json_dumps(row)) for row in rows])
    return BagTable(header, kinds, rows[: max(1, int(np.searchsorted(bytes_so_far, MOST_BYTES)))])


def _label_columns(answers: Answers, column: int) -> Iterator[tuple[str, str, Sequence[Any]]]:
    """The probability of a label and, where something is known of it, what."""
    single = "probability" if answers.words == PLAIN_WORDS else f"probability of {answers.words[1]}"
    name = answers.labels[column] if answers.several else single
    yield name, "probability", answers.bag_probability[:, column].round(4).tolist()
    if answers.bag_truth is not None:
        stated = [_stated(answers, number, column) for number in range(len(answers.bags))]
        yield "label" if answers.counts is None else "stated", "text", stated


def _card_statement(answers: Answers, number: int) -> tuple[str, str] | None:
    if answers.classes is not None:
        return _candidate_statement(answers.labels, answers.classes.bag_candidates, number)
    text = _stated(answers, number, 0)
    if text == UNKNOWN:
        return None
    kind = LABEL if answers.stated is None else int(answers.stated.kind[number])
    return {LABEL: "labelled", FRACTION: "stated fraction", COUNT: "stated number"}[kind], text


def _candidate_statement(labels: Sequence[str], table: NDArray[np.bool_] | None, number: int) -> tuple[str, str] | None:
    names = [] if table is None else [labels[int(place)] for place in np.flatnonzero(table[number])]
    return None if not names else ("class" if len(names) == 1 else "candidates", ", ".join(names))


def _stated(answers: Answers, number: int, column: int) -> str:
    """What is known of a bag: a fraction, a range, positive or negative, or nothing."""
    stated = answers.stated
    if stated is not None and stated.kind[number] == FRACTION:
        return f"{stated.first[number]:.2f}"
    if stated is not None and stated.kind[number] == COUNT:
        low, high = stated.first[number], stated.second[number]
        return f"{low:g} ({low / answers.bags.totals[number]:.2f})" if low == high else f"{low:g} to {high:g}"
    known = None if answers.bag_truth is None else _known(answers.bag_truth[number, column])
    return UNKNOWN if known is None else answers.words[known]


def _interval(expected: FractionSummary, number: int) -> str:
    mean, lower, upper = (part[number] for part in expected)
    return f"{mean:.2f} ({lower:.2f} to {upper:.2f})"


def _known(truth: float) -> bool | None:
    return None if np.isnan(truth) else bool(truth == 1)
