"""Tables of count potentials, and the plan by which ragged bags are worked through side by side.

Bags are put into buckets of similar size and similar table width; within a bucket arrays are (positions, bags), padded
with instances that are certainly negative (log p = -inf, log q = 0), which change nothing. No loop runs over bags.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

import torch
from torch import Tensor

from bagwise.exceptions import BagDataError, NumericalError

LARGEST_EXACT_BAG = 2000  # free tables of larger bags go to count_saddle
NARROW_TABLE = 32  # so many columns are always affordable, whatever the size of the bag
_SIZE_RATIO = 1.25  # bags of one bucket differ in size by at most this factor
_SMALL_CELLS = 2**13  # numbers per table up to which bags of any size share a bucket
_CHUNK_CELLS = {"cpu": 2**20}  # numbers per table worked on at once: cache on a processor, memory on an accelerator
_CHUNK_CELLS_ELSEWHERE = 2**26
_CONTOUR_CELLS = 64  # numbers per instance that count_saddle is reckoned at


class Bucket(NamedTuple):
    """Bags treated side by side: positions along the first axis, bags along the second."""

    bags: Tensor  # (G,)
    rows: Tensor  # (S, G) instances; N where a bag is shorter than S
    table: Tensor  # (W, G) log psi(k), the last row standing for every count from W - 1 upward; k > n says nothing
    mirrored: bool  # counts negatives instead of positives
    large: bool  # for count_saddle; the table is whole

    @property
    def cells(self) -> int:
        """Numbers per bag that must be held at once."""
        return len(self.rows) * (_CONTOUR_CELLS if self.large else len(self.table))

    def to(self, device: torch.device | str) -> "Bucket":
        """The same bucket on another device."""
        return self._replace(bags=self.bags.to(device), rows=self.rows.to(device), table=self.table.to(device))


class CountPotentials:
    """The count potentials of a data set, built once and used in every iteration.

    Parameters
    ----------
    log_psi : flat table of log psi_b(k), bag after bag, n_b + 1 entries each (k = 0 .. n_b); -inf for impossible counts
    sizes : (B,) n_b, the number of instances of each bag
    """

    def __init__(self, log_psi: Tensor, sizes: Tensor) -> None:
        self._sizes = sizes.detach().clone().to(torch.int64)
        self._log_psi = log_psi.detach().clone().to(torch.float64)
        _check_tables(self._log_psi, self._sizes)
        self._offsets = torch.nn.functional.pad(self._sizes.cumsum(0), (1, 0))
        self._bag_of_row = _owners(self._sizes)
        self._plan = _plan(self._log_psi, self._sizes)

    @property
    def sizes(self) -> Tensor:
        """(B,) number of instances of each bag."""
        return self._sizes

    @property
    def offsets(self) -> Tensor:
        """(B + 1,) where each bag begins; the last entry is N."""
        return self._offsets

    @property
    def log_psi(self) -> Tensor:
        """The flat table, in float64."""
        return self._log_psi

    @property
    def bag_of_row(self) -> Tensor:
        """(N,) number of the bag of each instance."""
        return self._bag_of_row

    @property
    def plan(self) -> tuple[Bucket, ...]:
        """The buckets; every bag is in exactly one."""
        return self._plan

    def __len__(self) -> int:
        return len(self._sizes)

    def __repr__(self) -> str:
        return f"CountPotentials({len(self)} bags, {len(self._bag_of_row)} instances, {len(self._plan)} buckets)"

    def to(self, device: torch.device | str) -> Self:
        """The same potentials on another device."""
        new = object.__new__(type(self))
        new._sizes, new._log_psi = self._sizes.to(device), self._log_psi.to(device)
        new._offsets, new._bag_of_row = self._offsets.to(device), self._bag_of_row.to(device)
        new._plan = tuple(bucket.to(device) for bucket in self._plan)
        return new

    def table_of(self, bag: int) -> Tensor:
        """(n + 1,) log psi of one bag."""
        first = int(self._offsets[bag]) + bag
        return self._log_psi[first : first + int(self._sizes[bag]) + 1]

    def of_bag(self, bag: int) -> "CountPotentials":
        """The potential of one bag alone."""
        return CountPotentials(self.table_of(bag), self._sizes[bag : bag + 1])


# ---------------------------------------------------------------- pieces of work


class Piece(NamedTuple):
    """A chunk of a bucket: every column is one bag under one of the leading indices."""

    bucket: Bucket
    leads: slice
    members: slice
    log_p: Tensor  # (S, columns); p and q have changed places if the bucket is mirrored
    log_q: Tensor
    table: Tensor  # (W, columns)

    def columns(self, rows: Tensor) -> Tensor:
        """(leads, N) -> (S, columns); padding is 0."""
        return _columns(rows, self.bucket, self.leads, self.members, padding=0.0)

    def spread_rows(self, columns: Tensor, out: Tensor) -> None:
        """(S, columns) -> (leads, N + 1), where the last entry takes what belongs to padding."""
        index = self.bucket.rows[:, self.members]
        out[self.leads][:, index] = columns.reshape(len(index), -1, index.shape[1]).movedim(0, 1)

    def spread_bags(self, columns: Tensor, out: Tensor) -> None:
        """(columns,) -> (leads, B)."""
        index = self.bucket.bags[self.members]
        out[self.leads][:, index] = columns.reshape(-1, len(index))

    def refuse_impossible(self, log_z: Tensor) -> None:
        """Raise if the evidence of some bag has probability zero."""
        impossible = (log_z == -torch.inf).nonzero()
        if len(impossible):
            members = self.bucket.bags[self.members]
            bag = int(members[int(impossible[0]) % len(members)])
            raise NumericalError(
                f"bag number {bag}: its evidence allows no labelling of its instances, so none can be drawn; "
                "check its known instance labels against its count."
            )


def pieces(log_p: Tensor, log_q: Tensor, potentials: CountPotentials) -> Iterator[Piece]:
    """Cut (leads, N) inputs into chunks that fit the cache (or the memory of an accelerator)."""
    limit = _CHUNK_CELLS.get(log_p.device.type, _CHUNK_CELLS_ELSEWHERE)
    for bucket in potentials.plan:
        positive, negative = (log_q, log_p) if bucket.mirrored else (log_p, log_q)
        lead_step = max(1, min(len(log_p), limit // bucket.cells))
        bag_step = max(1, limit // (bucket.cells * lead_step))
        for lead in range(0, len(log_p), lead_step):
            for member in range(0, len(bucket.bags), bag_step):
                where = bucket, slice(lead, lead + lead_step), slice(member, member + bag_step)
                columns = _columns(positive, *where, padding=-torch.inf)
                table = bucket.table[:, where[2]]
                table = table.repeat(1, columns.shape[1] // table.shape[1])
                yield Piece(*where, columns, _columns(negative, *where, padding=0.0), table)


def _columns(rows: Tensor, bucket: Bucket, leads: slice, members: slice, padding: float) -> Tensor:
    """(leads, N) -> (S, leads * bags of the chunk)."""
    index, beyond = bucket.rows[:, members], rows.shape[1]
    values = rows[leads][:, index.clamp(max=beyond - 1)].masked_fill(index == beyond, padding)
    return values.movedim(1, 0).reshape(len(index), -1)


# ---------------------------------------------------------------- the plan


def _check_tables(log_psi: Tensor, sizes: Tensor) -> None:
    if log_psi.ndim != 1 or sizes.ndim != 1:
        raise BagDataError(
            f"expected a flat table and a vector of sizes, got shapes {tuple(log_psi.shape)} and {tuple(sizes.shape)}."
        )
    if bool((sizes < 1).any()):
        raise BagDataError(f"bag number {int((sizes < 1).nonzero()[0])} is empty; every bag needs an instance.")
    expected = int(sizes.sum()) + len(sizes)
    if len(log_psi) != expected:
        raise BagDataError(f"expected n + 1 entries of log psi per bag ({expected} in all), got {len(log_psi)}.")
    bad = (log_psi.isnan() | (log_psi == torch.inf)).nonzero()
    if len(bad):
        bag = int(_owners(sizes + 1)[bad[0]])
        raise BagDataError(f"bag number {bag}: log psi is {float(log_psi[bad[0]])}; expected a number or -inf.")


def _owners(sizes: Tensor) -> Tensor:
    """The number of the bag, once for each of its entries."""
    return torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes)


def _plan(log_psi: Tensor, sizes: Tensor) -> tuple[Bucket, ...]:
    from_above, from_below = _constant_from(log_psi, sizes)
    mirrored = from_below < from_above
    width = torch.minimum(from_above, from_below) + 1
    affordable = (LARGEST_EXACT_BAG * (LARGEST_EXACT_BAG + 1) // sizes).clamp(min=NARROW_TABLE)
    large = width > affordable
    width = torch.where(large, sizes + 1, width)
    # Similar sizes within 25 %; similar widths within a factor of 2, as every bucket costs a loop over positions.
    size_class = (sizes.double().log() / math.log(_SIZE_RATIO) + 1e-9).floor().long()
    width_class = width.double().log2().ceil().long()
    kind = ((large.long() * 2 + mirrored) * 1024 + size_class) * 64 + width_class
    kind, order = kind.sort(stable=True)
    ends = (kind.diff() != 0).nonzero().squeeze(1) + 1
    groups = _merged(order.tensor_split(ends.cpu()) if len(order) else (), sizes, width, large, mirrored)
    return tuple(_bucket(log_psi, sizes, bags, width, bool(mirrored[bags[0]]), bool(large[bags[0]])) for bags in groups)


def _merged(groups: Iterable[Tensor], sizes: Tensor, width: Tensor, large: Tensor, mirrored: Tensor) -> list[Tensor]:
    """Groups of bags, small ones together: a loop over positions then costs more than their padding does."""
    merged: list[Tensor] = []
    for bags in groups:
        both = torch.cat([merged[-1], bags]) if merged else bags
        one_kind = bool((large[both] == large[both[0]]).all()) and bool((mirrored[both] == mirrored[both[0]]).all())
        if merged and one_kind and len(both) * int(sizes[both].max()) * int(width[both].max()) <= _SMALL_CELLS:
            merged[-1] = both
        else:
            merged.append(bags)
    return merged


def _constant_from(log_psi: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest c with psi(k) = psi(n) for all k >= c, and the same for the number of negatives n - k."""
    bag = _owners(sizes + 1)
    count = torch.arange(len(log_psi), device=sizes.device) - ((sizes + 1).cumsum(0) - sizes - 1)[bag]
    changes = ((log_psi[:-1] != log_psi[1:]) & (bag[:-1] == bag[1:])).nonzero().squeeze(1)
    bag, count = bag[changes], count[changes]
    above = torch.zeros_like(sizes).scatter_reduce(0, bag, count + 1, "amax")
    below = sizes - sizes.scatter_reduce(0, bag, count, "amin")
    return above, below


def _bucket(log_psi: Tensor, sizes: Tensor, bags: Tensor, width: Tensor, mirrored: bool, large: bool) -> Bucket:
    n, total = sizes[bags], int(sizes.sum())
    position = torch.arange(int(n.max()), device=sizes.device)[:, None]
    first_row = (sizes.cumsum(0) - sizes)[bags]
    rows = torch.where(position < n, first_row + position, total)
    count = torch.arange(int(width[bags].max()), device=sizes.device)[:, None]
    entry = first_row + bags + (n - count if mirrored else count).clamp(min=0).minimum(n)
    return Bucket(bags, rows, log_psi[entry], mirrored, large)
