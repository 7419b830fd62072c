"""Candidate sets as Gaussian targets, one regression per class (theory section 7).

Every instance of a bag inherits its candidate set, to which "none of them" is added as the last class. Its class is a
draw from Dirichlet(α); a Gamma(α_c, 1) variable is matched by a log-normal one, so that log-concentrations become
targets of C Gaussian regressions with noise of their own (7.2). α is then renewed from the latent means: class by class
(7.4), or with the whole bag in view (7.10).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from bagwise.numerics.segments import Segments
from bagwise.numerics.special import log_at_least_one, log_sigmoid


class Targets(NamedTuple):
    """What the instances say about every latent function, (n, C) each."""

    value: Tensor
    noise: Tensor  # variance


class CandidateChunk(NamedTuple):
    """Which classes some bags may have, "none of them" included, (b, C)."""

    candidates: Tensor


@dataclass(frozen=True)
class CandidateEvidence:
    """The candidate sets of bags, ready to be cut into chunks."""

    table: NDArray[np.bool_]  # (B, C)
    offsets: NDArray[np.int64]  # of the bags

    def chunk(self, part: slice, dtype: torch.dtype, device: torch.device) -> CandidateChunk:
        """The candidates of a run of bags."""
        return CandidateChunk(torch.from_numpy(self.table[part].copy()).to(device))


def augmented(table: NDArray[np.bool_], augment: bool) -> NDArray[np.bool_]:
    """Candidates of the instances: those of their bag and, unless set otherwise, none of them."""
    return np.column_stack([table, np.ones(len(table), dtype=bool)]) if augment else table


def initial_alpha(candidates: Tensor, eps: float) -> Tensor:
    """(7.1): every candidate alike, (n, C) from the candidates of every instance."""
    share = 1.0 / candidates.sum(1, keepdim=True, dtype=torch.float64)
    return candidates * share + eps


def targets_of(alpha: Tensor) -> Targets:
    """(7.2): the log-normal law with the mean and the variance of Gamma(α, 1)."""
    noise = torch.log1p(1.0 / alpha)
    return Targets(torch.log(alpha) - 0.5 * noise, noise)


def renewed_alpha(latent: Tensor, candidates: Tensor, eps: float) -> Tensor:
    """(7.4): the candidates in proportion to the exponentials of their latent means."""
    return torch.softmax(latent.masked_fill(~candidates, -torch.inf), dim=1) + eps


def consistent_alpha(latent: Tensor, candidates: Tensor, segments: Segments, eps: float) -> Tensor:
    """(7.10): one class of the bag is true, at least one instance has it and all others have none of them.

    With d_ic = f_ic − f_i,none and S_bc = Σ_i softplus(d_ic) the normaliser of the softmax and Σ_i log p_i,none drop
    out: log w_bc = log(exp(S_bc) − 1) and r_ic = σ(d_ic) exp(S_bc − log Σ_c w_bc).
    """
    above = latent[:, :-1] - latent[:, -1:]
    sums, log_w = bag_log_weights(above, segments)
    allowed = segments.max(candidates[:, :-1].to(torch.float64)) > 0
    total = torch.logsumexp(log_w.masked_fill(~allowed, -torch.inf), dim=1, keepdim=True)
    log_r = log_sigmoid(above) + segments.spread(sums - total)
    r = torch.exp(log_r.masked_fill(~candidates[:, :-1], -torch.inf))
    none = (1.0 - r.sum(1, keepdim=True)).clamp(min=0.0)
    return torch.cat([r, none], dim=1) + eps


def bag_log_weights(above: Tensor, segments: Segments) -> tuple[Tensor, Tensor]:
    """S_bc and log w_bc up to a constant of the bag, (b, q) each, from d_ic, (n, q).

    Where every d is far below zero S underflows; its logarithm is summed instead.
    """
    log_soft = torch.where(above < -20.0, above - 0.5 * torch.exp(above), torch.log(softplus(above)))
    log_sums = segments.logsumexp(log_soft)
    sums = torch.exp(log_sums)
    return sums, sums + log_at_least_one(log_sums)


DISAMBIGUATIONS = ("dirichlet", "consistent", "uniform", "prior-mean")
_BISECTIONS = 60
FIRST_ROUNDS = 3  # of (7.4) at least before (7.10), and before the kernel is learned


class Disambiguation(NamedTuple):
    """How α is renewed: by (7.4), by (7.4) and after ``first_rounds`` of it by (7.10), or not at all.

    "prior-mean" is (7.4) at the constants of the classes alone: instances with one candidate set then stay alike.

    (7.10) commits a bag to a class, right or wrong, and its own instances then confirm it: it should come late.

    (7.4) alone drifts until every instance is none of them: wherever an instance of a class and one of no class look
    alike the many win over the few, round after round. With ``at_least_one`` the odds of the candidate classes are
    raised, by one factor for all instances of a bag, where less than one instance would be expected to have one.
    """

    kind: str
    eps: float
    at_least_one: bool = True  # only where "none of them" is the last class
    first_rounds: int = FIRST_ROUNDS

    def start(self, chunk: CandidateChunk, segments: Segments) -> Tensor:
        """α before the first round, (n, C)."""
        return initial_alpha(segments.spread(chunk.candidates), self.eps)

    @property
    def by_constants(self) -> bool:
        """Whether the mean that (7.4) goes by is that of the classes' constants, and not of f at the instance."""
        return self.kind == "prior-mean"

    def to_come(self, rounds_made: int) -> bool:
        """Whether another update will take over, so that it is too early to stop."""
        return self.kind == "consistent" and rounds_made <= self.first_rounds

    def renew(
        self, alpha: Tensor, latent: Tensor, chunk: CandidateChunk, segments: Segments, rounds_made: int
    ) -> Tensor:
        """α after a round, from the posterior means of f, (n, C)."""
        if self.kind == "uniform":
            return alpha
        candidates, means = segments.spread(chunk.candidates), latent.double()
        if self.kind == "consistent" and rounds_made >= self.first_rounds:
            return consistent_alpha(means, candidates, segments, self.eps)
        if self.at_least_one:
            means = raised_to_one(means, candidates, segments)
        return renewed_alpha(means, candidates, self.eps)


def raised_to_one(latent: Tensor, candidates: Tensor, segments: Segments) -> Tensor:
    """Latent means with "none of them" lowered by λ in all of a bag, where less than one of the others is expected.

    With the log odds t_i of any candidate class against none of them the number expected is Σ_i σ(t_i + λ), which rises
    with λ and is n/2 or more at λ = −min t: bisection between 0 and that. (A bag of one is raised to even odds only.)
    """
    odds = torch.logsumexp(latent[:, :-1].masked_fill(~candidates[:, :-1], -torch.inf), dim=1) - latent[:, -1]
    wanted = torch.clamp(0.5 * segments.sizes.to(odds), max=1.0)
    low, high = torch.zeros_like(wanted), segments.max(-odds).clamp(min=0.0)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        enough = segments.sum(torch.sigmoid(odds + segments.spread(middle))) >= wanted
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    present = segments.sum(torch.sigmoid(odds)) >= wanted
    shift = torch.where(present, torch.zeros_like(high), high)
    return torch.cat([latent[:, :-1], latent[:, -1:] - segments.spread(shift)[:, None]], dim=1)


def total_change(before: Tensor, after: Tensor) -> Tensor:
    """How far the responsibilities of the instances moved, in total variation, added up over them."""
    return 0.5 * (after - before).abs().sum()
