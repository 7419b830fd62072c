"""From a latent score to a probability: the logistic and the probit link, and their averages under a Gaussian score.

A model says its link where it makes its posterior. Instance and bag probabilities, laws of counts and queries for
labels all ask the posterior's link: given v, the latent value of an instance is N(φᵀv, κ), ``score`` is what is left of
that once κ is integrated out, and ``chances`` makes P(y = 1 | v) and P(y = 0 | v) of a score.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import roots_hermitenorm
from torch import Tensor

from bagwise.numerics.blocks import blocks
from bagwise.numerics.special import hazard, log_ndtr, log_negative_chance, log_sigmoid

_HERMITE_NODES, _MOST_NODES = 32, 256  # of one integral; the other rule has 161
_LOGISTIC_REACH, _LOGISTIC_STEP = 40.0, 0.5  # the logistic density beyond 40 is below 1e-17
_SCORE_NODES, _MOST_SCORE_NODES = 20, 200
_CACHED = 2**15  # entries that are worked on at once, node after node

Floats = NDArray[np.float64]


class Link(NamedTuple):
    """P(positive | score a); P(negative | a) = P(positive | −a).

    ``slope`` is d log P / da, ``bend`` is −d² log P / da², a number above 0: every link here is log-concave.
    """

    name: str
    log_probability: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    bend: Callable[[Tensor], Tensor]
    expected: Callable[[Tensor, Tensor], Tensor]  # E P(positive | a) for a ~ N(mean, variance)
    score: Callable[[Tensor, Tensor], Tensor]  # (n, S), (n,): the b with P(positive | b) = E P(positive | N(a, κ))
    chances: Callable[[Tensor], tuple[Tensor, Tensor]]  # P(positive | a), P(negative | a), each with all its digits
    log_negative: Callable[[Tensor], Tensor]  # log P(negative | a), quickly: where it is below −680 to first order only


def _logistic_slope(a: Tensor) -> Tensor:
    return torch.sigmoid(-a)


def _logistic_bend(a: Tensor) -> Tensor:
    return torch.sigmoid(a) * torch.sigmoid(-a)


def _probit_bend(a: Tensor) -> Tensor:
    h = hazard(a)
    return h * (h + a)


def _probit_expected(mean: Tensor, variance: Tensor) -> Tensor:
    probability: Tensor = torch.special.ndtr(mean / torch.sqrt(1.0 + variance))
    return probability


def logistic_expected(mean: Tensor, variance: Tensor) -> Tensor:
    """E σ(a) for a ~ N(mean, variance), to about 1e-13 for any variance.

    A narrow Gaussian (standard deviation s up to 1) is left to Gauss–Hermite nodes, between which σ hardly bends. For a
    wide one the roles change: σ(a) = P(x < a) for a logistic x, so E σ = E_x cdf((mean − x) / s), and the trapezium
    rule over the logistic density converges like exp(−2π · π / step), for its nearest pole lies at iπ.
    """
    flat_mean, flat_sd = mean.reshape(-1), variance.reshape(-1).clamp(min=0.0).sqrt()
    parts = [_expected(flat_mean[some], flat_sd[some]) for some in blocks(len(flat_mean), _MOST_NODES)]
    return torch.cat(parts).reshape(mean.shape) if parts else mean


def _expected(mean: Tensor, sd: Tensor) -> Tensor:
    wide = sd > 1.0
    found = torch.empty_like(mean)
    found[~wide] = _by_hermite(mean[~wide], sd[~wide])
    found[wide] = _by_logistic_density(mean[wide], sd[wide])
    return found


def _by_hermite(mean: Tensor, sd: Tensor) -> Tensor:
    nodes, weights = np.polynomial.hermite_e.hermegauss(_HERMITE_NODES)
    z, w = (torch.as_tensor(part, dtype=mean.dtype, device=mean.device) for part in (nodes, weights))
    return torch.sigmoid(mean[:, None] + sd[:, None] * z) @ (w / math.sqrt(2.0 * math.pi))


def _by_logistic_density(mean: Tensor, sd: Tensor) -> Tensor:
    count = round(2 * _LOGISTIC_REACH / _LOGISTIC_STEP) + 1
    x = torch.linspace(-_LOGISTIC_REACH, _LOGISTIC_REACH, count, dtype=mean.dtype, device=mean.device)
    weights = _logistic_bend(x)  # the logistic density is σ(x) σ(−x)
    inside: Tensor = torch.special.ndtr((mean[:, None] - x) / sd[:, None])
    return inside @ (weights / weights.sum())


def _probit_score(centre: Tensor, kappa: Tensor) -> Tensor:
    return centre / torch.sqrt(1.0 + kappa)[:, None]


def _probit_chances(score: Tensor) -> tuple[Tensor, Tensor]:
    """cdf(a) and cdf(−a) (torch's own ndtr loses the digits of its lower tail)."""
    scaled = score * math.sqrt(0.5)
    return 0.5 * torch.special.erfc(-scaled), 0.5 * torch.special.erfc(scaled)


def _logistic_score(centre: Tensor, kappa: Tensor) -> Tensor:
    """The log odds of E σ(f), f ~ N(centre, κ): Gauss–Hermite, the same nodes for every draw (theory 5.4).

    With n nodes the error falls like exp(−2π √(n / κ)): 20 give 4e-8 up to κ = 2, and 10 κ keep that. Far below the
    error of the average over draws, the number of nodes stops growing.
    """
    widest = float(kappa.max())
    if widest == 0.0:
        return centre
    nodes, weights = roots_hermitenorm(min(max(_SCORE_NODES, math.ceil(10.0 * widest)), _MOST_SCORE_NODES))
    rows = max(1, _CACHED // centre.shape[1])
    return torch.cat(
        [
            _hermite_log_odds(some, spread[:, None], nodes, weights / weights.sum())
            for some, spread in zip(torch.split(centre, rows), torch.split(torch.sqrt(kappa), rows), strict=True)
        ]
    )


def _hermite_log_odds(centre: Tensor, spread: Tensor, nodes: Floats, weights: Floats) -> Tensor:
    positive, negative = torch.zeros_like(centre), torch.zeros_like(centre)
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        f = torch.add(centre, spread, alpha=node)
        positive.add_(torch.sigmoid(f), alpha=weight)
        negative.add_(torch.sigmoid(f.neg_()), alpha=weight)
    odds = positive.log_().sub_(negative.log_())
    return torch.where(odds.isinf(), centre, odds)  # beyond ±700 one of the two is not a number any more


def _logistic_log_negative(a: Tensor) -> Tensor:
    return log_sigmoid(-a)


def _logistic_chances(score: Tensor) -> tuple[Tensor, Tensor]:
    return torch.sigmoid(score), torch.sigmoid(-score)


LOGISTIC = Link(
    "logistic",
    log_sigmoid,
    _logistic_slope,
    _logistic_bend,
    logistic_expected,
    _logistic_score,
    _logistic_chances,
    _logistic_log_negative,
)
PROBIT = Link(
    "probit",
    log_ndtr,
    hazard,
    _probit_bend,
    _probit_expected,
    _probit_score,
    _probit_chances,
    log_negative_chance,
)
LINKS = {link.name: link for link in (LOGISTIC, PROBIT)}
