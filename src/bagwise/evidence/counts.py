"""What bags state about their numbers of positives, as arrays: plain labels, and tables log ψ(k) for all else."""

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import ragged_ranges

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LIGHT = 0.5  # weight of a bag below which expectation propagation may find no cavity


class CountEvidence:
    """What all bags state about their numbers of positives, ready for a bag model.

    ``labels`` (B, K) are plain labels. ``tables[k]``, where there is one, is the flat table log ψ over all bags of
    column k; it holds for the bags in ``by_table[k]`` (B,). ``known`` (N,) are known instance labels or NaN. Plain
    labels are wrong with probability ``label_noise``; tables have it in them. What a bag states counts
    ``weight`` (B,) times; None is once.
    """

    def __init__(
        self,
        labels: Floats,
        sizes: Ints,
        tables: tuple[Floats | None, ...] | None = None,
        by_table: tuple[NDArray[np.bool_] | None, ...] | None = None,
        known: Floats | None = None,
        label_noise: float = 0.0,
        weight: Floats | None = None,
    ) -> None:
        self.labels, self.label_noise, self.weight = labels, label_noise, weight
        self.offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.known = np.full(self.offsets[-1], np.nan) if known is None else known
        self.tables = (None,) * labels.shape[1] if tables is None else tables
        self.by_table = (None,) * labels.shape[1] if by_table is None else by_table

    def of_bags(self, chosen: Ints) -> "CountEvidence":
        """The evidence of some of the bags."""
        sizes = np.diff(self.offsets)[chosen]
        entries = ragged_ranges(self.offsets[chosen] + chosen, sizes + 1)
        return CountEvidence(
            self.labels[chosen],
            sizes,
            tuple(None if table is None else table[entries] for table in self.tables),
            tuple(None if by_table is None else by_table[chosen] for by_table in self.by_table),
            self.known[ragged_ranges(self.offsets[chosen], sizes)],
            self.label_noise,
            None if self.weight is None else self.weight[chosen],
        )

    def weighted(self, weight: Floats | None) -> "CountEvidence":
        """The same evidence, of which every bag's part counts ``weight`` times; a bag of weight 0 states nothing."""
        if weight is None:
            return self
        left_out = weight == 0
        return CountEvidence(
            np.where(left_out[:, None], np.nan, self.labels),
            np.diff(self.offsets),
            self.tables,
            tuple(None if by_table is None else by_table & ~left_out for by_table in self.by_table),
            np.where(np.repeat(left_out, np.diff(self.offsets)), np.nan, self.known),
            self.label_noise,
            weight,
        )

    def has_light_bags(self) -> bool:
        """Whether some bag counts less than half: too little for a message of a whole bag (theory 4.3)."""
        return self.weight is not None and bool(((self.weight > 0) & (self.weight < LIGHT)).any())

    @classmethod
    def side_by_side(cls, columns: "list[CountEvidence]") -> "CountEvidence":
        """Several label columns over the same bags, none of them with known instances."""
        return cls(
            np.concatenate([column.labels for column in columns], axis=1),
            np.diff(columns[0].offsets),
            tuple(column.tables[0] for column in columns),
            tuple(column.by_table[0] for column in columns),
            label_noise=columns[0].label_noise,
        )

    def ceiling(self) -> Floats:
        """(K,) Σ_b max_k log ψ_b(k): no log evidence can be higher, and one that claims to be is wrong."""
        highest = np.zeros(len(self.tables))
        starts, times = self.offsets[:-1] + np.arange(len(self.labels)), 1.0 if self.weight is None else self.weight
        for column, (table, by_table) in enumerate(zip(self.tables, self.by_table, strict=True)):
            if table is not None and by_table is not None:
                highest[column] = (times * np.maximum.reduceat(table, starts))[by_table].sum()
        return highest

    def identity(self) -> bytes:
        """Equal for equal evidence."""
        arrays = (self.labels, self.offsets, self.known, np.array(self.label_noise), *self.tables, *self.by_table)
        return b"|".join(b"" if part is None else np.ascontiguousarray(part).tobytes() for part in arrays)

    def only_labels(self) -> bool:
        """Whether plain labels are all that bags state, and some do."""
        tabled = any(by_table is not None and by_table.any() for by_table in self.by_table)
        return not tabled and not bool(np.isnan(self.labels).all())

    def observed(self) -> NDArray[np.bool_]:
        """(B, K) whether a bag states anything."""
        seen = ~np.isnan(self.labels)
        for column, by_table in enumerate(self.by_table):
            if by_table is not None:
                seen[:, column] |= by_table
        return seen


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


def informed_rows(log_psi: Floats, sizes: Ints, known: Floats) -> NDArray[np.bool_]:
    """Rows the evidence says something about: known ones, and all of a bag whose potential still varies given them.

    A free instance under a potential that is constant over all possible counts is as unlabelled as one without any
    evidence, and must stay out of the Gram matrix for the same reason (section 1.5).
    """
    possible = possible_entries(known, sizes)
    starts = np.concatenate([[0], np.cumsum(sizes + 1)[:-1]])
    low = np.minimum.reduceat(np.where(possible, log_psi, np.inf), starts)
    high = np.maximum.reduceat(np.where(possible, log_psi, -np.inf), starts)
    return np.repeat(low < high, sizes) | ~np.isnan(known)
