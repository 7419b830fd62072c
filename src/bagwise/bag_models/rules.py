"""What a bag is: how the latent values of its instances decide about it, in fit and in prediction alike.

A rule is small, immutable and saved with the model (``rule_``). Rules of labels see the latent values of whole bags:
``probability`` is what ``predict_proba`` answers, and ``log_negative`` is log P(the bag is negative | v) under each
draw of v, which everything else asks for: what to label next, and how far chains may be off. Rules of classes see the
class probabilities of the instances.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bag_models.dirichlet import bag_log_weights
from bagwise.bag_models.soft_max import POOLINGS, Pooling, hard_witness, soft_witness
from bagwise.exceptions import ModelFileError
from bagwise.gp.latent import LatentBags, copies
from bagwise.gp.leftovers import RANK
from bagwise.numerics.blocks import blocks, in_stretches
from bagwise.numerics.segments import Segments

DECISIONS = ("probability", "mode")
_KNOWN: dict[str, type["Rule"]] = {}


@dataclass(frozen=True)
class Rule:
    """What every rule has: a name by which files know it, and fields that are plain numbers and words."""

    name: ClassVar[str]
    of_classes: ClassVar[bool] = False  # whether a bag has one class out of many, rather than a label for each column
    grows_with_size: ClassVar[bool] = False  # whether a bag is the more probably positive the more instances it has

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        if "name" in vars(cls):
            _KNOWN[cls.name] = cls

    @property
    def decides_by_mode(self) -> bool:
        """Whether a bag is called positive by the mode of the latent function, not by its probability."""
        return False

    def describe(self) -> dict[str, Any]:
        """The rule as JSON."""
        return {"name": self.name, **asdict(self)}


def rule_from(description: Any) -> Rule:
    """The rule that ``describe`` described."""
    if not isinstance(description, dict) or description.get("name") not in _KNOWN:
        raise ModelFileError(f"the file names a rule that is not known here: {description!r}.")
    fields = {key: value for key, value in description.items() if key != "name"}
    try:
        return _KNOWN[description["name"]](**fields)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"the rule {description['name']!r} of the file is damaged ({error}).") from None


# ---------------------------------------------------------------- rules of labels


@dataclass(frozen=True)
class LabelRule(Rule, ABC):
    """A bag is positive or negative, once for every label column.

    ``shares`` says whether instances of a bag share what the features leave over of the latent function, as the kernel
    has it (theory section 13.4); else each has its own.
    """

    shares: bool = field(default=True, kw_only=True)

    @abstractmethod
    def probability(self, latent: LatentBags) -> Tensor:
        """P(the bag is positive), v integrated out: (b, K)."""

    def calls_positive(self, latent: LatentBags) -> Tensor:
        """Whether the bag is called positive: the more probable answer, unless a rule decides otherwise. (b, K)."""
        return self.probability(latent) > 0.5

    @abstractmethod
    def log_negative(self, latent: LatentBags, column: int) -> Tensor:
        """log P(the bag is negative | v) under every draw of v: (b, S).

        The logarithm keeps the digits of both answers: P(negative) = exp(l), P(positive) = −expm1(l).
        """


@dataclass(frozen=True)
class AtLeastOne(LabelRule):
    """A bag is positive if at least one of its instances is: (1.10), the dependence through v included."""

    name: ClassVar[str] = "at least one"
    grows_with_size: ClassVar[bool] = True

    def probability(self, latent: LatentBags) -> Tensor:
        """The average of 1 − Π P(yᵢ = 0 | v) over the draws.

        The same draws average two numbers whose exact values are known: P(yᵢ = 1 | v) of the most probable instance,
        and the probability of at least one positive among as many copies of it as the bag has instances. They are
        control variates. The result is held between the bounds that the exact probabilities of the instances imply,
        max pᵢ ≤ P ≤ Σ pᵢ, so a bag never contradicts its instances, and a bag of one is exact.
        """
        found = torch.stack([self._average(latent, column) for column in range(latent.n_labels)], dim=1)
        each = latent.present(latent.probability)
        return found.clamp(latent.segments.max(each), latent.over_people(each).clamp(max=1.0))

    def log_negative(self, latent: LatentBags, column: int) -> Tensor:
        """Σ log P(yᵢ = 0 | v) over the bag; a shared leftover is averaged over."""
        found = []
        for turned in latent.scores_by_turn(column):
            logs = torch.stack([_log_all_negative(latent, scores) for scores in turned])
            found.append(torch.logsumexp(logs, dim=0) - math.log(len(logs)))
        return torch.cat(found, dim=1)

    def _average(self, latent: LatentBags, column: int) -> Tensor:
        best = latent.segments.first_largest(latent.present(latent.probability)[:, column])
        sizes = latent.totals
        sums = torch.zeros(len(best), 3, dtype=torch.float64, device=best.device)
        products = sums.new_zeros(len(best), 3, 3)
        for _, scores in latent.scores(column):
            whole = -torch.expm1(_log_all_negative(latent, scores))
            series = torch.stack([whole, *copies(latent.link, scores[best], sizes)], dim=1)  # (b, 3, some draws)
            sums += series.sum(2)
            products += series @ series.mT
        points = latent.points.weights.shape[2]
        expected = latent.expected_copies(best, sizes, column)
        return controlled(sums / points, products / points, expected)


def _log_all_negative(latent: LatentBags, scores: Tensor) -> Tensor:
    """Σ log P(yᵢ = 0) over the bags at some scores (n, some draws)."""
    return latent.over_people(in_stretches(latent.link.log_negative, scores))


@dataclass(frozen=True)
class OneOfTheClasses(AtLeastOne):
    """A bag has one class: it shows that one and no other (theory section 16); ``none`` says that it may show none.

    ``probability`` and ``log_negative`` answer column by column: that the bag shows a class, whatever else it
    shows. Which class it has if it has one is answered by ``predict/bag_classes.py``.
    """

    none: bool
    name: ClassVar[str] = "one of the classes"
    of_classes: ClassVar[bool] = True


@dataclass(frozen=True)
class SoftMax(LabelRule):
    """A bag is judged by the soft maximum of its latent values (theory 6.1).

    It is called by its probability, or by the mode: by the soft maximum of the posterior means, (27) of the paper.
    """

    pooling: str
    sharpness: float
    decision: str = "probability"
    name: ClassVar[str] = "soft maximum"

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS or self.decision not in DECISIONS or not self.sharpness > 0:
            raise ValueError(f"pooling {self.pooling!r}, decision {self.decision!r}, sharpness {self.sharpness!r}")

    def calls_positive(self, latent: LatentBags) -> Tensor:
        """P > ½, or a(means) > 0."""
        if self.decision == "probability":
            return super().calls_positive(latent)
        return self.pool.score(latent.moments[0], latent.segments) > 0.0

    @property
    def grows_with_size(self) -> bool:  # type: ignore[override]
        """The sum grows with every further instance, the mean does not."""
        return self.pooling == "sum"

    @property
    def decides_by_mode(self) -> bool:
        """Whether a bag is called positive by the mode of the latent function, not by its probability."""
        return self.decision == "mode"

    @property
    def pool(self) -> Pooling:
        """The soft maximum itself."""
        return Pooling(self.pooling, self.sharpness)

    def probability(self, latent: LatentBags) -> Tensor:
        """E P(positive | a(F)), F = Φ v + leftover, by quasi-Monte Carlo over v and the leftovers.

        The points that average P(positive | a) also average P(positive | Fᵢ), whose exact value is known; the
        difference, weighted as the soft maximum weights the instances, corrects the estimate, and a bag of one is
        exact. With the published sum the soft maximum is never below an Fᵢ, so neither is the probability.
        """
        exact = latent.probability
        columns = []
        for column in range(latent.n_labels):
            whole, single = self._averages(latent, column)
            shares = self.pool.weights(latent.moments[0][:, column], latent.segments)
            columns.append(whole + latent.segments.sum(shares * (exact[:, column] - single)))
        found = torch.stack(columns, dim=1).clamp(0.0, 1.0)
        return torch.maximum(found, latent.segments.max(exact)) if self.pooling == "sum" else found

    def log_negative(self, latent: LatentBags, column: int) -> Tensor:
        """What leftovers leave open of the score is Pᵀ C P in first order, P being its slopes at the mean."""
        P = self.pool.weights(latent.moments[0][:, column], latent.segments)
        _, left = latent.weighted_design(P, column)
        rows, weights = latent.design.phi, latent.points.weights[column]
        scores = [
            self.pool.score((rows @ weights[:, some].to(rows.dtype)).double(), latent.segments)
            for some in blocks(weights.shape[1], len(rows))
        ]
        return _negative(latent, torch.cat(scores, dim=1), left)

    def _averages(self, latent: LatentBags, column: int) -> tuple[Tensor, Tensor]:
        """Averages over the points of P(positive | a), per bag, and of P(positive | Fᵢ), per instance."""
        noise = _own_noise(latent, column)
        whole, single = [], []
        for some, centre in latent.centres(column):
            F = centre + noise[:, some]
            whole.append(latent.link.chances(self.pool.score(F, latent.segments))[0].sum(1))
            single.append(latent.link.chances(F)[0].sum(1))
        points = latent.points.weights.shape[2]
        return torch.stack(whole).sum(0) / points, torch.stack(single).sum(0) / points


@dataclass(frozen=True)
class Witness(LabelRule):
    """A bag is judged by Σ Pᵢ Fᵢ with weights on its witnesses, as at the end of training (theory 6.2).

    P ∝ exp(λ mean) within the bag, λ = ``sharpness``; None puts all weight on the largest mean.
    """

    sharpness: float | None
    name: ClassVar[str] = "witness"

    def __post_init__(self) -> None:
        if self.sharpness is not None and not self.sharpness > 0:
            raise ValueError(f"sharpness {self.sharpness!r}")

    def probability(self, latent: LatentBags) -> Tensor:
        """E P(positive | a) for a = Σ Pᵢ Fᵢ ~ N(Pᵀ mean, Pᵀ Cov P)."""
        columns = []
        for column in range(latent.n_labels):
            mean, variance = latent.weighted_moments(self._weights(latent, column), column)
            columns.append(latent.link.expected(mean, variance))
        return torch.stack(columns, dim=1)

    def log_negative(self, latent: LatentBags, column: int) -> Tensor:
        """The leftover Pᵀ C P of the score is integrated out exactly."""
        rows, left = latent.weighted_design(self._weights(latent, column), column)
        return _negative(latent, rows @ latent.points.weights[column], left)

    def _weights(self, latent: LatentBags, column: int) -> Tensor:
        mean = latent.moments[0][:, column]
        if self.sharpness is None:
            return hard_witness(mean, latent.segments)
        return soft_witness(mean, latent.segments, self.sharpness)


def _negative(latent: LatentBags, scores: Tensor, left: Tensor) -> Tensor:
    return latent.link.log_probability(-latent.link.score(scores, left))


def _own_noise(latent: LatentBags, column: int) -> Tensor:
    """√d ε of every instance, (n, S): quasi-random for the first places of a bag, random beyond.

    Noise belongs to places, the largest mean first: so neither the order of the instances nor the company of other
    bags matters.
    """
    quasi = latent.points.noise[RANK:]
    more = max(0, int(latent.segments.sizes.max()) - len(quasi))
    random = np.random.default_rng([latent.points.seed, 1]).standard_normal((more, quasi.shape[1]))
    by_place = torch.cat([quasi, torch.from_numpy(random).to(quasi)])
    return latent.leftover(column).rest.to(quasi.dtype).sqrt()[:, None] * by_place[_places(latent, column)]


def _places(latent: LatentBags, column: int) -> NDArray[np.int64]:
    """The place of every instance in its bag, the largest mean first."""
    mean, variance = (part[:, column].cpu().numpy() for part in latent.moments)
    places = np.empty(len(mean), dtype=np.int64)
    places[np.lexsort((-variance, -mean, latent.segments.index.cpu().numpy()))] = np.arange(len(mean))
    places -= np.repeat(latent.segments.offsets[:-1].cpu().numpy(), latent.segments.sizes.cpu().numpy())
    return places


def controlled(mean: Tensor, square: Tensor, expected: Tensor) -> Tensor:
    """The first mean, (b,), corrected by how far the others are off what is expected of them.

    ``mean`` (b, 1 + c) and ``square`` (b, 1 + c, 1 + c) are averages of the numbers and of their products, ``expected``
    (b, c) the exact means of all but the first. Controls that hardly vary correct nothing.
    """
    covariance = square - mean[:, :, None] * mean[:, None, :]
    inner = covariance[:, 1:, 1:]
    ridge = 1e-6 * inner.diagonal(dim1=1, dim2=2).mean(1) + 1e-14
    inner = inner + ridge[:, None, None] * torch.eye(inner.shape[1], dtype=inner.dtype, device=inner.device)
    slopes = torch.linalg.solve(inner, covariance[:, 1:, :1])[:, :, 0]
    corrected: Tensor = mean[:, 0] + (slopes * (expected - mean[:, 1:])).sum(1)
    return corrected


# ---------------------------------------------------------------- rules of classes


@dataclass(frozen=True)
class ClassRule(Rule, ABC):
    """A bag has one class out of many; ``none`` says whether its instances may have none of them, the last class."""

    none: bool
    of_classes: ClassVar[bool] = True

    @abstractmethod
    def probability(self, theta: Tensor, segments: Segments) -> Tensor:
        """Probabilities of the classes of every bag, (b, q), from those of its instances."""

    def _own(self, theta: Tensor) -> Tensor:
        return theta[:, :-1] if self.none else theta


@dataclass(frozen=True)
class StrongestInstance(ClassRule):
    """(7.6): the largest probability of the class among the instances, as shares of one."""

    name: ClassVar[str] = "strongest instance"

    def probability(self, theta: Tensor, segments: Segments) -> Tensor:
        """max over instances, normalised; alike where all are too small to be told from 0."""
        largest = segments.max(self._own(theta).clamp(min=torch.finfo(theta.dtype).tiny))
        return largest / largest.sum(1, keepdim=True)


@dataclass(frozen=True)
class OneClassInBag(ClassRule):
    """(7.10): at least one instance has the class of the bag, all others have none of them."""

    name: ClassVar[str] = "one class in the bag"

    def probability(self, theta: Tensor, segments: Segments) -> Tensor:
        """The posterior of the bag's class, all classes being candidates, at the instances' probabilities."""
        logs = theta.clamp(min=torch.finfo(theta.dtype).tiny).log()
        _, log_w = bag_log_weights(logs[:, :-1] - logs[:, -1:], segments)
        return torch.softmax(log_w, dim=1)
