"""Probit instances under a potential on the number of positives.

For a bag with latent values f the evidence has probability Z(f), and under q(m) ∝ ψ(#{m > 0}) N(m; f, I) the mean of m
is f + G with G = ∂ log Z / ∂f (equation (1.4)): log Z and G are all that an inference needs to know.
"""

import torch
from torch import Tensor

from bagwise.special import Segments, log_at_least_one, log_minus_log_ndtr, log_ndtr, log_pdf


def label_terms(f: Tensor, labels: Tensor, segments: Segments) -> tuple[Tensor, Tensor]:
    """log Z per bag (b, K) and G per instance (n, K) for binary labels (b, K); NaN says nothing and gives zeros.

    With S = Σ log cdf(−f) over the bag, the log probability that all are negative:
      label 0:  log Z = S,               G = −h(−f)
      label 1:  log Z = log(1 − e^S),    G = h(−f) e^S / (1 − e^S)      by (0.1)–(0.2), safe where e^S rounds to 1.
    """
    log_negative = log_ndtr(-f)
    all_negative = segments.sum(log_negative)
    some_positive = log_at_least_one(segments.logsumexp(log_minus_log_ndtr(f)))
    log_z = torch.where(labels == 1, some_positive, all_negative)
    weight = torch.where(labels == 1, all_negative - some_positive, torch.zeros_like(all_negative))
    g = segments.spread(torch.sign(labels - 0.5)) * torch.exp(log_pdf(f) - log_negative + segments.spread(weight))
    missing = torch.isnan(labels)
    return log_z.masked_fill(missing, 0.0), g.masked_fill(segments.spread(missing), 0.0)
