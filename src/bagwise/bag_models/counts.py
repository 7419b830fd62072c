"""Probit instances under a potential on the number of positives (theory sections 1.1 and 2).

For a bag with latent values f the evidence has probability Z(f), and under q(m) ∝ ψ(#{m > 0}) N(m; f, I) the mean of m
is f + G with G = ∂ log Z / ∂f (equation (1.4)); Var m = 1 − f G − G² (2.3). So log Z and G are all that an inference
needs to know. Plain labels have a closed form at any bag size; everything else goes through the count programme.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bags import ragged_ranges
from bagwise.count_programme import CountPotentials, count_posterior
from bagwise.special import Segments, log_at_least_one, log_minus_log_ndtr, log_ndtr, log_pdf

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def label_terms(f: Tensor, labels: Tensor, segments: Segments) -> tuple[Tensor, Tensor]:
    """log Z per bag (b, K) and G per instance (n, K) for binary labels (b, K); NaN says nothing and gives zeros.

    With S = Σ log cdf(−f) over the bag, the log probability that all are negative:
      label 0:  log Z = S,               G = −h(−f)
      label 1:  log Z = log(1 − e^S),    G = h(−f) e^S / (1 − e^S)      by (0.1)–(0.2), safe where e^S rounds to 1.
    """
    log_negative = log_ndtr(-f)
    all_negative = segments.sum(log_negative)
    some_positive = log_at_least_one(segments.logsumexp(log_minus_log_ndtr(f)))
    log_z = torch.where(labels == 1, some_positive, all_negative)
    weight = torch.where(labels == 1, all_negative - some_positive, torch.zeros_like(all_negative))
    g = segments.spread(torch.sign(labels - 0.5)) * torch.exp(log_pdf(f) - log_negative + segments.spread(weight))
    missing = torch.isnan(labels)
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
    """The bags of a chunk that speak through a table, for one label column."""

    bags: Tensor  # (t,) their numbers in the chunk
    rows: Tensor  # (m,) the rows of their instances
    informed: Tensor  # (m,) whether the evidence says anything about the row
    potentials: CountPotentials
    known: Tensor  # (m,)


@dataclass(frozen=True)
class ChunkEvidence:
    """What the bags of one chunk say: plain labels (b, K), NaN where a table speaks instead or nothing is known."""

    labels: Tensor
    tabled: tuple[Tabled | None, ...]

    def terms(self, f: Tensor, segments: Segments) -> tuple[Tensor, Tensor]:
        """log Z (b, K) and G (n, K) at latent values f (n, K)."""
        log_z, g = label_terms(f, self.labels, segments)
        for column, part in enumerate(self.tabled):
            if part is not None:
                log_z[part.bags, column], g[part.rows, column] = count_terms(
                    f[part.rows, column], part.potentials, part.known
                )
        return log_z, g

    def informed(self, column: int, segments: Segments) -> Tensor:
        """(n,) which instances the evidence of one column says anything about."""
        rows = segments.spread(~torch.isnan(self.labels[:, column]))
        part = self.tabled[column]
        if part is not None:
            rows[part.rows] = part.informed
        return rows


class CountEvidence:
    """The evidence of all bags, cut into chunks on demand.

    ``labels`` (B, K) are plain labels. ``tables[k]``, where there is one, is the flat table log ψ over all bags of
    column k; it speaks for the bags in ``speaks[k]`` (B,). ``known`` (N,) are known instance labels or NaN.
    """

    def __init__(
        self,
        labels: Floats,
        sizes: Ints,
        tables: tuple[Floats | None, ...] | None = None,
        speaks: tuple[NDArray[np.bool_] | None, ...] | None = None,
        known: Floats | None = None,
    ) -> None:
        self.labels = labels
        self.offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.known = np.full(self.offsets[-1], np.nan) if known is None else known
        self._tables = (None,) * labels.shape[1] if tables is None else tables
        self._speaks = (None,) * labels.shape[1] if speaks is None else speaks

    def chunk(self, part: slice, dtype: torch.dtype, device: torch.device) -> ChunkEvidence:
        """The evidence of a run of bags."""
        labels = torch.as_tensor(self.labels[part], dtype=dtype, device=device)
        return ChunkEvidence(labels, tuple(self._tabled(k, part, dtype, device) for k in range(labels.shape[1])))

    def of_bags(self, chosen: Ints) -> "CountEvidence":
        """The evidence of some of the bags."""
        sizes = np.diff(self.offsets)[chosen]
        entries = ragged_ranges(self.offsets[chosen] + chosen, sizes + 1)
        return CountEvidence(
            self.labels[chosen],
            sizes,
            tuple(None if table is None else table[entries] for table in self._tables),
            tuple(None if speaks is None else speaks[chosen] for speaks in self._speaks),
            self.known[ragged_ranges(self.offsets[chosen], sizes)],
        )

    @classmethod
    def side_by_side(cls, columns: "list[CountEvidence]") -> "CountEvidence":
        """Several label columns over the same bags, none of them with known instances."""
        return cls(
            np.concatenate([column.labels for column in columns], axis=1),
            np.diff(columns[0].offsets),
            tuple(column._tables[0] for column in columns),
            tuple(column._speaks[0] for column in columns),
        )

    def ceiling(self) -> Floats:
        """(K,) Σ_b max_k log ψ_b(k): no log evidence can be higher, and one that claims to be is wrong."""
        highest = np.zeros(len(self._tables))
        starts = self.offsets[:-1] + np.arange(len(self.labels))
        for column, (table, speaks) in enumerate(zip(self._tables, self._speaks, strict=True)):
            if table is not None and speaks is not None:
                highest[column] = np.maximum.reduceat(table, starts)[speaks].sum()
        return highest

    def identity(self) -> bytes:
        """Equal for equal evidence."""
        arrays = (self.labels, self.offsets, self.known, *self._tables, *self._speaks)
        return b"|".join(b"" if part is None else np.ascontiguousarray(part).tobytes() for part in arrays)

    def observed(self) -> NDArray[np.bool_]:
        """(B, K) whether a bag says anything."""
        seen = ~np.isnan(self.labels)
        for column, speaks in enumerate(self._speaks):
            if speaks is not None:
                seen[:, column] |= speaks
        return seen

    def _tabled(self, column: int, part: slice, dtype: torch.dtype, device: torch.device) -> Tabled | None:
        speaks, table = self._speaks[column], self._tables[column]
        if speaks is None or table is None or not speaks[part].any():
            return None
        chosen = np.flatnonzero(speaks[part]) + part.start
        sizes, starts = np.diff(self.offsets)[chosen], self.offsets[chosen]
        rows = ragged_ranges(starts, sizes)
        log_psi = table[ragged_ranges(starts + chosen, sizes + 1)]
        informed = _informed_rows(log_psi, sizes, self.known[rows])
        return Tabled(
            bags=torch.as_tensor(chosen - part.start, device=device),
            rows=torch.as_tensor(rows - self.offsets[part.start], device=device),
            informed=torch.as_tensor(informed, device=device),
            potentials=CountPotentials(torch.from_numpy(log_psi), torch.from_numpy(sizes)).to(device),
            known=torch.as_tensor(self.known[rows], dtype=dtype, device=device),
        )


def possible_counts(known: Floats, sizes: Ints) -> tuple[Ints, Ints]:
    """Lowest and highest number of positives that the known instances of each bag leave possible."""
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    low = np.add.reduceat((known == 1).astype(np.int64), starts)
    return low, sizes - np.add.reduceat((known == 0).astype(np.int64), starts)


def possible_entries(known: Floats, sizes: Ints) -> NDArray[np.bool_]:
    """Which entries of the flat table the known instances leave possible."""
    k = ragged_ranges(np.zeros(len(sizes), dtype=np.int64), sizes + 1)
    low, high = (np.repeat(values, sizes + 1) for values in possible_counts(known, sizes))
    return (k >= low) & (k <= high)


def _informed_rows(log_psi: Floats, sizes: Ints, known: Floats) -> NDArray[np.bool_]:
    """Rows the evidence says something about: known ones, and all of a bag whose potential still varies given them.

    A free instance under a potential that is constant over all possible counts is as unlabelled as one without any
    evidence, and must stay out of the Gram matrix for the same reason (section 1.5).
    """
    possible = possible_entries(known, sizes)
    starts = np.concatenate([[0], np.cumsum(sizes + 1)[:-1]])
    low = np.minimum.reduceat(np.where(possible, log_psi, np.inf), starts)
    high = np.maximum.reduceat(np.where(possible, log_psi, -np.inf), starts)
    return np.repeat(low < high, sizes) | ~np.isnan(known)
