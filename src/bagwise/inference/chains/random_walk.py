"""The printed update of the latent values of a bag: a random walk on all of them at once (theory section 8.5).

z' = z + s N(0, I), s = 2.4/√n, accepted with chance min(1, ψ(k') N(z'; f, I) / (ψ(k) N(z; f, I))). Bags whose evidence
leaves one labelling only (all positive, or none) are drawn from truncated normals, as printed. It samples the same law
as the exact draw of section 3.3, more slowly, and is here to be compared with.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bagwise.bag_models.counts import ChunkEvidence
from bagwise.inference.chains.gibbs import DrawPlan, Sweep, answer_of, draw_block, scores_of, truncated
from bagwise.inference.chunks import Chunk, Sums
from bagwise.numerics.segments import Segments
from bagwise.numerics.special import log_ndtr

STEP = 2.4  # times 1/√n: the best scale for a Gaussian target in n dimensions


@dataclass(frozen=True)
class Walk:
    """What a chunk remembers: its plan, the tables of its bags, and where its z are."""

    plan: DrawPlan
    table: Tensor  # (b, K, most instances + 1) log ψ, −inf beyond the size of the bag
    known: Tensor  # (n, K) 0, 1 or NaN
    z: Tensor  # (n, S)


def random_walk_step(chunk: Chunk, remembered: DrawPlan | Walk, sweep: Sweep) -> tuple[Sums, Walk]:
    """Move every z of the chunk given β; answer with what the weights need to know of them."""
    f, own = scores_of(chunk, sweep)
    if isinstance(remembered, DrawPlan):  # a random walk needs a feasible start: the first sweep draws exactly
        z, log_z = draw_block(f, chunk, remembered, own)
        tables = tables_of(chunk.evidence, chunk.design.segments)
        return answer_of(chunk, z, log_z), Walk(remembered, *tables, z)
    segments, plan = chunk.design.segments, remembered.plan
    sizes = segments.sizes.to(f.dtype)
    proposed = remembered.z + segments.spread(STEP / torch.sqrt(sizes))[:, None] * torch.special.ndtri(own.values)
    before, after = (_log_density(z, f, remembered, segments) for z in (remembered.z, proposed))
    accepted = torch.log(own.signs.index_select(0, plan.starts)) < after - before
    z = torch.where(segments.spread(accepted), proposed, remembered.z)
    forced = _forced(remembered, segments)
    side = 1.0 - 2.0 * (forced > 0).to(f.dtype)
    z = torch.where(forced == 0, z, truncated(f, side, log_ndtr(-side * f), own.values))
    if plan.unstated is not None:
        z.masked_fill_(plan.unstated, 0.0)
    log_psi = _log_potential(z, remembered, segments)
    return answer_of(chunk, z, log_psi.sum(0)), replace(remembered, z=z)


def tables_of(evidence: ChunkEvidence, segments: Segments) -> tuple[Tensor, Tensor]:
    """log ψ of every bag and column as one rectangle, plain labels included, and the known labels of the instances."""
    counts = torch.arange(int(segments.sizes.max()) + 1, device=segments.sizes.device)
    inside = counts <= segments.sizes[:, None]
    some = torch.where(counts > 0, 0.0, -torch.inf).to(torch.float64)
    none = torch.where(counts > 0, -torch.inf, 0.0).to(torch.float64)
    known = torch.full((len(segments.index), evidence.labels.shape[1]), torch.nan, device=counts.device)
    columns = []
    for number, labels in enumerate(evidence.labels.T):
        table = torch.where((labels == 1)[:, None], some, torch.where((labels == 0)[:, None], none, 0.0))
        part = evidence.tabled[number]
        if part is not None:
            for bag, place in zip(part.bags.tolist(), range(len(part.bags)), strict=True):
                table[bag, : int(segments.sizes[bag]) + 1] = part.potentials.table_of(place)
            known[part.rows, number] = part.known.to(known.dtype)
        columns.append(table.masked_fill(~inside, -torch.inf))
    return torch.stack(columns, dim=1), known


def _log_potential(z: Tensor, walk: Walk, segments: Segments) -> Tensor:
    """log ψ at the number of positives of every bag and chain, (b, S)."""
    n_chains = walk.plan.n_chains
    counts = segments.sum((z > 0).to(z.dtype)).to(torch.int64)
    table = walk.table.repeat_interleave(n_chains, dim=1)
    found: Tensor = table.gather(2, counts[:, :, None])[:, :, 0]
    return found


def _log_density(z: Tensor, f: Tensor, walk: Walk, segments: Segments) -> Tensor:
    """Of z given f and the evidence, but for a constant, (b, S); −inf where a known instance has the wrong sign."""
    known = walk.known.repeat_interleave(walk.plan.n_chains, dim=1)
    wrong = ((known == 1) & (z <= 0)) | ((known == 0) & (z > 0))
    inside = segments.sum(-0.5 * (z - f).square().masked_fill(wrong, torch.inf))
    return inside + _log_potential(z, walk, segments)


def _forced(walk: Walk, segments: Segments) -> Tensor:
    """(n, S) 1 or −1 where the evidence of the bag makes every instance positive or every one negative, 0 elsewhere."""
    possible = walk.table > -torch.inf
    only_none = possible[:, :, 0] & ~possible[:, :, 1:].any(2)
    last = torch.nn.functional.one_hot(segments.sizes, possible.shape[2]).to(torch.bool)[:, None, :]
    only_all = (possible & last).any(2) & ~(possible & ~last).any(2)
    sign = only_all.to(torch.int64) - only_none.to(torch.int64)
    return segments.spread(sign).repeat_interleave(walk.plan.n_chains, dim=1)
