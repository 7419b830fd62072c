"""Logistic instances in bags whose label is noisy: q(y), what is believed of the instances of a bag (theory section 5).

Instance i has log odds ηᵢ of being positive, as far as everything but its bag goes. A label T fits "some instance is
positive" or "none is" with odds H to 1:

    p(T | y) = H / (1 + H) where it fits, 1 / (1 + H) where it does not

Given η, the part of the bound that depends on q(y) is Σ πᵢ ηᵢ + entropy of q(y) + E log p(T | y). A factorised q(y) is
improved by (5.3), one instance after the other ("sequential") or all at once ("parallel", which may overshoot). The
best q(y) of all, joint over the bag, has a closed form (5.5) ("structured") and takes any potential on counts.
"""

import copy
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bag_models.counts import Tabled, chunk_weights, tabled_columns
from bagwise.evidence.counts import CountEvidence
from bagwise.numerics.counting.programme import count_posterior
from bagwise.numerics.segments import ONCE, BagWeights, Segments
from bagwise.numerics.special import bernoulli_entropy, log_at_least_one, log_minus_log_sigmoid, log_sigmoid

UPDATES = ("sequential", "structured", "parallel")
_DOUBT = 0.02  # what π keeps from 0 and 1 before the first update
_FEW = 8  # so many numbers are sooner worked on one by one than as an array

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """How far a label is to be trusted: H to 1."""

    log_odds: float
    log_fit: float
    log_miss: float

    @classmethod
    def of(cls, H: float) -> "Noise":
        """From H, which may be infinite."""
        return cls(math.log(H), -math.log1p(1.0 / H), -math.log1p(H))


class BagBelief(NamedTuple):
    """q(y) of the bags of a chunk."""

    logits: Tensor  # (n, K) what the next update starts from
    pi: Tensor  # (n, K) P(y = 1)
    own: Tensor  # (K,) entropy of q(y) + E log p(T | y), weighted: what it adds to the bound besides Σ π η


class NoisyOrEvidence:
    """Labels, counts and known instances of all bags, cut into chunks on demand.

    ``counts`` keeps the labels of bags as labels, with known instances or without; tables speak for other evidence.
    """

    def __init__(self, counts: CountEvidence) -> None:
        self._counts = counts

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where the bags lie among all instances."""
        return self._counts.offsets

    def chunk(self, part: slice, dtype: torch.dtype, device: torch.device) -> "BagStatements":
        """What is known of a run of bags."""
        labels = torch.tensor(self._counts.labels[part], dtype=torch.float64, device=device)
        tabled = tabled_columns(self._counts, part, torch.float64, device)
        first, last = self.offsets[part.start], self.offsets[part.stop]
        segments = Segments(torch.as_tensor(self.offsets[part.start : part.stop + 1] - first, device=device))
        known = torch.tensor(self._counts.known[first:last], device=device)
        return BagStatements(labels, known, tabled, segments, chunk_weights(self._counts, part, device))


@dataclass(frozen=True)
class BagStatements:
    """What is known of the bags of one chunk, in double precision."""

    labels: Tensor  # (b, K) 0, 1, or NaN where a table states more or nothing is known
    known: Tensor  # (n,) known instances, NaN elsewhere
    tabled: tuple[Tabled | None, ...]
    segments: Segments
    weights: BagWeights = ONCE

    @cached_property
    def free(self) -> Tensor:
        """(n, 1) instances that are not known."""
        return torch.isnan(self.known)[:, None]

    @cached_property
    def has_known_positive(self) -> Tensor:
        """(b, 1) bags with a known positive: their label says nothing about the others."""
        return self.segments.sum((self.known == 1).double())[:, None] > 0

    @cached_property
    def decided(self) -> Tensor:
        """(b, 1) bags whose known instances say whether the label is right."""
        return self.has_known_positive | (self.segments.sum(self.free.double()) == 0)

    @cached_property
    def informed(self) -> Tensor:
        """(n, K) instances the evidence says anything about; the others must stay out of the Gram matrix (1.5)."""
        rows = self.segments.spread(~torch.isnan(self.labels) & ~self.has_known_positive) | ~self.free
        for column, part in enumerate(self.tabled):
            if part is not None:
                rows[part.rows, column] = part.informed
        return rows

    @cached_property
    def unsure(self) -> Tensor:
        """(n, K) of the informed ones those that are not known."""
        return self.informed & self.free

    @cached_property
    def order(self) -> "PositionOrder":
        """Free instances, those at the same position of their bags together."""
        return position_order(self.free[:, 0].cpu().numpy(), self.segments.index.cpu().numpy(), len(self.segments))

    def counted(self, of_bags: Tensor, of_rows: Tensor) -> Tensor:
        """(K,) the sum of what bags (b, K) and their instances (n, K) add, each as often as its bag counts."""
        return self.weights.of_bags(of_bags).sum(0) + self.weights.of_rows(of_rows, self.segments).sum(0)

    def with_known(self, pi: Tensor) -> Tensor:
        """π of known instances is 0 or 1."""
        return torch.where(self.free, pi, self.known[:, None])


class NoisyOr:
    """The update of q(y), by one of three rules.

    A structured q(y) begins ``trusting``: among those under which every label is right. Under any H these are possible
    beliefs, so the bound is a bound, and it can only rise when they are ``released``. Without that, a large negative
    bag is at first more easily explained by a wrong label than by so many negative instances, and may stay so for good.
    """

    def __init__(self, H: float, updates: str, n_labels: int, device: torch.device) -> None:
        self._noise, self._updates = Noise.of(H), updates
        begins = updates == "structured" and math.isfinite(H)
        self.trusting = torch.full((n_labels,), begins, device=device)  # label columns that still are

    def released(self, columns: Tensor) -> "NoisyOr":
        """The same rule, the labels of some columns (K,) under suspicion."""
        other = copy.copy(self)
        other.trusting = self.trusting & ~columns
        return other

    def start(self, stated: BagStatements) -> BagBelief:
        """q(y) before anything is known about η: what labels say by themselves, ½ / (1 − 2⁻ⁿ) in positive bags."""
        if self._updates == "structured":
            eta = torch.zeros_like(stated.informed, dtype=torch.float64)
            return structured_belief(eta, stated, self._noise, torch.ones_like(self.trusting))
        n = stated.segments.sum(stated.free.double()).clamp(min=1.0)
        some = 0.5 / (1.0 - torch.exp2(-n))
        sure = torch.where(stated.labels == 0, 0.0, torch.where(stated.labels == 1, some, 0.5))
        logits = torch.logit(sure.clamp(_DOUBT, 1.0 - _DOUBT))
        return factorised_belief(stated.segments.spread(logits), stated, self._noise)

    def update(self, eta: Tensor, logits: Tensor, stated: BagStatements) -> BagBelief:
        """q(y) at log odds η (n, K), starting from the last logits."""
        if self._updates == "structured":
            return structured_belief(eta, stated, self._noise, self.trusting)
        improve = sequential_logits if self._updates == "sequential" else parallel_logits
        return factorised_belief(improve(eta, logits, stated, self._noise), stated, self._noise)


# ---------------------------------------------------------------- factorised


def factorised_belief(logits: Tensor, stated: BagStatements, noise: Noise) -> BagBelief:
    """Entropies of single instances and <G> of (5.4) for q(y) = Π Ber(σ(logit))."""
    pi = stated.with_known(torch.sigmoid(logits))
    none = torch.exp(_log_none(logits, stated)).masked_fill(stated.has_known_positive, 0.0)
    fits = torch.where(stated.labels == 1, 1.0 - none, none)
    label = fits * noise.log_fit + (1.0 - fits) * noise.log_miss
    entropy = bernoulli_entropy(logits) * stated.unsure
    return BagBelief(logits, pi, stated.counted(label.masked_fill(torch.isnan(stated.labels), 0.0), entropy))


def parallel_logits(eta: Tensor, logits: Tensor, stated: BagStatements, noise: Noise) -> Tensor:
    """(5.3) for all instances at once, each as if the others stood still: not an ascent step."""
    others = stated.segments.spread(_log_none(logits, stated)) - _log_negative(logits, stated)
    return eta + stated.segments.spread(_strength(stated, noise)) * torch.exp(others.clamp(max=0.0))


def sequential_logits(eta: Tensor, logits: Tensor, stated: BagStatements, noise: Noise) -> Tensor:
    """(5.3) for one instance of a bag after the other, all bags side by side: every step raises the bound.

    The chain runs on the processor, wherever η lives.
    """
    order = stated.order
    rows, bags = torch.from_numpy(order.rows).to(eta.device), torch.from_numpy(order.bags).to(eta.device)
    state = _Chain(
        eta[rows].cpu().numpy(),
        log_sigmoid(-logits[rows]).cpu().numpy(),
        _log_none(logits, stated)[bags].cpu().numpy(),
        _strength(stated, noise)[bags].cpu().numpy(),
    )
    improved = eta.clone()
    improved[rows] = torch.from_numpy(state.run(order)).to(eta.device)
    return improved


def _strength(stated: BagStatements, noise: Noise) -> Tensor:
    """(2T − 1) log H of every bag, 0 where there is no label or it says nothing any more."""
    signed = (2.0 * stated.labels - 1.0) * noise.log_odds
    return signed.masked_fill(torch.isnan(stated.labels) | stated.has_known_positive, 0.0)


def _log_negative(logits: Tensor, stated: BagStatements) -> Tensor:
    """log(1 − π) of free instances, 0 for known ones."""
    return log_sigmoid(-logits).masked_fill(~stated.free, 0.0)


def _log_none(logits: Tensor, stated: BagStatements) -> Tensor:
    """log of the probability that no free instance of the bag is positive, (b, K)."""
    return stated.segments.sum(_log_negative(logits, stated))


class PositionOrder(NamedTuple):
    """Rows by their position within their bag, the largest bags first: those at one position are a run."""

    rows: NDArray[np.int64]
    bags: NDArray[np.int64]  # in the order in which they stand at every position
    ends: NDArray[np.int64]  # where the run of each position ends


def position_order(free: NDArray[np.bool_], bag: NDArray[np.int64], n_bags: int) -> PositionOrder:
    """The order of the free rows of some bags."""
    rows = np.flatnonzero(free)
    sizes = np.bincount(bag[rows], minlength=n_bags)
    position = np.arange(len(rows)) - (np.cumsum(sizes) - sizes)[bag[rows]]
    bags = np.argsort(-sizes, kind="stable")
    rank = np.empty(n_bags, dtype=np.int64)
    rank[bags] = np.arange(n_bags)
    ends = np.cumsum(np.bincount(position)) if len(rows) else np.zeros(0, dtype=np.int64)
    return PositionOrder(rows[np.lexsort((rank[bag[rows]], position))], bags, ends)


class _Chain:
    """(5.3) position after position; ``total`` is the running Σ log(1 − π) of every bag."""

    def __init__(self, eta: Floats, negative: Floats, total: Floats, strength: Floats) -> None:
        self.eta, self.negative, self.total, self.strength = eta, negative, total.copy(), strength
        self.logits = np.empty_like(eta)

    def run(self, order: PositionOrder) -> Floats:
        """The new logits, in the order of the rows."""
        start = 0
        for position, end in enumerate(order.ends.tolist()):
            if (end - start) * self.eta.shape[1] <= _FEW:
                self._finish(start, np.diff(order.ends[position:], prepend=start))
                break
            self._at(slice(start, end))
            start = end
        return self.logits

    def _at(self, run: slice) -> None:
        bags = slice(0, run.stop - run.start)
        others = np.minimum(self.total[bags] - self.negative[run], 0.0)
        logits = self.eta[run] + self.strength[bags] * np.exp(others)
        self.logits[run] = logits
        self.total[bags] = others - np.logaddexp(0.0, logits)

    def _finish(self, start: int, widths: NDArray[np.int64]) -> None:
        """What is left of the few largest bags, in plain numbers."""
        starts = start + np.cumsum(widths) - widths
        for bag in range(int(widths[0])):
            rows = starts[widths > bag] + bag
            for column in range(self.eta.shape[1]):
                self.logits[rows, column] = _alone(
                    self.eta[rows, column].tolist(),
                    self.negative[rows, column].tolist(),
                    float(self.total[bag, column]),
                    float(self.strength[bag, column]),
                )


def _alone(eta: list[float], negative: list[float], total: float, strength: float) -> list[float]:
    logits = []
    for odds, before in zip(eta, negative, strict=True):
        others = min(total - before, 0.0)
        logit = odds + strength * math.exp(others)
        total = others - (max(logit, 0.0) + math.log1p(math.exp(-abs(logit))))
        logits.append(logit)
    return logits


# ---------------------------------------------------------------- joint over the bag


def structured_belief(eta: Tensor, stated: BagStatements, noise: Noise, trusting: Tensor) -> BagBelief:
    """(5.5): with P₀ the probability that no free instance is positive, Z = p(T | some)(1 − P₀) + p(T | none) P₀.

    Any other potential goes through the count programme. Columns that are ``trusting`` (K,) take labels for right. By
    (5.6) the bound is log Z + Σ log(1 + e^η), less Σ π η.
    """
    log_z, pi = _label_posterior(eta, stated, noise, trusting)
    for column, part in enumerate(stated.tabled):
        if part is not None:
            log_z[part.bags, column], pi[part.rows, column] = _table_posterior(eta[part.rows, column], part)
    pi = stated.with_known(pi)
    alone = torch.where(stated.unsure, -log_sigmoid(-eta) - pi * eta, torch.zeros_like(eta))
    return BagBelief(eta, pi, stated.counted(log_z, alone))


def _label_posterior(eta: Tensor, stated: BagStatements, noise: Noise, trusting: Tensor) -> tuple[Tensor, Tensor]:
    """log Z (b, K), 0 without a label, and π (n, K)."""
    log_fit = torch.full_like(stated.labels, noise.log_fit)
    log_miss = torch.full_like(log_fit, noise.log_miss).masked_fill(trusting & ~stated.decided, -torch.inf)
    exponents = log_minus_log_sigmoid(eta).masked_fill(~stated.free, -torch.inf)
    log_none = _log_none(eta, stated).masked_fill(stated.has_known_positive, -torch.inf)
    log_some = log_at_least_one(stated.segments.logsumexp(exponents)).masked_fill(stated.has_known_positive, 0.0)
    given_some = torch.where(stated.labels == 1, log_fit, log_miss)
    given_none = torch.where(stated.labels == 1, log_miss, log_fit)
    log_z = torch.logaddexp(given_some + log_some, given_none + log_none)
    pi = torch.exp(log_sigmoid(eta) + stated.segments.spread(given_some - log_z)).clamp(max=1.0)
    return log_z.masked_fill(torch.isnan(stated.labels), 0.0), pi


def _table_posterior(eta: Tensor, part: Tabled) -> tuple[Tensor, Tensor]:
    """log Z and π of the bags that state a table (2.4); a known instance has one side only."""
    log_p = log_sigmoid(eta).masked_fill(part.known == 0, -torch.inf)
    log_q = log_sigmoid(-eta).masked_fill(part.known == 1, -torch.inf)
    found = count_posterior(log_p, log_q, part.potentials)
    own = torch.where(part.known == 1, log_sigmoid(eta), log_sigmoid(-eta)).masked_fill(torch.isnan(part.known), 0.0)
    bags = part.potentials.bag_of_row
    return found.log_z.index_add(0, bags, own, alpha=-1.0), torch.exp(found.log_r)
