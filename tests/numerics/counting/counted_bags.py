"""Bags with tables over their number of positives, and slow, obvious posteriors of them."""

import itertools
import math

import torch
from torch import Tensor

import bagwise.numerics.counting.programme as programme
from bagwise.numerics.counting.programme import CountPotentials

INF = math.inf


def table(n: int, rule) -> Tensor:
    """log psi(k) from a rule that gives psi(k)."""
    return torch.tensor([math.log(rule(k)) if rule(k) > 0 else -INF for k in range(n + 1)], dtype=torch.float64)


def beta_fraction(n: int, m: float, chi: float) -> Tensor:
    a = chi * torch.arange(n + 1, dtype=torch.float64) / n
    b = chi - a
    norm = torch.lgamma(a + 1) + torch.lgamma(b + 1) - math.lgamma(chi + 2)
    return torch.xlogy(a, torch.tensor(m)) + torch.special.xlog1py(b, torch.tensor(-m)) - norm


def arbitrary(n: int, seed: int = 5) -> Tensor:
    return 2.0 * torch.randn(n + 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


POTENTIALS = {
    "label 0": lambda n: table(n, lambda k: k == 0),
    "label 1": lambda n: table(n, lambda k: k >= 1),
    "noisy label": lambda n: table(n, lambda k: 0.9 if k >= 1 else 0.1),
    "exactly": lambda n: table(n, lambda k: k == 3),
    "at least": lambda n: table(n, lambda k: k >= 3),
    "at most": lambda n: table(n, lambda k: k <= 2),
    "at least all but one": lambda n: table(n, lambda k: k >= n - 1),
    "between": lambda n: table(n, lambda k: 2 <= k <= 5),
    "fraction 0": lambda n: beta_fraction(n, 0.0, 10.0),
    "fraction 1": lambda n: beta_fraction(n, 1.0, 10.0),
    "fraction without confidence": lambda n: beta_fraction(n, 0.3, 0.0),
    "fraction with confidence": lambda n: beta_fraction(n, 0.3, 1000.0),
    "arbitrary": arbitrary,
}


def one_bag(log_psi: Tensor) -> CountPotentials:
    return CountPotentials(log_psi, torch.tensor([len(log_psi) - 1]))


def together(tables: list[Tensor]) -> CountPotentials:
    return CountPotentials(torch.cat(tables), torch.tensor([len(entries) - 1 for entries in tables]))


def weights(*shape: int, seed: int = 0, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """log cdf(f), log cdf(-f) at random f."""
    f = scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.special.log_ndtr(f), torch.special.log_ndtr(-f)


def full_programme(log_p: Tensor, log_q: Tensor, log_psi: Tensor) -> programme.ColumnPosterior:
    """The untruncated programme for one bag."""
    return programme._exact_posterior(log_p[:, None], log_q[:, None], log_psi[:, None])


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(actual, expected, rtol=0.0, atol=tolerance)


def ragged() -> tuple[CountPotentials, Tensor, Tensor]:
    sizes = [1, 8, 3, 30, 9, 8, 2, 31, 7, 8, 1, 25]
    tables = [rule(n) for n, rule in zip(sizes, itertools.cycle(POTENTIALS.values()), strict=False)]
    tables = [entries if (entries > -INF).any() else arbitrary(len(entries) - 1) for entries in tables]
    return together(tables), *weights(sum(sizes), seed=3)
