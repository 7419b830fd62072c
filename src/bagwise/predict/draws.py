"""What a model believes under each of its draws of v: the samples behind count laws and queries (theory section 1.7).

Given v the instances of a bag are independent, and P(yᵢ = 1 | v) follows from a score: for probit instances it is
cdf(φᵢᵀv / sᵢ), sᵢ² = 1 + κᵢ; the posterior's link knows. The draws are those of ``bag_probability``: everything that is
averaged over v is averaged over the same points.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from bagwise.gp.features import Design
from bagwise.gp.posterior import Posterior
from bagwise.numerics.links import Link
from bagwise.predict.bags import sobol_normals

_BLOCK = 4_000_000  # entries of one (rows × points) block


def posterior_draws(posterior: Posterior, seed: int) -> Tensor:
    """(K, R, S) quasi-random draws of v that belong to the fitted model of this seed."""
    return posterior.draws(sobol_normals(posterior.mean.shape[0], seed).to(posterior.mean.device))


def scores_given(design: Design, weights: Tensor, link: Link) -> Iterator[tuple[slice, Tensor]]:
    """Scores under the draws v = columns of ``weights`` (R, S): (n, some draws) at a time, in double precision."""
    rows, kappa = design.phi, design.kappa.double()
    step = max(1, _BLOCK // len(rows))
    for start in range(0, weights.shape[1], step):
        some = slice(start, start + step)
        yield some, link.score((rows @ weights[:, some].to(rows.dtype)).double(), kappa)


def log_none_positive(design: Design, weights: Tensor, link: Link) -> Tensor:
    """log P(no positive in the bag | v) for every draw v = column of ``weights`` (R, S): (b, S).

    The logarithm keeps the digits of both answers: P(none) = exp(l), P(at least one) = -expm1(l).
    """
    samples = torch.empty(len(design.segments), weights.shape[1], dtype=torch.float64, device=weights.device)
    for some, scores in scores_given(design, weights, link):
        samples[:, some] = design.segments.sum(link.log_probability(-scores))
    return samples
