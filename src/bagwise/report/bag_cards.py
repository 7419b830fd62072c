"""Some bags to look at, and the table of all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bagwise.plots import as_images
from bagwise.report.answers import Answers
from bagwise.report.figures import image_uri

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

INSTANCES_SHOWN = 12
ROWS_SHOWN = 100


@dataclass(frozen=True)
class Instance:
    """One instance of a bag on the page."""

    row: int  # in the user's table
    probability: float
    positive: bool | None  # None: not known
    image: str | None


@dataclass(frozen=True)
class BagCard:
    """One bag on the page, its most probable instances first."""

    name: str
    why: str
    probability: float
    positive: bool | None
    instances: list[Instance]
    size: int


@dataclass(frozen=True)
class BagRow:
    """One line of the table of bags."""

    name: str
    size: int
    probabilities: list[float]
    truths: list[bool | None]


def bag_cards(answers: Answers, image_shape: Sequence[int] | None) -> list[BagCard]:
    """A few bags, by the first label: the clearest, the wrong ones, the doubtful ones."""
    truth = None if answers.bag_truth is None else answers.bag_truth[:, 0]
    images = _Images(answers, image_shape) if image_shape is not None else None
    chosen = choose_bags(answers.bag_probability[:, 0], truth)
    return [_card(answers, number, why, images) for number, why in chosen.items()]


def choose_bags(probability: Floats, truth: Floats | None) -> dict[int, str]:
    """Numbers of the bags to show, and why; no bag twice."""
    down = np.argsort(-probability, kind="stable")
    doubt = np.argsort(np.abs(probability - 0.5), kind="stable")
    chosen: dict[int, str] = {}
    for why, numbers, most in (
        ("most probable", down[probability[down] > 0.5], 4),
        ("judged wrongly", _mistakes(probability, truth), 2),
        ("least certain", doubt, 2),
        ("least probable", down[::-1], 2),
    ):
        fresh = [int(number) for number in numbers if int(number) not in chosen][:most]
        chosen |= dict.fromkeys(fresh, why)
    return chosen


def _mistakes(probability: Floats, truth: Floats | None) -> Ints:
    """Wrongly judged bags, the worst first."""
    if truth is None:
        return np.empty(0, dtype=np.int64)
    error = np.where(np.isnan(truth), 0.0, np.abs(probability - truth))
    worst = np.argsort(-error, kind="stable")
    return worst[error[worst] > 0.5]


class _Images:
    """Images of instances, all on the same grey scale."""

    def __init__(self, answers: Answers, image_shape: Sequence[int]) -> None:
        self.bags = answers.bags
        self.shape = image_shape
        self.low, self.high = float(answers.bags.X.min()), float(answers.bags.X.max())

    def of_bag(self, number: int, order: Ints) -> list[str]:
        return [image_uri(image, self.low, self.high) for image in as_images(self.bags[number], self.shape)[order]]


def _card(answers: Answers, number: int, why: str, images: _Images | None) -> BagCard:
    bags = answers.bags
    start, stop = bags.offsets[number], bags.offsets[number + 1]
    probability = answers.instance_probability[start:stop, 0]
    order = np.argsort(-probability, kind="stable")[:INSTANCES_SHOWN]
    truth = (
        answers.instance_truth[start:stop, 0] if answers.instance_truth is not None else np.full(stop - start, np.nan)
    )
    pictures = images.of_bag(number, order) if images is not None else [None] * len(order)
    return BagCard(
        name=bags.ids[number],
        why=why,
        probability=float(answers.bag_probability[number, 0]),
        positive=None if answers.bag_truth is None else _known(answers.bag_truth[number, 0]),
        instances=[
            Instance(int(bags.rows[start + place]), float(probability[place]), _known(truth[place]), picture)
            for place, picture in zip(order, pictures, strict=True)
        ],
        size=int(stop - start),
    )


def bag_rows(answers: Answers, n_labels: int) -> Iterator[BagRow]:
    """The most probable bags, by the first label, down to ``ROWS_SHOWN``."""
    for number in np.argsort(-answers.bag_probability[:, 0], kind="stable")[:ROWS_SHOWN]:
        truths = [None] * n_labels if answers.bag_truth is None else answers.bag_truth[number, :n_labels].tolist()
        yield BagRow(
            name=answers.bags.ids[number],
            size=int(answers.bags.sizes[number]),
            probabilities=answers.bag_probability[number, :n_labels].tolist(),
            truths=[None if truth is None else _known(truth) for truth in truths],
        )


def _known(truth: float) -> bool | None:
    return None if np.isnan(truth) else bool(truth == 1)
