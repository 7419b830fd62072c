"""Which judge says how good a kernel is for some bags."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bagwise.bag_models.classes import ProbitClasses
from bagwise.bag_models.counts import ProbitCounts
from bagwise.bags import Bags
from bagwise.evidence.classes import ClassEvidence
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import NumericalError
from bagwise.gp.features import Features, longer_chunks
from bagwise.inference.chunks import BagModel, OfColumn
from bagwise.inference.kernel_learning.by_bags import ByBags
from bagwise.inference.kernel_learning.by_classes import ByClasses
from bagwise.inference.kernel_learning.by_messages import TOLERANCE_PINNED, ByMessages
from bagwise.inference.kernel_learning.by_moments import MomentEvidence
from bagwise.inference.kernel_learning.rows import CHUNK_ROWS, LearningRows, RowsHere, most_rows
from bagwise.inference.kernel_learning.search import Judge, differentiated
from bagwise.inference.kernel_learning.settings import AnyEvidence, LearningSettings

PIECES = 200  # of all negative bags together where a kernel is judged by all rows: each is a row to differentiate


class LearningSet(NamedTuple):
    """What a judge judges by."""

    features: Features
    kernel: Any
    inducing: Tensor
    bags: Bags
    evidence: AnyEvidence
    share: float = 1.0  # of all rows that there are to learn from

    def rows(self, *, whole: bool = False) -> LearningRows:
        """Its rows wherever chunks live, ``whole`` in a single chunk."""
        return LearningRows(*self._parts(whole))

    def rows_in_pieces(self) -> LearningRows:
        """The same, negative bags in as many pieces as these bags have among all.

        Were a few bags cut finer than all of them are, they would ask for another kernel than all.
        """
        return LearningRows(*self._parts(False, math.ceil(PIECES * self.share)))

    def rows_here(self, *, whole: bool = False) -> RowsHere:
        """Its rows in this process."""
        return RowsHere(*self._parts(whole))

    def _parts(self, whole: bool, pieces: int = 0) -> tuple[Features, Any, Tensor, Bags, BagModel, int]:
        n_rows = self.bags.n_instances
        size = n_rows if whole else longer_chunks(CHUNK_ROWS, n_rows, most_rows(self.features))
        model = (
            ProbitClasses(self.evidence)
            if isinstance(self.evidence, ClassEvidence)
            else ProbitCounts(self.evidence, pieces=pieces)
        )
        return self.features, self.kernel, self.inducing, self.bags, model, size

    def ceiling(self) -> Tensor:
        """The highest log evidence that there can be, (K,)."""
        assert isinstance(self.evidence, CountEvidence)
        return torch.as_tensor(self.evidence.ceiling(), device=self.features.device)


def judge_of(some: LearningSet, settings: LearningSettings) -> Judge:
    """One site per bag, or messages; moments where counts are pinned down and messages do not settle at first.

    Moments too where some bags count for little, because a message is of a whole bag, and where kinds of kernel are
    compared: messages may settle at one of them and not at another.
    """
    if isinstance(some.evidence, ClassEvidence):
        return ByClasses(some.rows_here(), int(settings.random.randint(2**31 - 1)))
    if some.evidence.has_light_bags() or settings.by_moments:
        return differentiated(_moments(some.rows_here(whole=True)))
    if settings.by_bags:
        return ByBags(some.rows_in_pieces(), some.ceiling(), int(settings.random.randint(2**31 - 1)))
    if not settings.pinned:
        return ByMessages(some.rows(), some.ceiling())
    by_messages = ByMessages(some.rows(whole=True), some.ceiling(), TOLERANCE_PINNED)
    try:
        by_messages()
    except NumericalError:
        return differentiated(_moments(some.rows_here(whole=True)))
    return by_messages


def _moments(rows: RowsHere) -> Callable[[], Tensor]:
    """(4.7), which sees all rows at once."""
    (first,) = rows.chunks()
    columns = (OfColumn(column)(first) for column in range(first.evidence.labels.shape[1]))
    judges = [MomentEvidence(column.evidence, column.design.segments) for column in columns]

    def objective() -> Tensor:
        (chunk,) = rows.traced()
        return torch.stack([log_evidence_of(chunk.design) for log_evidence_of in judges]).sum()

    return objective
