"""Stable primitives of the normal and logistic laws (theory section 0.2)."""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

LOG_2PI = math.log(2.0 * math.pi)
_LOG_2 = math.log(2.0)
_UNDERFLOW = {torch.float64: -690.0, torch.float32: -80.0}  # exp of less has lost digits
_FARTHEST = {torch.float64: 37.0, torch.float32: 12.5}  # cdf of minus this keeps all its digits

log_ndtr = torch.special.log_ndtr
log_sigmoid = logsigmoid


def log_pdf(x: Tensor) -> Tensor:
    """Log density of the standard normal law."""
    return -0.5 * (x * x + LOG_2PI)


def hazard(x: Tensor) -> Tensor:
    """pdf(x) / cdf(x); behaves as -x - 1/x for x -> -inf and is never 0/0.

    With cdf(x) = exp(-x²/2) erfcx(-x/√2) / 2 the exponentials cancel, and with them every rounding error.
    """
    scaled: Tensor = torch.special.erfcx(-x / math.sqrt(2.0))
    return math.sqrt(2.0 / math.pi) / scaled


def farthest_side(dtype: torch.dtype) -> float:
    """How far from 0 a latent value may lie for both tails to be ordinary numbers."""
    return _FARTHEST[dtype]


def log_negative_side(z: Tensor) -> Tensor:
    """log cdf(−z), several times faster than ``log_ndtr(−z)``, for z held between −37 and 37.

    (Between −12.5 and 12.5 in single precision: further out the smaller tail would underflow.)
    One erfc gives the smaller tail; its logarithm, or that of what it leaves of 1, keeps all digits.
    """
    farthest = _FARTHEST[z.dtype]
    inside = z.clamp(-farthest, farthest)
    above = inside > 0
    distance = torch.where(above, inside, -inside)  # unlike |z| it has the right slope at 0
    tail = 0.5 * torch.special.erfc(distance * math.sqrt(0.5))
    return torch.where(above, torch.log(tail), torch.log1p(-tail))


def log_negative_chance(z: Tensor) -> Tensor:
    """The same for any z: beyond where it is held, log cdf(−z) goes on falling by the square, to first order."""
    farthest = _FARTHEST[z.dtype]
    beyond = (z - farthest).clamp(min=0.0)
    return log_negative_side(z) - 0.5 * beyond * (beyond + 2.0 * farthest)


def log1mexp(s: Tensor) -> Tensor:
    """log(1 - exp(s)) for s < 0."""
    return torch.where(s > -_LOG_2, torch.log(-torch.expm1(s)), torch.log1p(-torch.exp(s)))


def log_minus_log_ndtr(f: Tensor) -> Tensor:
    """log(-log cdf(-f)), the log of what one instance adds to the all-negative exponent (section 0.2).

    log cdf(-f) = log(1 - cdf(f)) = -cdf(f) - cdf(f)²/2 - …; the series takes over before cdf(f) can underflow.
    """
    tail = log_ndtr(f)
    threshold = -5.0 if f.dtype == torch.float64 else -3.0
    return torch.where(f < threshold, tail + 0.5 * torch.exp(tail), torch.log(-log_ndtr(-f)))


def log_minus_log_sigmoid(f: Tensor) -> Tensor:
    """log(-log σ(-f)) = log log(1 + e^f), the logistic twin; e^f is all that is left of the inner log far below 0."""
    return torch.where(f < -30.0, f - 0.5 * torch.exp(f), torch.log(-logsigmoid(-f)))


def log_at_least_one(t: Tensor) -> Tensor:
    """log(1 - exp(-exp(t))), the log probability that a bag is positive, with t = log(-log P(all negative)): (0.1).

    The series leaves out exp(2t) / 24. At the -12 of (0.1) that is 2e-12; at -20 it is below the last digit, and exp(t)
    is still far from underflow in single precision.
    """
    direct = log1mexp(-torch.exp(t.clamp(min=-20.0)))  # held, so that its slope is a number where it is not taken
    return torch.where(t < -20.0, t - 0.5 * torch.exp(t), direct)


def jaakkola_lambda(xi: Tensor) -> Tensor:
    """tanh(ξ/2) / (4ξ), the curvature of the quadratic bound on log σ; even in ξ, 1/8 at 0."""
    near_zero = xi.abs() < 1e-3
    safe = torch.where(near_zero, torch.ones_like(xi), xi)
    square = xi * xi
    return torch.where(
        near_zero, 0.125 - square / 96.0 + square * square / 960.0, torch.tanh(0.5 * safe) / (4.0 * safe)
    )


def bernoulli_entropy(logit: Tensor) -> Tensor:
    """Entropy in nats of a coin with P(1) = σ(logit)."""
    return -(torch.sigmoid(logit) * logsigmoid(logit) + torch.sigmoid(-logit) * logsigmoid(-logit))


def ndtri_exp(t: Tensor) -> Tensor:
    """The x with log cdf(x) = t, for t down to where cdf(x) itself has long underflowed, and up to t = 0 (x = inf).

    While cdf(x) or 1 - cdf(x), the smaller of the two, is a number, the quantile of that number is accurate to the last
    digits. Only beyond is the logarithm itself inverted.
    """
    below = t < -_LOG_2
    x: Tensor = torch.special.ndtri(torch.where(below, torch.exp(t), -torch.expm1(t)))
    x = torch.where(below, x, -x)
    far = t < _UNDERFLOW[t.dtype]
    return x.masked_scatter(far, _far_ndtri_exp(t[far])) if bool(far.any()) else x


def _far_ndtri_exp(t: Tensor) -> Tensor:
    """From the leading term of the tail, four Newton steps on log cdf, whose slope is the hazard; -inf stays."""
    w = -2.0 * t - LOG_2PI
    x = torch.where(torch.isinf(t), t, -torch.sqrt(w - torch.log(w)))
    for _ in range(4):
        change = (log_ndtr(x) - t) / hazard(x)
        x = x - torch.where(torch.isfinite(change), change, torch.zeros_like(change))
    return x
