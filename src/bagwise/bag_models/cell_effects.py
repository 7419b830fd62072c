"""Effects of single cells of a bag, seen from the number of positives of the bag (theory section 15.2).

The cells g of a bag have effects e_g with e ~ N(0, s²((1 − q) 11ᵀ + q I)). The expected number of positives is the same
as if all cells were moved by one u, the common equivalent: Σ w_g cdf(f_g + e_g) = Σ w_g cdf(f_g + u). To first order
u = Σ a_g e_g with a_g = w_g pdf(f_g + u) / Σ w pdf, so u has the standard deviation s r(u), r² = 1 − q + q Σ a_g².
Followed from 0 to u,

    t(u) = ∫₀ᵘ du' / (s r(u')) ~ N(c, 1),   c = −(q / s r(0)) Σ a_g (1 − a_g) f_g (1 − (1 + s²)^−½)         (15.5)

by Simpson's rule. c is the drift to second order: where the effects of cells are their own, what they add to the number
does not cancel out, because cdf is curved, and rates are drawn to one half. It is exact where q = 0 and where a bag has
one cell.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.numerics.segments import Segments
from bagwise.numerics.special import LOG_2PI, log_pdf

SIMPSON = ((0.0, 1.0 / 6.0), (0.5, 4.0 / 6.0), (1.0, 1.0 / 6.0))  # places between 0 and u, and their shares
_SMALLEST = 1e-300
_STEPS, _LONGEST, _NEAR = 40, 1.0, 1e-7
_MOST_CELLS = 64  # of a bag up to which the effects of its cells are drawn in pairs
_PLACES, _REACH = 33, 6.0  # points of a conditional law, and standard deviations that they reach to either side
_SWEEPS = 4  # where bags have more than two cells; of two one sweep over a grid is exact
_NEARLY_LINEAR = 0.6  # sizes of effects up to which steps of Metropolis and Hastings do as well as grids
_EDGE = 1e-12


_Redraw = Callable[["_Pair"], tuple[Tensor, Tensor]]  # new effects of the cell and of its partner


class Effect(NamedTuple):
    """s and q, as numbers () or one for every draw (Q,); where groups have sizes of their own, s times their factors.

    An effect e moves the score of a row by its lever times e. The factor of its group is part of the lever, so the laws
    here know one size.
    """

    size: Tensor
    own: Tensor
    factors: Tensor | None = None  # (G,) or (G, Q), of mean square 1

    def absent(self) -> bool:
        """Whether there is no effect at all."""
        return not bool((self.size > 0).any())

    def detach(self) -> "Effect":
        """Without derivatives."""
        factors = None if self.factors is None else self.factors.detach()
        return Effect(self.size.detach(), self.own.detach(), factors)


class Cells:
    """The cells of bags: how many individuals each holds, and the first of its rows."""

    def __init__(self, weight: Tensor, cell: Tensor, rows: Segments) -> None:
        self.of_row, self._rows = cell, rows
        self.people = weight.new_zeros(int(cell.max()) + 1).index_add(0, cell, weight)
        self.first = torch.full_like(cell[: len(self.people)], len(cell)).scatter_reduce(
            0, cell, torch.arange(len(cell), device=cell.device), "amin"
        )
        sizes = torch.bincount(rows.index[self.first], minlength=len(rows))
        self.segments = Segments(torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]))

    def log_law(self, u: Tensor, z: Tensor, lever: Tensor, effect: Effect) -> Tensor:
        """log density of the common equivalent u (b, Q) at scores z and levers (n, Q or 1) of rows without effects."""
        steep = [self.steepness(part * u, z, lever, effect) for part, _ in SIMPSON]
        t = u * torch.stack([share * value for (_, share), value in zip(SIMPSON, steep, strict=True)]).sum(0)
        away = t - self.centre(z, lever, effect)
        return torch.log(steep[-1]) - 0.5 * (away.square() + LOG_2PI)

    def centre(self, z: Tensor, lever: Tensor, effect: Effect) -> Tensor:
        """c, (b, Q or 1).

        Let the effects grow from 0 in small steps of variance s² dτ. The number grows by Σ A de + ½ Σ A y s² dτ with
        A = w lever pdf and y = −lever × score, so u by du = Σ a de + ½ s² ȳ (1 − r²) dτ, ȳ = Σ a y. In t = ∫ du/(s r)
        this drift and Itô's term −¼ (s r)²' together are s q Σ a (1 − a) y / 2r. In the place of its s²/2 stands what
        is exact for very many cells, whose mean rate is cdf(f / √(1 + s²)); s is that of the cell, its lever included.
        """
        if not bool((effect.own > 0).any()):
            return torch.zeros_like(effect.size)
        moved, share = self.shares(z.new_zeros(len(self.segments), 1), z, lever)
        own = lever[self.first]
        shift = moved * (1.0 - torch.rsqrt(1.0 + (own * effect.size).square())) / own
        ratio = torch.rsqrt(1.0 - effect.own + effect.own * self.segments.sum(share.square()))
        return -effect.own * ratio * self.segments.sum(share * (1.0 - share) * shift) / effect.size

    def steepness(self, u: Tensor, z: Tensor, lever: Tensor, effect: Effect) -> Tensor:
        """dt/du, (b, Q)."""
        if not bool((effect.own > 0).any()):
            return (1.0 / effect.size).expand_as(u)
        _, share = self.shares(u, z, lever)
        return torch.rsqrt(1.0 - effect.own + effect.own * self.segments.sum(share.square())) / effect.size

    def shares(self, u: Tensor, z: Tensor, lever: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of the cells moved by u (b, Q), and the shares a of the cells in how fast the number grows."""
        own = lever[self.first]
        moved = z[self.first] + own * self.segments.spread(u)
        logs = torch.log((self.people[:, None] * own).clamp(min=_SMALLEST)) + log_pdf(moved)
        return moved, torch.exp(logs - self.segments.spread(self.segments.logsumexp(logs)))

    @torch.no_grad()
    def draw(self, u: Tensor, z: Tensor, lever: Tensor, effect: Effect, generator: torch.Generator) -> Tensor:
        """Scores (n, Q) of rows moved by draws of the effects of their cells that have the common equivalent u."""
        if not bool((effect.own > 0).any()):
            return z + lever * self._rows.spread(u)
        drawing = _Drawing(self, z[self.first], lever[self.first], effect, generator)
        e = drawing.start(u)
        most = int(self.segments.sizes.max())
        if most <= _MOST_CELLS:
            small = bool((effect.size * lever.max() <= _NEARLY_LINEAR).all())
            for sweep in range(1 if most <= 2 else _SWEEPS):
                redrawn = drawing.by_metropolis if small and most > 2 else drawing.from_grid
                e = drawing.sweep(e, drawing.partners(e, by_weight=sweep == 0), redrawn)
        return z + lever * e[self.of_row]


class _Drawing:
    """Draws of e given Σ w cdf(z + lever e): a start that is right to first order, then sweeps over pairs of cells."""

    def __init__(self, cells: Cells, z: Tensor, lever: Tensor, effect: Effect, generator: torch.Generator) -> None:
        self._people, self._segments = cells.people[:, None], cells.segments
        self._z, self._lever, self._effect, self._generator = z, lever, effect, generator
        self._count = cells.segments.sizes[:, None].to(z.dtype)

    def _number(self, e: Tensor) -> Tensor:
        return self._segments.sum(self._people * torch.special.ndtr(self._z + self._lever * e))

    def _weights(self, e: Tensor) -> Tensor:
        return self._people * self._lever * torch.exp(log_pdf(self._z + self._lever * e)) + _SMALLEST

    def start(self, u: Tensor) -> Tensor:
        """Effects from their prior, moved along their regression on Σ a e until the expected number is that of u."""
        spread, total = self._segments.spread, self._segments.sum
        size, own = self._effect.size, self._effect.own
        common, each = (self._normal(rows, u) for rows in (len(u), len(self._z)))
        free = size * (torch.sqrt(1.0 - own) * spread(common) + torch.sqrt(own) * each)
        weight = self._weights(spread(u))
        share = weight / spread(total(weight))
        gain = (1.0 - own + own * share) / spread(1.0 - own + own * total(share.square()))
        wanted, shift = self._number(spread(u)), u - total(share * free)
        for _ in range(_STEPS):
            e = free + gain * spread(shift)
            step = (wanted - self._number(e)) / total(gain * self._weights(e))
            shift = shift + step.clamp(-_LONGEST, _LONGEST)
            if bool((step.abs() < _NEAR).all()):
                break
        return free + gain * spread(shift)

    def _normal(self, rows: int, like: Tensor) -> Tensor:
        drawn = torch.randn(rows, like.shape[1], generator=self._generator, dtype=like.dtype)
        return drawn.to(like.device)

    def partners(self, e: Tensor, by_weight: bool) -> Tensor:
        """One cell of every bag, (b, Q): the one that weighs most, or any."""
        if by_weight:
            return torch.stack([self._segments.first_largest(column) for column in self._weights(e).T], dim=1)
        at = torch.rand(len(self._segments), e.shape[1], generator=self._generator, dtype=e.dtype).to(e.device)
        return self._segments.offsets[:-1, None] + (at * self._segments.sizes[:, None]).long()

    def sweep(self, e: Tensor, partners: Tensor, redrawn: "_Redraw") -> Tensor:
        """Each cell drawn anew together with a partner in its bag, the expected number of both held."""
        for position in range(int(self._segments.sizes.max())):
            here = (self._segments.sizes > position).nonzero()[:, 0]
            own = (self._segments.offsets[:-1][here] + position)[:, None].expand(-1, e.shape[1])
            other = partners[here]
            pair = self._pair(e, here, own, other)
            new, answer = redrawn(pair)
            apart = own != other
            e = e.scatter(0, own, torch.where(apart, new, pair.mine.e)).scatter_add(
                0, other, torch.where(apart, answer - pair.partner.e, 0.0)
            )
        return e

    def _pair(self, e: Tensor, here: Tensor, own: Tensor, other: Tensor) -> "_Pair":
        mine, partner = self._cell(e, own), self._cell(e, other)
        rest = self._segments.sum(e)[here] - mine.e - partner.e
        return _Pair(mine, partner, _PriorOfPair.of(self._effect, self._count[here], rest))

    def from_grid(self, pair: "_Pair") -> tuple[Tensor, Tensor]:
        """e_i from a grid, e_h from the number that both have together.

        The law of e_i given that number is N(e; 0, Σ) / (w_h pdf(z_h) lever_h). The grid reaches over the normal law
        that this is where e_h is linear in e_i.
        """
        mine, partner, prior = pair
        centre, sd = prior.along(mine.e, partner.e, -mine.weight / partner.weight)
        place = torch.linspace(-_REACH, _REACH, _PLACES, dtype=sd.dtype, device=sd.device)
        tried = (mine.e + centre)[..., None] + sd[..., None] * place
        answer, log_slope, possible = partner.answering(mine, tried)
        logs = (prior.log_density(tried, answer) - log_slope).masked_fill(~possible, -torch.inf)
        chosen, found = self._chosen(logs, tried, sd)
        chosen = torch.where(found, chosen, mine.e)
        answer, _, fits = partner.answering(mine, chosen[..., None])
        return torch.where(fits[..., 0], chosen, mine.e), torch.where(fits[..., 0], answer[..., 0], partner.e)

    def by_metropolis(self, pair: "_Pair") -> tuple[Tensor, Tensor]:
        """The same law by a step of Metropolis and Hastings that proposes from this normal law."""
        mine, partner, prior = pair
        centre, sd = prior.along(mine.e, partner.e, -mine.weight / partner.weight)
        noise = self._normal(len(sd), sd)
        new = mine.e + centre + sd * noise
        answer, _, fits = (part[..., 0] for part in partner.answering(mine, new[..., None]))
        moved = _Pair(mine.at(new), partner.at(answer), prior)
        back, width = prior.along(new, answer, -moved.mine.weight / moved.partner.weight)
        ahead = -0.5 * noise.square() - torch.log(sd)
        behind = -0.5 * ((mine.e - new - back) / width).square() - torch.log(width)
        gain = moved.log_density() - pair.log_density() + behind - ahead
        chance = torch.rand(sd.shape, generator=self._generator, dtype=sd.dtype).to(sd.device)
        accepted = fits & (torch.log(chance) < gain)
        return torch.where(accepted, new, mine.e), torch.where(accepted, answer, partner.e)

    def _cell(self, e: Tensor, rows: Tensor) -> "_Cell":
        parts = (e, self._z, self._lever, self._people)
        return _Cell(*(part.expand_as(e).gather(0, rows) for part in parts))

    def _chosen(self, logs: Tensor, tried: Tensor, sd: Tensor) -> tuple[Tensor, Tensor]:
        """One point by its weight, moved by less than the distance of points; and whether there was any."""
        there = torch.isfinite(logs).any(-1)
        weight = torch.softmax(torch.where(there[..., None], logs, 0.0), dim=-1)
        uniform = torch.rand(sd.shape, generator=self._generator, dtype=sd.dtype).to(sd.device)[..., None]
        chosen = (weight.cumsum(-1) < uniform).sum(-1, keepdim=True).clamp(max=_PLACES - 1)
        jitter = torch.rand(sd.shape, generator=self._generator, dtype=sd.dtype).to(sd.device) - 0.5
        return tried.gather(-1, chosen)[..., 0] + jitter * sd * (2.0 * _REACH / (_PLACES - 1)), there


class _Cell(NamedTuple):
    """One cell of every bag, (b, Q) each."""

    e: Tensor
    z: Tensor
    lever: Tensor
    people: Tensor

    @property
    def log_pdf(self) -> Tensor:
        """Of the normal law at its score."""
        return log_pdf(self.z + self.lever * self.e)

    @property
    def weight(self) -> Tensor:
        """How fast its expected number grows with e."""
        return self.people * self.lever * torch.exp(self.log_pdf) + _SMALLEST

    def at(self, e: Tensor) -> "_Cell":
        """The cell with another effect."""
        return self._replace(e=e)

    def number(self, e: Tensor) -> Tensor:
        """Expected number of positives at effects (b, Q, P)."""
        found: Tensor = self.people[..., None] * torch.special.ndtr(self.z[..., None] + self.lever[..., None] * e)
        return found

    def answering(self, other: "_Cell", e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The effect of this cell that keeps the number of both where the other has e (b, Q, P); log pdf; if any."""
        both = self.number(self.e[..., None]) + other.number(other.e[..., None])
        chance = (both - other.number(e)) / self.people[..., None].clamp(min=_SMALLEST)
        possible = (chance > _EDGE) & (chance < 1.0 - _EDGE)
        z = torch.special.ndtri(chance.clamp(_EDGE, 1.0 - _EDGE))
        return (z - self.z[..., None]) / self.lever[..., None], log_pdf(z), possible


class _Pair(NamedTuple):
    """A cell i and its partner h in every bag, and the prior of their effects given those of the others."""

    mine: _Cell
    partner: _Cell
    prior: "_PriorOfPair"

    def log_density(self) -> Tensor:
        """log of N(e; 0, Σ) / pdf(z_h), (b, Q), up to what stays while the number of both is held."""
        prior = self.prior.log_density(self.mine.e[..., None], self.partner.e[..., None])[..., 0]
        return prior - self.partner.log_pdf


class _PriorOfPair(NamedTuple):
    """−½ eᵀΣ⁻¹e of two cells given the sum of the others: Σ⁻¹ = (I − c 11ᵀ)/(q s²), c = (1 − q)/(q + R(1 − q))."""

    precision: Tensor
    c: Tensor
    rest: Tensor

    @classmethod
    def of(cls, effect: Effect, count: Tensor, rest: Tensor) -> "_PriorOfPair":
        common = 1.0 - effect.own
        return cls(1.0 / (effect.own * effect.size.square()), common / (effect.own + count * common), rest)

    def along(self, e: Tensor, other: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """Mean, from e, and standard deviation of the normal law along (1, slope)."""
        curvature = self.precision * (1.0 + slope.square() - self.c * (1.0 + slope).square())
        pull = self.precision * (e + slope * other - self.c * (self.rest + e + other) * (1.0 + slope))
        return -pull / curvature, torch.rsqrt(curvature)

    def log_density(self, e: Tensor, other: Tensor) -> Tensor:
        """At pairs (b, Q, P)."""
        precision, c, rest = (torch.as_tensor(part)[..., None] for part in self)
        return -0.5 * precision * (e.square() + other.square() - c * (rest + e + other).square())
