"""Log probabilities that none, or some, of the probit instances of a bag are positive (theory section 0.2)."""

from typing import NamedTuple

import torch
from torch import Tensor

from bagwise.numerics.segments import Segments
from bagwise.numerics.special import (
    farthest_side,
    log_at_least_one,
    log_minus_log_ndtr,
    log_ndtr,
    log_negative_side,
)


class NoneOrSome(NamedTuple):
    """By instance log cdf(−f), (n, K); by bag S, the sum of these, and log(1 − e^S), (b, K) each."""

    negative: Tensor
    none: Tensor
    some: Tensor


def none_or_some(f: Tensor, segments: Segments) -> NoneOrSome:
    """From latent values f (n, K).

    All parts of S have one sign, so log(−S) keeps all digits, and nothing else is needed: a third of the work. Only
    where an instance lies so far out that its tail underflows does (0.1) take logarithms of all parts.
    """
    if bool((f.abs() <= farthest_side(f.dtype)).all()):
        negative = log_negative_side(f)
        none = segments.sum(negative)
        return NoneOrSome(negative, none, log_at_least_one(torch.log(-none)))
    negative = log_ndtr(-f)
    return NoneOrSome(negative, segments.sum(negative), log_at_least_one(segments.logsumexp(log_minus_log_ndtr(f))))
