"""How many of the individuals behind every row are positive, given what their bag states: joint draws (section 15).

For a draw of v: the effect u_b of every bag from its law given v and the statement (a Gaussian around its mode), then
the number of positives of the bag, then how it is shared out among the rows. Given the number k the rows are
independent binomial ones, tilted so that their mean is k, conditioned on their sum. All rows and all bags of a draw
belong to one v, so sums over any set of them are draws of that sum.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bag_models.totals import TotalBags
from bagwise.bags import Bags
from bagwise.evidence.totals import TotalStatements
from bagwise.gp.features import Features
from bagwise.gp.posterior import Draws, Posterior
from bagwise.predict.points import Fitted

Array = NDArray[np.float64]

_AT_ONCE = 64  # draws of v worked on side by side


class CellDraws(NamedTuple):
    """(S, N, K) draws of the number of positives behind every row, and log P(statements of a bag | v), (S, B, K)."""

    positives: Array
    log_z: Array


def cell_draws(fitted: Fitted, bags: Bags, columns: tuple[TotalStatements, ...], n_draws: int) -> CellDraws:
    """Draws for bags that were in the fit, whose statements the posterior of v has in it already."""
    generator = torch.Generator().manual_seed(fitted.seed)
    found = [_column_draws(fitted, bags, stated, k, n_draws, generator) for k, stated in enumerate(columns)]
    positives, log_z = (torch.stack(parts, dim=2).cpu().numpy() for parts in zip(*found, strict=True))
    return CellDraws(positives, log_z)


def _column_draws(
    fitted: Fitted, bags: Bags, stated: TotalStatements, column: int, n_draws: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    features, weights = fitted.features, _draws(fitted.posterior, column, n_draws, generator)
    held = TotalBags(stated, torch.float64, features.device)
    positives, log_z = [], []
    parts = [design for _, design in features.designs(bags)]
    phi, kappa = torch.cat([d.phi for d in parts]).double(), torch.cat([d.kappa for d in parts]).double()
    shrink = torch.rsqrt(1.0 + (kappa - features.effect**2).clamp(min=0.0))
    for some in torch.split(weights, _AT_ONCE, dim=1):
        z = shrink[:, None] * (phi @ some)
        z, log_given = _with_effects(held, z, shrink, features, generator)
        positives.append(held.draw_cells(z, generator))
        log_z.append(log_given)
    return torch.cat(positives, dim=1).T, torch.cat(log_z, dim=1).T


def _with_effects(
    held: TotalBags, z: Tensor, shrink: Tensor, features: Features, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Scores moved by draws of the effects, and log Z_b by Laplace's approximation in u."""
    if features.effect == 0.0:
        return z, held.conditional(z)
    u, spread = held.most_probable(z, shrink, features.effect)
    given = held.conditional(z + shrink[:, None] * held.segments.spread(u))
    log_z = given - 0.5 * (u / features.effect).square() + torch.log(spread / features.effect)
    drawn = u + spread * torch.randn(u.shape, generator=generator, dtype=u.dtype)
    return z + shrink[:, None] * held.segments.spread(drawn), log_z


def _draws(posterior: Posterior, column: int, n_draws: int, generator: torch.Generator) -> Tensor:
    """(R, S) draws of v."""
    if isinstance(posterior, Draws):
        pooled = posterior.pooled()[column]
        return pooled[:, torch.randint(pooled.shape[1], (n_draws,), generator=generator)]
    normals = torch.randn(len(posterior.mean), n_draws, generator=generator, dtype=torch.float64)
    return posterior.draws(normals.to(posterior.mean.device))[column]
