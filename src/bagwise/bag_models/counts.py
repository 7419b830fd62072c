"""Probit instances under a potential on the number of positives (theory sections 1.1 and 2).

For a bag with latent values f the evidence has probability Z(f), and under q(m) ∝ ψ(#{m > 0}) N(m; f, I) the mean of m
is f + G with G = ∂ log Z / ∂f (equation (1.4)); Var m = 1 − f G − G² (2.3). So log Z and G are all that an inference
needs to know. Plain labels have a closed form at any bag size; everything else goes through the count programme.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bag_models.pieces import Pieces, cut_bags, piece_rows
from bagwise.bags import ragged_ranges
from bagwise.evidence.counts import CountEvidence, informed_rows
from bagwise.numerics.counting.programme import CountPotentials, count_posterior
from bagwise.numerics.none_or_some import none_or_some
from bagwise.numerics.segments import ONCE, BagWeights, Segments
from bagwise.numerics.special import log_ndtr, log_pdf


def label_terms(f: Tensor, labels: Tensor, segments: Segments, noise: float = 0.0) -> tuple[Tensor, Tensor]:
    """log Z per bag (b, K) and G per instance (n, K) for binary labels (b, K); NaN states nothing and gives zeros.

    With S = Σ log cdf(−f) over the bag, the log probability that all are negative:
      label 0:  log Z = S,               G = −h(−f)
      label 1:  log Z = log(1 − e^S),    G = h(−f) e^S / (1 − e^S)      by (0.1)–(0.2), safe where e^S rounds to 1.
    A label that is wrong with probability ε has Z_ε = ε + (1 − 2ε) Z, and G shrinks by (1 − 2ε) Z / Z_ε.
    """
    logs = none_or_some(f, segments)
    log_z = torch.where(labels == 1, logs.some, logs.none)
    weight = torch.where(labels == 1, logs.none - logs.some, torch.zeros_like(logs.none))
    missing = torch.isnan(labels)
    g = segments.spread(torch.sign(labels - 0.5)) * torch.exp(log_pdf(f) - logs.negative + segments.spread(weight))
    if noise > 0:
        right = log_z + math.log1p(-2.0 * noise)
        log_z = torch.logaddexp(right, torch.full_like(right, math.log(noise)))
        g = g * segments.spread(torch.exp(right - log_z))
    return log_z.masked_fill(missing, 0.0), g.masked_fill(segments.spread(missing), 0.0)


def count_terms(f: Tensor, potentials: CountPotentials, known: Tensor) -> tuple[Tensor, Tensor]:
    """log Z (b,) and G (n,) for any potentials; ``known`` holds 0, 1 or NaN per instance.

    A known label keeps its own factor cdf(±f) and forbids the other sign (section 2.1). By (2.2)
    G = r h(f) − (1 − r) h(−f), both terms in logs.
    """
    log_p, log_q = log_ndtr(f), log_ndtr(-f)
    allowed_p, allowed_q = log_p.masked_fill(known == 0, -torch.inf), log_q.masked_fill(known == 1, -torch.inf)
    found = count_posterior(allowed_p, allowed_q, potentials)
    density = log_pdf(f)
    return found.log_z, torch.exp(found.log_r + density - log_p) - torch.exp(found.log_rbar + density - log_q)


@dataclass(frozen=True)
class Tabled:
    """The bags of a chunk that state a table, for one label column."""

    bags: Tensor  # (t,) their numbers in the chunk
    rows: Tensor  # (m,) the rows of their instances
    informed: Tensor  # (m,) whether the evidence says anything about the row
    potentials: CountPotentials
    known: Tensor  # (m,)


@dataclass(frozen=True)
class ChunkEvidence:
    """What the bags of one chunk state: plain labels (b, K), NaN where a table does instead or nothing is known."""

    labels: Tensor
    tabled: tuple[Tabled | None, ...]
    noise: float = 0.0  # probability that a label is wrong
    weights: BagWeights = ONCE
    n_labelled: tuple[int, ...] | None = None  # bags with a plain label, of every column; None where nobody has counted
    pieces: tuple[Pieces | None, ...] | None = None  # of every column; None where no bag is cut

    def terms(self, f: Tensor, segments: Segments) -> tuple[Tensor, Tensor]:
        """log Z (b, K) and G (n, K) at latent values f (n, K), of every bag as if it counted once."""
        log_z, g = label_terms(f, self.labels, segments, self.noise)
        for column, part in enumerate(self.tabled):
            if part is not None:
                log_z[part.bags, column], g[part.rows, column] = count_terms(
                    f[part.rows, column], part.potentials, part.known
                )
        return log_z, g

    def slopes(self, mean: Tensor, variance: Tensor, segments: Segments) -> tuple[Tensor, Tensor, Tensor]:
        """log Z (b, K), and its first two derivatives in the mean of a normal law of f (n, K) that is averaged over."""
        s = torch.sqrt(1.0 + variance)
        z = mean / s
        log_z, g = self.terms(z, segments)
        return log_z, g / s, -(z * g + g.square()) / s.square()

    def of_column(self, column: int) -> "ChunkEvidence":
        """What the bags state about one label column."""
        counted = None if self.n_labelled is None else (self.n_labelled[column],)
        pieces = None if self.pieces is None else (self.pieces[column],)
        return replace(
            self,
            labels=self.labels[:, column : column + 1],
            tabled=(self.tabled[column],),
            n_labelled=counted,
            pieces=pieces,
        )

    def of_pieces(self, pieces: Pieces) -> "ChunkEvidence":
        """The same of one label column, every piece of a bag stating what the bag does (13.5)."""
        (table,) = self.tabled
        more = len(pieces.bag) - len(self.labels)  # every one of them is labelled
        return replace(
            self,
            labels=self.labels[pieces.bag],
            tabled=(None if table is None else replace(table, bags=pieces.first[table.bags]),),
            weights=self.weights.some(pieces.bag),
            n_labelled=None if self.n_labelled is None else (self.n_labelled[0] + more,),
            pieces=None,
        )

    def joined(self, others: Sequence["ChunkEvidence"]) -> "ChunkEvidence":
        """With the bags of further chunks, where all of them state labels and none a table."""
        every = (self, *others)
        weights = self.weights.joined([one.weights for one in others])
        labels = torch.cat([one.labels for one in every]).double()
        return ChunkEvidence(labels, self.tabled, self.noise, weights)

    def informed(self, column: int, segments: Segments) -> Tensor:
        """(n,) which instances the evidence of one column says anything about."""
        rows = segments.spread(~torch.isnan(self.labels[:, column]))
        part = self.tabled[column]
        if part is not None:
            rows[part.rows] = part.informed
        return rows


class ProbitCounts:
    """Probit instances whose bags state something about counts, cut into chunks on demand.

    ``pieces`` is for inferences with one site per bag: all negative bags are cut into about so many (0: none is cut).
    """

    def __init__(self, evidence: CountEvidence, *, pieces: int = 0) -> None:
        self._evidence = evidence
        self._piece_rows = piece_rows(evidence, pieces) if pieces else None

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where the bags lie among all instances."""
        return self._evidence.offsets

    def chunk(self, part: slice, dtype: torch.dtype, device: torch.device) -> ChunkEvidence:
        """What a run of bags states."""
        stated = self._evidence.labels[part]
        return ChunkEvidence(
            torch.as_tensor(stated, dtype=dtype, device=device),
            tabled_columns(self._evidence, part, dtype, device),
            self._evidence.label_noise,
            chunk_weights(self._evidence, part, device),
            tuple((~np.isnan(stated)).sum(axis=0).tolist()),
            self._pieces(part, device),
        )

    def _pieces(self, part: slice, device: torch.device) -> tuple[Pieces | None, ...] | None:
        if self._piece_rows is None:
            return None
        stated, sizes = self._evidence.labels[part], np.diff(self._evidence.offsets[part.start : part.stop + 1])
        columns = zip(stated.T, self._piece_rows.tolist(), strict=True)
        return tuple(cut_bags(labels, sizes, rows, device) for labels, rows in columns)


def chunk_weights(evidence: CountEvidence, part: slice, device: torch.device) -> BagWeights:
    """How many times the bags of a run count."""
    return BagWeights(None if evidence.weight is None else torch.as_tensor(evidence.weight[part], device=device))


def tabled_columns(
    evidence: CountEvidence, part: slice, dtype: torch.dtype, device: torch.device
) -> tuple[Tabled | None, ...]:
    """Of every label column, the bags of a run that state a table; None where there are none."""
    return tuple(_tabled(evidence, k, part, dtype, device) for k in range(evidence.labels.shape[1]))


def _tabled(
    evidence: CountEvidence, column: int, part: slice, dtype: torch.dtype, device: torch.device
) -> Tabled | None:
    by_table, table = evidence.by_table[column], evidence.tables[column]
    if by_table is None or table is None or not by_table[part].any():
        return None
    chosen = np.flatnonzero(by_table[part]) + part.start
    sizes, starts = np.diff(evidence.offsets)[chosen], evidence.offsets[chosen]
    rows = ragged_ranges(starts, sizes)
    log_psi = table[ragged_ranges(starts + chosen, sizes + 1)]
    informed = informed_rows(log_psi, sizes, evidence.known[rows])
    return Tabled(
        bags=torch.as_tensor(chosen - part.start, device=device),
        rows=torch.as_tensor(rows - evidence.offsets[part.start], device=device),
        informed=torch.as_tensor(informed, device=device),
        potentials=CountPotentials(torch.from_numpy(log_psi), torch.from_numpy(sizes)).to(device),
        known=torch.as_tensor(evidence.known[rows], dtype=dtype, device=device),
    )
