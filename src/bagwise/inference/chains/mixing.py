"""How well chains have mixed: rank-normalised split R-hat, effective sample sizes, Monte Carlo errors.

After Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), "Rank-normalization, folding, and localization".
Arrays are (…, chains, draws); every leading index is a quantity of its own. A quantity that never changes has R-hat 1
and counts every draw; one that is constant within chains but differs between them has a huge or infinite R-hat.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len
from scipy.special import ndtri
from scipy.stats import rankdata

Floats = NDArray[np.float64]

LEAST_DRAWS = 4  # per chain; fewer cannot be judged, and every answer is NaN


def r_hat(chains: Floats) -> Floats:
    """The larger of R-hat in the bulk (of ranks) and in the tails (of ranks of the distance from the median)."""
    if chains.shape[-1] < LEAST_DRAWS:
        return np.full(chains.shape[:-2], np.nan)
    halves = _split(chains)
    middle = np.median(halves, axis=(-2, -1), keepdims=True)
    return np.maximum(
        _between_and_within(_normal_scores(halves)), _between_and_within(_normal_scores(abs(halves - middle)))
    )


def ess_bulk(chains: Floats) -> Floats:
    """Effective sample size of ranks: how well the middle of the distribution is known."""
    return _unless_short(chains, lambda: _effective(_normal_scores(_split(chains))))


def ess_tail(chains: Floats) -> Floats:
    """The smaller effective sample size of the 5 % and the 95 % quantile."""

    def smaller() -> Floats:
        sizes = []
        for level in (0.05, 0.95):
            quantile = np.quantile(chains, level, axis=(-2, -1), keepdims=True)
            sizes.append(_effective(_split((chains <= quantile).astype(np.float64))))
        return np.minimum(*sizes)

    return _unless_short(chains, smaller)


def ess_mean(chains: Floats) -> Floats:
    """Effective sample size of the average itself."""
    return _unless_short(chains, lambda: _effective(_split(chains)))


def mcse_mean(chains: Floats) -> Floats:
    """Monte Carlo standard error of the average over all draws: their standard deviation over √ESS."""
    error: Floats = np.std(chains, axis=(-2, -1), ddof=1) / np.sqrt(ess_mean(chains))
    return error


def _unless_short(chains: Floats, answer: Callable[[], Floats]) -> Floats:
    return np.full(chains.shape[:-2], np.nan) if chains.shape[-1] < LEAST_DRAWS else answer()


def _split(chains: Floats) -> Floats:
    """Halves of chains as chains; a chain that drifts then disagrees with itself."""
    half = chains.shape[-1] // 2
    return np.concatenate([chains[..., :half], chains[..., -half:]], axis=-2)


def _normal_scores(chains: Floats) -> Floats:
    flat = chains.reshape(*chains.shape[:-2], -1)
    ranks = rankdata(flat, axis=-1)
    scores: Floats = ndtri((ranks - 0.375) / (flat.shape[-1] + 0.25))
    return scores.reshape(chains.shape)


def _between_and_within(chains: Floats) -> Floats:
    """√(((L − 1)/L W + B/L)/W), with B/L the variance of the means of the chains and W the mean of their variances."""
    n = chains.shape[-1]
    between, within = chains.mean(-1).var(-1, ddof=1), chains.var(-1, ddof=1).mean(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Floats = np.sqrt((n - 1) / n + between / within)
    return np.where(within > 0, ratio, np.where(between > 0, np.inf, 1.0))


def _autocovariance(chains: Floats) -> Floats:
    n = chains.shape[-1]
    spectrum = np.fft.rfft(chains - chains.mean(-1, keepdims=True), next_fast_len(2 * n, real=True))
    covariance: Floats = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, next_fast_len(2 * n, real=True))[..., :n] / n
    return covariance


def _effective(chains: Floats) -> Floats:
    """C L / τ, τ = −1 + 2 Σ ρ_t, the sum cut by Geyer's initial positive sequence and smoothed by his monotone one.

    ρ_t compares the mean autocovariance with the variance over all chains, so chains that disagree raise τ.
    """
    m, n = chains.shape[-2:]
    covariance = _autocovariance(chains).mean(-2)
    within = covariance[..., :1] * n / (n - 1)
    total = covariance[..., :1] + (chains.mean(-1).var(-1, ddof=1)[..., None] if m > 1 else 0.0)
    varies = total[..., 0] > 1e-30 * np.square(chains).mean((-2, -1)) + np.finfo(np.float64).tiny
    rho = 1.0 - (within - covariance) / np.where(varies[..., None], total, 1.0)
    rho[..., 0] = 1.0
    most = max(n - 3, 1)  # the lag of the last pair: pairs (0, 1), (2, 3), … up to the first odd lag from n − 3 on
    count = (most if most % 2 else most + 1) // 2 + 1
    even, odd = rho[..., 0 : 2 * count : 2], rho[..., 1 : 2 * count : 2]
    width = min(even.shape[-1], odd.shape[-1])
    even, pairs = even[..., :width], even[..., :width] + odd[..., :width]
    stop = np.where((pairs <= 0).any(-1), (pairs <= 0).argmax(-1), width - 1)
    kept = np.arange(width) < stop[..., None]
    monotone = np.minimum.accumulate(pairs, axis=-1)
    last, final = (np.take_along_axis(part, stop[..., None], axis=-1)[..., 0] for part in (even, pairs))
    half = np.where(final >= 0, last, np.maximum(last, 0.0))
    tau = -1.0 + 2.0 * np.where(kept, monotone, 0.0).sum(-1) + half
    tau = np.maximum(tau, 1.0 / np.log10(m * n))
    return np.where(varies, m * n / tau, float(m * n))
