"""Probit instances in bags that have one class out of many, known up to a set of candidates (theory section 16).

There is one latent function per class. A bag of class y holds at least one instance that is positive in column y and
none that is positive in another; a bag of none of the classes holds no positive at all. With Z0_k = Π cdf(−f_ik) and
Z1_k = 1 − Z0_k a bag that states "my class is in S" has probability

    Z = Π_k Z0_k · Σ_{y ∈ S} Z1_y / Z0_y          (the quotient is 1 where y is "none of them").                 (16.1)

Under it the bag has class y with probability w_y = softmax over S of log(Z1/Z0), and instance i is positive in column k
with probability r_ik = w_k cdf(f_ik) / Z1_k. So G = ∂ log Z/∂f = r h(f) − (1 − r) h(−f), and as Z is affine in every
cdf(f_ik) the second derivative −f G − G² of counts (2.3) holds here, too.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.evidence.classes import ClassEvidence
from bagwise.numerics.none_or_some import none_or_some
from bagwise.numerics.segments import ONCE, BagWeights, Segments
from bagwise.numerics.special import hazard, log_ndtr


class ClassOdds(NamedTuple):
    """What the columns of a bag say: log Z0 and log Z1, (b, K) each."""

    none: Tensor
    some: Tensor

    def log_weights(self, table: Tensor) -> Tensor:
        """log(Z1/Z0) of the candidates and, last, 0 for none of them, (b, K + 1); −∞ where a class is excluded."""
        ratio = torch.nn.functional.pad(self.some - self.none, (0, 1))
        return ratio.masked_fill(~table, -torch.inf)


def odds_of(f: Tensor, segments: Segments) -> ClassOdds:
    """log Z0 and log Z1 of some bags from the latent values (n, K) of their instances."""
    logs = none_or_some(f, segments)
    return ClassOdds(logs.none, logs.some)


def class_terms(f: Tensor, table: Tensor, segments: Segments) -> tuple[Tensor, Tensor]:
    """log Z per bag (b,) and G per instance (n, K) for candidates (b, K + 1); a row of False states nothing.

    Column K of the table is "none of them".
    """
    stated = table.any(1)
    odds = odds_of(f, segments)
    logs = odds.log_weights(table | ~stated[:, None])
    total = torch.logsumexp(logs, dim=1)
    log_w = logs[:, :-1] - total[:, None]
    log_r = (segments.spread(log_w - odds.some) + log_ndtr(f)).clamp(max=0.0)
    g = torch.exp(log_r) * hazard(f) + torch.expm1(log_r) * hazard(-f)
    log_z = odds.none.sum(1) + total
    return log_z.masked_fill(~stated, 0.0), g.masked_fill(~segments.spread(stated)[:, None], 0.0)


def site_terms(z: Tensor, table: Tensor, possible: Tensor) -> tuple[Tensor, Tensor]:
    """The same for bags of one, (b, K), each of which states something, as far as some classes go; differentiable in z.

    ``possible`` (b, K) holds all candidates. What the other classes say, that none of them is shown, is left out.
    """
    log_p, log_q = log_ndtr(z), log_ndtr(-z)
    logs = ClassOdds(log_q, log_p).log_weights(table)
    total = torch.logsumexp(logs, dim=1)
    w = torch.exp(logs[:, :-1] - total[:, None])
    g = w * hazard(z) - (1.0 - w) * hazard(-z)
    return log_q.masked_fill(~possible, 0.0).sum(1) + total, g.masked_fill(~possible, 0.0)


@dataclass(frozen=True)
class ClassChunk:
    """What the bags of one chunk state: candidates (b, K + 1), "none of them" last; a row of False where nothing."""

    table: Tensor
    weights: ClassVar[BagWeights] = ONCE  # every bag counts once

    def terms(self, f: Tensor, segments: Segments) -> tuple[Tensor, Tensor]:
        """log Z and G (n, K) at latent values f. log Z is of all columns: it stands in the first of (b, K)."""
        log_z, g = class_terms(f, self.table, segments)
        return torch.nn.functional.pad(log_z[:, None], (0, f.shape[1] - 1)), g

    @property
    def labels(self) -> Tensor:
        """(b, K) of NaN: the evidence of a single column is no label."""
        return torch.full(
            (len(self.table), self.table.shape[1] - 1), torch.nan, dtype=torch.float64, device=self.table.device
        )

    def informed(self, column: int, segments: Segments) -> Tensor:
        """(n,) which instances the evidence says anything about: those of bags that state something, in any column."""
        return segments.spread(self.table.any(1))


class ProbitClasses:
    """Probit instances whose bags have a class, cut into chunks on demand."""

    def __init__(self, evidence: ClassEvidence) -> None:
        self._evidence = evidence

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where the bags lie among all instances."""
        return self._evidence.offsets

    def chunk(self, part: slice, dtype: torch.dtype, device: torch.device) -> ClassChunk:
        """What a run of bags states."""
        return ClassChunk(torch.from_numpy(self._evidence.table[part].copy()).to(device))
