"""How a kernel is to be learned, and from what."""

from typing import NamedTuple

import numpy as np

from bagwise.evidence.classes import ClassEvidence
from bagwise.evidence.counts import CountEvidence

AnyEvidence = CountEvidence | ClassEvidence


class LearningSettings(NamedTuple):
    """How to search."""

    n_restarts: int
    learn_inducing: bool
    random: np.random.RandomState
    by_bags: bool = False  # one site per bag, rather than messages to single instances
    pinned: bool = False  # whether counts are pinned down
    by_moments: bool = False  # of pinned counts, even where messages settle: to compare kinds of kernel by one judge
    rows: int | None = None  # how many rows to learn from at most; None for all
    one_stage: bool = False  # learn from the first rows alone
    too_little: float | None = None  # nats of gain up to which to search from other starts, too; None for never
