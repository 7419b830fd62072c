"""How many individuals of a bag are positive, where rows stand for many: chances of ranges, and fractions (section 15).

Given v and the effect of the bag the number of positives is a sum of many independent ones, with mean μ = Σ w p and
variance σ² = Σ w p q, and close to normal: P(number ≤ k) = cdf((k + ½ − μ)/σ), off by at most 0.56/σ (Berry and Esseen)
and in fact by far less once it is averaged over v. Bags of at most ``SMALL_TOTAL`` individuals get the exact law.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bags import Bags
from bagwise.evidence.totals import SMALL_TOTAL
from bagwise.predict.points import Fitted

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_TURNS = 4  # pairings of the draws of v with draws of the effect of the bag


def is_small(bags: Bags) -> NDArray[np.bool_]:
    """(B,) which bags have few enough individuals to give each of them a row."""
    return np.asarray(bags.totals <= SMALL_TOTAL)


def chance_up_to(fitted: Fitted, bags: Bags, count: Array) -> Array:
    """P(number of positives <= count) of every bag, (B, K), for one count per bag and label column (B, K)."""
    laws = _moments(fitted, bags)
    return np.stack([_cdf(mean, sd, count[:, k]) for k, (mean, sd) in enumerate(laws)], axis=1)


def quantiles(fitted: Fitted, bags: Bags, levels: tuple[float, ...]) -> list[Array]:
    """For every level the smallest count with P(number <= count) >= level, (B, K) each."""
    laws, totals = _moments(fitted, bags), bags.totals
    return [np.stack([_quantile(mean, sd, totals, level) for mean, sd in laws], axis=1) for level in levels]


def _moments(fitted: Fitted, bags: Bags) -> list[tuple[Tensor, Tensor]]:
    """Mean and standard deviation of the number under every draw, (B, draws), for every label column."""
    columns: dict[int, list[tuple[Tensor, Tensor]]] = {}
    for latent in fitted.latent(bags):
        for column in range(latent.n_labels):
            turns = latent.turns(column)
            found = []
            for turn in turns[:: max(1, len(turns) // _TURNS)]:
                for _, scores in latent.scores(column, turn):
                    p, q = latent.link.chances(scores)
                    found.append((latent.over_people(p), latent.over_people(p * q)))
            means, variances = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
            columns.setdefault(column, []).append((means, torch.sqrt(variances.clamp(min=1e-12))))
    return [(torch.cat([m for m, _ in parts]), torch.cat([s for _, s in parts])) for parts in columns.values()]


def _cdf(mean: Tensor, sd: Tensor, count: Array) -> Array:
    at = torch.as_tensor(count, dtype=mean.dtype, device=mean.device)[:, None]
    found: Array = torch.special.ndtr((at + 0.5 - mean) / sd).mean(1).cpu().numpy()
    return found


def _quantile(mean: Tensor, sd: Tensor, totals: Ints, level: float) -> Array:
    """By bisection among whole numbers."""
    low, high = np.full(len(totals), -1, dtype=np.int64), totals.astype(np.int64).copy()
    while bool((high - low > 1).any()):
        middle = (low + high) // 2
        enough = _cdf(mean, sd, middle.astype(np.float64)) >= level
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high.astype(np.float64)
