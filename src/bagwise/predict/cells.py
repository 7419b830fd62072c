"""How many of the individuals behind every row are positive, given what their bag states: joint draws (section 15).

For a draw of v and of the sizes of the effects: the common equivalent u of every bag from its law given these and the
statement (a Gaussian around its mode), the effects of the cells given u, then the number of positives of the bag, then
how it is shared out among the rows. Given the number k the rows are
independent binomial ones, tilted so that their mean is k, conditioned on their sum. All rows and all bags of a draw
belong to one v, so sums over any set of them are draws of that sum.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bag_models.cell_effects import Effect
from bagwise.bag_models.totals import TotalBags
from bagwise.bags import Bags
from bagwise.evidence.totals import TotalStatements
from bagwise.gp.effects import GroupEffect
from bagwise.gp.posterior import Draws, Posterior
from bagwise.numerics.special import LOG_2PI
from bagwise.predict.points import Fitted

Array = NDArray[np.float64]

_AT_ONCE = 64  # draws of v worked on side by side


class CellDraws(NamedTuple):
    """(S, N, K) draws of the number of positives behind every row, and log P(statements of a bag | v), (S, B, K)."""

    positives: Array
    log_z: Array  # 0 where nobody asked for it


def cell_draws(
    fitted: Fitted, bags: Bags, columns: tuple[TotalStatements, ...], n_draws: int, *, new: bool = False
) -> CellDraws:
    """Draws for bags that were in the fit, whose statements the posterior of v has in it already.

    For ``new`` bags every draw of v counts by ``log_z``.
    """
    generator = torch.Generator().manual_seed(fitted.seed)
    found = [_column_draws(fitted, bags, stated, k, n_draws, new, generator) for k, stated in enumerate(columns)]
    positives, log_z = (torch.stack(parts, dim=2).cpu().numpy() for parts in zip(*found, strict=True))
    return CellDraws(positives, log_z)


def _column_draws(
    fitted: Fitted,
    bags: Bags,
    stated: TotalStatements,
    column: int,
    n_draws: int,
    new: bool,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    features, weights = fitted.features, _draws(fitted.posterior, column, n_draws, generator)
    held = TotalBags(stated, torch.float64, features.device)
    positives, log_z = [], []
    parts = [design for _, design in features.designs(bags)]
    phi, kappa = torch.cat([d.phi for d in parts]).double(), torch.cat([d.kappa for d in parts]).double()
    variance = kappa.new_tensor(np.square(features.effect.size * features.effect.relative(bags.X)))
    shrink = torch.rsqrt(1.0 + (kappa - variance).clamp(min=0.0))[:, None]
    effects = _Effects(features.effect, bags, shrink)
    for some in torch.split(weights, _AT_ONCE, dim=1):
        z, log_given = _with_effects(held, shrink * (phi @ some), effects, new, generator)
        positives.append(held.draw_cells(z, generator))
        log_z.append(log_given)
    return torch.cat(positives, dim=1).T, torch.cat(log_z, dim=1).T


class _Effects(NamedTuple):
    """The possible sizes of the effects, the rows that they move, and what their latent values are multiplied by."""

    possible: GroupEffect
    bags: Bags
    shrink: Tensor  # (n, 1)

    def draw(self, n: int, generator: torch.Generator) -> tuple[Effect, Tensor]:
        """Sizes for every draw (Q,), among those that the data leave possible, and the levers of rows (n, Q or 1)."""
        weights = torch.tensor(self.possible.weights, dtype=torch.float64)
        chosen = torch.multinomial(weights, n, replacement=True, generator=generator)
        own = (self.shrink.new_tensor(values)[chosen] for values in (self.possible.sizes, self.possible.shares))
        factors = self.possible.row_factors(self.bags.X, chosen.numpy())
        return Effect(*own), self.shrink * self.shrink.new_tensor(factors)


def _with_effects(
    held: TotalBags, z: Tensor, effects: _Effects, new: bool, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Scores moved by draws of the effects, and for new bags log Z_b by Laplace's approximation in u."""
    log_z = z.new_zeros(len(held.segments), z.shape[1])
    if effects.possible.size == 0.0:
        return z, held.conditional(z) if new else log_z
    sizes, lever = effects.draw(z.shape[1], generator)
    u, spread = held.most_probable(z, lever, sizes)
    if new:
        given = held.conditional(z + lever * held.segments.spread(u))
        log_z = given + held.cells.log_law(u, z, lever, sizes) + torch.log(spread) + 0.5 * LOG_2PI
    drawn = u + spread * torch.randn(u.shape, generator=generator, dtype=u.dtype)
    return held.cells.draw(drawn, z, lever, sizes, generator), log_z


def _draws(posterior: Posterior, column: int, n_draws: int, generator: torch.Generator) -> Tensor:
    """(R, S) draws of v."""
    if isinstance(posterior, Draws):
        pooled = posterior.pooled()[column]
        return pooled[:, torch.randint(pooled.shape[1], (n_draws,), generator=generator)]
    normals = torch.randn(len(posterior.mean), n_draws, generator=generator, dtype=torch.float64)
    return posterior.draws(normals.to(posterior.mean.device))[column]
