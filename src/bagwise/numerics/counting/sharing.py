"""A number of positives shared out among rows that stand for many individuals: draws of the parts given their sum."""

from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.numerics.counting.totals import tilt_of
from bagwise.numerics.segments import Segments
from bagwise.numerics.special import log_ndtr

_ROUNDS = 6  # of sharing out what rows that are full, or empty, could not take
_EDGE = 1e-3
# Numbers looked at on either side, and the standard deviation up to which they are enough; above, a draw stays normal.
_WINDOWS = ((6, 1.0), (12, 2.0), (24, 4.0), (40, 8.0))


def tilted_chances(z: Tensor, people: Tensor, total: Tensor, segments: Segments) -> Tensor:
    """The chances of rows with scores z (n, Q), tilted so that the expected number of each bag is ``total`` (b, Q)."""
    everyone = segments.sum(people)
    inside = total.clamp(min=_EDGE).minimum((everyone - _EDGE).clamp(min=_EDGE))
    logits = log_ndtr(z) - log_ndtr(-z)
    return torch.sigmoid(logits + segments.spread(tilt_of(logits, people, inside, segments)))


def share_out(chance: Tensor, people: Tensor, total: Tensor, segments: Segments, generator: torch.Generator) -> Tensor:
    """Draws of w numbers (n, Q) that add up to ``total`` (b, Q): normal, with the moments of binomial ones.

    y ~ N(w c, w c (1 − c)) given Σ y: the difference to the sum is shared out by variance. What then lies outside of
    0 … w is cut off, and the rest of the difference goes to the rows that have room.
    """
    variance = people * chance * (1.0 - chance)
    drawn = people * chance + torch.sqrt(variance) * torch.randn(chance.shape, generator=generator, dtype=chance.dtype)
    drawn = drawn.clamp(min=0.0).minimum(people)
    for _ in range(_ROUNDS):
        missing = segments.spread(total - segments.sum(drawn))
        room = torch.where(missing > 0, people - drawn, drawn)
        open_rows = torch.where(room > 0, variance + 1e-9 * people, 0.0)
        share = open_rows / segments.spread(segments.sum(open_rows).clamp(min=1e-300))
        drawn = (drawn + missing * share).clamp(min=0.0).minimum(people.expand_as(drawn))
    return drawn


def whole_numbers(drawn: Tensor, people: Tensor, total: Tensor, segments: Segments) -> Tensor:
    """The draws rounded, with the same sums: the rows that have most room take what rounding has moved."""
    rounded = drawn.round()
    for _ in range(int(segments.sizes.max())):
        missing = total - segments.sum(rounded)
        if not bool(missing.any()):
            break
        room = torch.where(segments.spread(missing) > 0, people - rounded, rounded)
        roomiest = torch.stack([segments.first_largest(column) for column in room.T], dim=1)
        taken = missing.clamp(min=-1e18).abs().minimum(room.gather(0, roomiest)) * missing.sign()
        rounded = rounded.scatter_add(0, roomiest, taken)
    return rounded


def redraw_pairs(
    drawn: Tensor, people: Tensor, logits: Tensor, segments: Segments, generator: torch.Generator
) -> Tensor:
    """One exact sweep over the rows: each is drawn anew together with the largest row of its bag, their sum held.

    Given the sum s of two binomial numbers the first has weights C(w₁, y) C(w₂, s − y) ψʸ, ψ the ratio of the odds.
    Rows whose number varies by more than ``_WINDOWS`` reach keep their normal draw. With two rows the result is exact.
    """
    variance = people * torch.sigmoid(logits) * torch.sigmoid(-logits)
    largest = torch.stack([segments.first_largest(column) for column in variance.T], dim=1)  # (b, Q)
    for position in range(int(segments.sizes.max())):
        here = (segments.sizes > position).nonzero()[:, 0]
        own = (segments.offsets[:-1][here] + position)[:, None].expand(-1, drawn.shape[1])
        other = largest[here]
        y, w, odds = (values.expand_as(drawn) for values in (drawn, people, logits))
        mine, partner = (_Cells(y.gather(0, rows), w.gather(0, rows), odds.gather(0, rows)) for rows in (own, other))
        new = _redrawn(mine, partner, generator)
        change = torch.where(own == other, 0.0, new - drawn.gather(0, own))
        drawn = drawn.scatter_add(0, own, change).scatter_add(0, other, -change)
    return drawn


class _Cells(NamedTuple):
    """One row of every bag, (b, Q) each: number of positives, of individuals, and their logit."""

    y: Tensor
    w: Tensor
    logit: Tensor


class _Pairs(NamedTuple):
    """Pairs of cells, (p,) each: individuals of both, positives of both, log ψ, mean and range of the first number."""

    w: Tensor
    w_other: Tensor
    both: Tensor
    log_ratio: Tensor
    centre: Tensor
    lowest: Tensor
    highest: Tensor


def _redrawn(cell: _Cells, partner: _Cells, generator: torch.Generator) -> Tensor:
    """The number of the first cell given the sum of both, by windows that are as wide as its law needs."""
    both, log_ratio = cell.y + partner.y, (cell.logit - partner.logit).clamp(-30.0, 30.0)
    centre, variance = _conditional_moments(cell.w, partner.w, both, log_ratio.exp())
    lowest, highest = (both - partner.w).clamp(min=0.0), torch.minimum(cell.w, both)
    found, least = cell.y.clone(), 0.0
    for half, widest in _WINDOWS:
        here = (variance >= least) & (variance < widest**2)
        pairs = (part[here] for part in (cell.w, partner.w, both, log_ratio, centre, lowest, highest))
        found[here] = _from_window(half, _Pairs(*pairs), generator)
        least = widest**2
    return found


def _from_window(half: int, pairs: _Pairs, generator: torch.Generator) -> Tensor:
    """Draws by the weights of the numbers within ``half`` of the centre, each from the one before it.

    C(w₁, y + 1) C(w₂, s − y − 1) ψ / (C(w₁, y) C(w₂, s − y)) = ψ (w₁ − y)(s − y) / ((y + 1)(w₂ − s + y + 1)).
    """
    w, w_other, both, log_ratio, centre, lowest, highest = (part[:, None] for part in pairs)
    start = torch.minimum(torch.maximum(centre.round() - half, lowest), highest)
    y = start + torch.arange(2 * half, dtype=w.dtype, device=w.device)
    ratio = (w - y) * (both - y) / ((y + 1.0) * (w_other - both + y + 1.0))
    steps = (log_ratio + torch.log(ratio.clamp(min=1e-300))).masked_fill(y >= highest, -1e100)
    logs = torch.nn.functional.pad(torch.cumsum(steps, dim=1), (1, 0))
    running = torch.exp(logs - logs.max(1, keepdim=True).values).cumsum(1)
    uniform = torch.rand(len(w), 1, generator=generator, dtype=w.dtype).to(w.device) * running[:, -1:]
    chosen = (running < uniform).sum(1, keepdim=True).clamp(max=2 * half)
    return torch.minimum(start + chosen, highest)[:, 0]


def _conditional_moments(w: Tensor, w_other: Tensor, both: Tensor, ratio: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of y given y + other = s (Cornfield): (ψ − 1)y² − ((w₁ + s)ψ + w₂ − s)y + ψ w₁ s = 0."""
    a, b, c = ratio - 1.0, (w + both) * ratio + w_other - both, ratio * w * both
    root = 2.0 * c / (b + torch.sqrt((b.square() - 4.0 * a * c).clamp(min=0.0))).clamp(min=1e-300)
    parts = torch.stack([root, w - root, both - root, w_other - both + root]).clamp(min=0.25)
    return root, 1.0 / (1.0 / parts).sum(0)


def truncated_normal(mean: Tensor, sd: Tensor, low: Tensor, high: Tensor, generator: torch.Generator) -> Tensor:
    """Draws of N(mean, sd²) between two limits, by the inverse of its law; the limit itself where it is far out."""
    a, b = (
        torch.special.ndtr((low - mean) / sd.clamp(min=1e-12)),
        torch.special.ndtr((high - mean) / sd.clamp(min=1e-12)),
    )
    uniform = a + (b - a) * torch.rand(mean.shape, generator=generator, dtype=mean.dtype)
    normal = torch.special.ndtri(uniform.clamp(1e-15, 1.0 - 1e-15))
    drawn: Tensor = (mean + sd * normal).maximum(low).minimum(high)
    return drawn
