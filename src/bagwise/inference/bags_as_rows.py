"""Chunks whose labelled bags are rows: what one site per bag works on (theory section 13.3), and how it sweeps over it.

How bags become rows, and when they do so again, is the business of ``bag_propagation.py``.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from bagwise.bag_models.counts import ChunkEvidence, Tabled
from bagwise.gp.features import Design
from bagwise.inference.chunks import Chunk, Chunks, HeldChunks, Step, Sums, TreeSum
from bagwise.inference.expectation_propagation import Sites
from bagwise.numerics.segments import Segments

_TOGETHER = 65_536  # rows that are worked on together on a GPU


class Labelled(NamedTuple):
    """Which bags of a chunk have a plain label, (b,), and how many: to ask a GPU for a number is to wait for it."""

    which: Tensor
    n_bags: int

    @property
    def all(self) -> bool:
        """Whether every bag has one."""
        return self.n_bags == len(self.which)

    def of(self, values: Tensor) -> Tensor:
        """Values of these bags alone."""
        return values if self.all else values[self.which]


def labelled(chunk: Chunk) -> Labelled:
    """The bags of a chunk, as one label column sees it, that have a plain label."""
    evidence = chunk.evidence
    which = ~torch.isnan(evidence.labels[:, 0])
    return Labelled(which, int(which.sum()) if evidence.n_labelled is None else evidence.n_labelled[0])


class BagRows(NamedTuple):
    """Every labelled bag as one probit observation cdf(±(rowᵀv + offset)) with noise 1."""

    rows: Tensor  # (b, R) a/√(1 + ω)
    offset: Tensor  # (b,) c/√(1 + ω)

    def blended(self, other: "BagRows", share: float) -> "BagRows":
        """A part of the way towards another linearisation."""
        return BagRows(*(mine + share * (new - mine) for mine, new in zip(self, other, strict=True)))


class Pooled(NamedTuple):
    """What is remembered of a chunk: its bags as rows, and the sites and messages of these."""

    chunk: Chunk
    sites: Sites | None
    n_labelled: int  # rows that stand for whole bags; those of single instances follow

    def bag_rows(self) -> BagRows:
        """The rows of whole bags."""
        design = self.chunk.design
        assert design.offset is not None
        return BagRows(design.phi[: self.n_labelled], design.offset[: self.n_labelled])

    def times(self) -> Tensor:
        """How many times each whole bag counts, (b,)."""
        evidence = self.chunk.evidence
        counted: Tensor = evidence.weights.of_bags(torch.ones_like(evidence.labels))
        return counted[: self.n_labelled, 0]

    def bag_sites(self) -> tuple[Tensor, Tensor]:
        """τ and ν of whole bags, (b,) each."""
        assert self.sites is not None
        return self.sites.tau[: self.n_labelled, 0], self.sites.nu[: self.n_labelled, 0]


def pooled_chunk(chunk: Chunk, labelled: Labelled, bags: BagRows) -> Chunk:
    """Rows of whole bags, then the instances of the bags that speak through tables, as one chunk."""
    design, (part,) = chunk.design, chunk.evidence.tabled
    b, device = labelled.n_bags, design.phi.device
    labels, weights = labelled.of(chunk.evidence.labels), chunk.evidence.weights
    if part is None:
        counted = weights if labelled.all else weights.some(labelled.which)
        evidence = ChunkEvidence(labels, (None,), chunk.evidence.noise, counted)
        return Chunk(Design(bags.rows, torch.zeros_like(bags.offset), single_rows(b, device), bags.offset), evidence)
    sizes = design.segments.sizes[part.bags]
    table = Tabled(
        bags=b + torch.arange(len(part.bags), device=device),
        rows=b + torch.arange(len(part.rows), device=device),
        informed=part.informed,
        potentials=part.potentials,
        known=part.known,
    )
    unstated = torch.full((len(part.bags), 1), torch.nan, dtype=labels.dtype, device=device)
    both = torch.cat([labelled.which.nonzero()[:, 0], part.bags])
    evidence = ChunkEvidence(torch.cat([labels, unstated]), (table,), chunk.evidence.noise, weights.some(both))
    single = design.phi[part.rows]
    joined = Design(
        torch.cat([bags.rows, single]),
        torch.cat([torch.zeros_like(bags.offset), design.kappa[part.rows]]),
        Segments(torch.cat([torch.arange(b + 1, device=device), b + sizes.cumsum(0)])),
        torch.cat([bags.offset, single.new_zeros(len(single))]),
    )
    return Chunk(joined, evidence)


class PooledChunks:
    """The pooled chunks as chunks of their own: what remembers a chunk of instances holds a chunk of rows."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks

    def sweep(self, step: Step, shared: Any) -> Sums:
        """Run a step of ordinary expectation propagation on the rows."""

        def inner(chunk: Chunk, pooled: Pooled, shared: Any) -> tuple[Sums, Pooled]:
            sums, sites = step(pooled.chunk, pooled.sites, shared)
            return sums, pooled._replace(sites=sites)

        return self._chunks.sweep(inner, shared)


class JoinedPools:
    """The same for a GPU, which takes as long for a chunk of few rows as for one of many: chunks are joined.

    Rows are joined in double precision, in which chunks are added up, too. Every chunk is handed back its own sites
    after a sweep, so that nobody else notices.
    """

    def __init__(self, chunks: HeldChunks) -> None:
        self._chunks = chunks
        self._pools: dict[int, _Joined] = {}  # by their first chunk

    def sweep(self, step: Step, shared: Any) -> Sums:
        """Run a step of ordinary expectation propagation on the rows."""
        remembered, tree = self._chunks.remembered, TreeSum()
        for some in _runs(remembered):
            pool = self._pool(some.start, remembered[some])
            sums, sites = step(pool.chunk, pool.sites, shared)
            remembered[some] = pool.moved_to(sites)
            tree.add(sums)
        return tree.total()

    def _pool(self, first: int, members: list[Pooled]) -> "_Joined":
        """Of some chunks; the last one, unless somebody has made rows or sites anew since."""
        if first not in self._pools or not self._pools[first].holds(members):
            self._pools[first] = _Joined(members)
        return self._pools[first]


class _Joined:
    """Some pooled chunks as one, with the sites of its rows."""

    def __init__(self, members: list[Pooled]) -> None:
        self._members = members
        self._counts = [len(one.chunk.design.phi) for one in members]
        alone = len(members) == 1
        self.chunk = members[0].chunk if alone else _joined_chunk([one.chunk for one in members])
        self.sites = members[0].sites if alone else _joined_sites([one.sites for one in members])

    def holds(self, members: list[Pooled]) -> bool:
        """Whether it is made of these very chunks."""
        same = (mine is one for mine, one in zip(self._members, members, strict=False))
        return len(members) == len(self._members) and all(same)

    def moved_to(self, sites: Sites) -> list[Pooled]:
        """The chunks with new sites, each with its own."""
        self.sites = sites
        cut = _cut_sites(sites, self._counts)
        self._members = [one._replace(sites=own) for one, own in zip(self._members, cut, strict=True)]
        return list(self._members)


def _runs(pools: Sequence[Pooled]) -> Iterator[slice]:
    """Chunks one after the other that are joined; those with tables stay alone."""
    start = rows = 0
    for number, pooled in enumerate(pools):
        own = len(pooled.chunk.design.phi)
        joins = _is_plain(pooled) and _is_plain(pools[start]) and rows + own <= _TOGETHER
        if number > start and not joins:
            yield slice(start, number)
            start, rows = number, 0
        rows += own
    if len(pools):
        yield slice(start, len(pools))


def _is_plain(pooled: Pooled) -> bool:
    """Whether all rows stand for whole bags."""
    return pooled.n_labelled == len(pooled.chunk.design.phi)


def _joined_chunk(chunks: Sequence[Chunk]) -> Chunk:
    phi, kappa, offset = (
        torch.cat(parts).double()
        for parts in zip(*((one.design.phi, one.design.kappa, one.design.offset) for one in chunks), strict=True)
    )
    evidence = chunks[0].evidence.joined([one.evidence for one in chunks[1:]])
    return Chunk(Design(phi, kappa, single_rows(len(phi), phi.device), offset), evidence)


def _joined_sites(parts: Sequence[Sites | None]) -> Sites | None:
    known = [one for one in parts if one is not None]
    if not known:
        return None
    tau, nu, start, goal = zip(*known, strict=True)
    return Sites(_together(tau), _together(nu), _both(start), _both(goal))


def _together(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts)).double()


def _both(pairs: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    one, other = zip(*pairs, strict=True)
    return _together(one), _together(other)


def _cut_sites(sites: Sites, counts: list[int]) -> list[Sites]:
    tau, nu = (torch.split(part, counts) for part in sites[:2])
    start, goal = (zip(*(torch.split(part, counts) for part in pair), strict=True) for pair in sites[2:])
    return [Sites(*own) for own in zip(tau, nu, start, goal, strict=True)]


def single_rows(n: int, device: torch.device) -> Segments:
    """So many bags of one row."""
    return Segments(torch.arange(n + 1, device=device), n)


def rows_of_bags(chunks: Chunks, device: torch.device) -> Chunks:
    """What a sweep over sites sees: pooled chunks, on a GPU of this process joined."""
    if device.type != "cpu" and getattr(chunks, "in_this_process", False):
        return JoinedPools(cast(HeldChunks, chunks))
    return PooledChunks(chunks)
