"""The law of the common equivalent u as a function of the scores: slopes and second derivatives (theory section 15.4).

log p(u) = log σ(u) − ½ (t(u) − c)² with σ = dt/du = (1 − q + q S)^−½/s, S = Σ a², a the softmax of L = log w pdf(x)
over the cells of a bag, x = z + lever u. The scores enter through c and through S at the three places of Simpson's
rule, with dL/dz = −x and

    ∂S/∂L = 2a(a − S),   ∂²S/∂L∂Lᵀ = diag(4a² − 2aS) − 4(a² aᵀ + a (a²)ᵀ) + 6S aaᵀ                         (15.8)
"""

import torch
from torch import Tensor

from bagwise.bag_models.cell_effects import SIMPSON, Cells, Effect
from bagwise.numerics.counting.expansions import crossed, crossed_both, projected
from bagwise.numerics.linalg import second_derivatives, weighted_gram
from bagwise.numerics.special import LOG_2PI


class _Place:
    """σ and S at an effect u (b, Q), with dσ/dS, d²σ/dS² and the slope of S in the scores of cells."""

    def __init__(self, cells: Cells, u: Tensor, z: Tensor, lever: Tensor, effect: Effect) -> None:
        self._segments = cells.segments
        self._x, self._share = cells.shares(u, z, lever)
        self._sum = cells.segments.sum(self._share.square())
        inside = 1.0 - effect.own + effect.own * self._sum
        self.steep = torch.rsqrt(inside) / effect.size
        ratio = effect.own / inside
        self.first, self.second = -0.5 * ratio * self.steep, 0.75 * ratio.square() * self.steep
        self._away = self._share * (self._share - cells.segments.spread(self._sum))
        self.slope = -2.0 * self._away * self._x

    def curvature(self, pull: Tensor, bend: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Σ pull d²S + bend dS dSᵀ, (R, R), and dS, (b, Q, R)."""
        x, share, total = self._x, self._share, self._segments.spread(self._sum)
        own = x.square() * (4.0 * share.square() - 2.0 * share * total) - 2.0 * self._away
        once, twice = (projected(part * x, rows, self._segments) for part in (share, share.square()))
        slope = 2.0 * (self._sum[..., None] * once - twice)
        found = weighted_gram(rows, (own * self._segments.spread(pull)).sum(1)) - 4.0 * crossed_both(twice, pull, once)
        return found + 6.0 * crossed(once, pull * self._sum, once) + crossed(slope, bend, slope), slope


class LawExpansion:
    """log p(u) at points u (b, Q), with its derivatives in the scores of rows that have no effects yet."""

    def __init__(self, cells: Cells, u: Tensor, z: Tensor, lever: Tensor, effect: Effect) -> None:
        self._cells = cells
        self._places = [_Place(cells, part * u, z, lever, effect) for part, _ in SIMPSON]
        lengths, end = [u * share for _, share in SIMPSON], self._places[-1]
        pairs = list(zip(lengths, self._places, strict=True))
        t = torch.stack([length * place.steep for length, place in pairs]).sum(0)
        self._centre = _Centre(cells, z, lever, effect)
        self._away = t - self._centre.value
        self.logs = torch.log(end.steep) - 0.5 * (self._away.square() + LOG_2PI)
        self._along = [length * place.first for length, place in pairs]  # dt/dS
        self._pulls = [-self._away * along for along in self._along]
        self._bends = [-self._away * length * place.second for length, place in pairs]
        ratio = end.first / end.steep
        self._pulls[-1] = self._pulls[-1] + ratio
        self._bends[-1] = self._bends[-1] + end.second / end.steep - ratio.square()
        slopes = [
            cells.segments.spread(pull) * place.slope for pull, place in zip(self._pulls, self._places, strict=True)
        ]
        slopes.append(cells.segments.spread(self._away) * self._centre.slope)
        self.slope = u.new_zeros(len(z), u.shape[1]).index_copy(0, cells.first, torch.stack(slopes).sum(0))

    def curvature(self, weight: Tensor, rows: Tensor) -> Tensor:
        """As in ``Expansion``."""
        found, moved = rows.new_zeros(rows.shape[1], rows.shape[1]), []
        for place, along, pull, bend in zip(self._places, self._along, self._pulls, self._bends, strict=True):
            own, slope = place.curvature(weight * pull, weight * bend, rows[self._cells.first])
            found = found + own
            moved.append(along[..., None] * slope)
        own = rows[self._cells.first]
        change = torch.stack(moved).sum(0) - projected(self._centre.slope, own, self._cells.segments)  # of t − c
        found = found + self._centre.curvature((weight * self._away).sum(1), own)
        return found - crossed(change, weight, change)


class _Centre:
    """c of every bag at scores (n, 1), with its slope in the scores of cells, by automatic differentiation."""

    def __init__(self, cells: Cells, z: Tensor, lever: Tensor, effect: Effect) -> None:
        self._cells, self._z, self._lever, self._effect = cells, z, lever, effect
        self._scores = z[cells.first]
        with torch.enable_grad():
            here = self._scores.detach().requires_grad_()
            found = self._at(here)
            (self.slope,) = torch.autograd.grad(found.sum(), here) if found.requires_grad else (torch.zeros_like(here),)
        self.value = found.detach()

    def _at(self, scores: Tensor) -> Tensor:
        return self._cells.centre(self._z.index_copy(0, self._cells.first, scores), self._lever, self._effect)

    def curvature(self, weight: Tensor, rows: Tensor) -> Tensor:
        """Σ weight d²c, (R, R), in what the scores of cells are ``rows`` (cells, R) times of; weight (b,)."""
        if not bool((self.slope != 0).any()):
            return rows.new_zeros(rows.shape[1], rows.shape[1])
        with torch.enable_grad():
            return second_derivatives(
                lambda v: (weight * self._at(self._scores + (rows @ v)[:, None])[:, 0]).sum(), torch.zeros_like(rows[0])
            )
