"""A complete small model, to be copied and changed: a bag is judged by the mean of its latent values.

It has the three parts that every model has, and nothing else: a rule (what a bag is), a bag model (what a bag says
about its latent values) and an estimator that picks an inference from the shelf. The tests run it through the whole
contract.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from bagwise.bag_models.rules import LabelRule
from bagwise.bag_models.soft_max import BagLosses, uniform_weights
from bagwise.exceptions import ConvergenceWarning, warn_user
from bagwise.gp.latent import LatentBags
from bagwise.inference.laplace.fit import all_rows, joint_posterior, mode_posterior
from bagwise.inference.laplace.mode import ModeLimits
from bagwise.inference.loop import Callback, Watch
from bagwise.models import BagClassifier, ModelCard
from bagwise.models._base.documented import documented
from bagwise.models._base.estimator import check_iterations
from bagwise.numerics.links import PROBIT
from bagwise.numerics.segments import Segments


# 1. The rule: how latent values decide about a bag. It is immutable, saved with the model, and what prediction asks.
@dataclass(frozen=True)
class MeanOfLatents(LabelRule):
    """P(positive) = link(mean of the latent values of the bag)."""

    name: ClassVar[str] = "mean of the latent values"  # by which files know it

    def probability(self, latent: LatentBags) -> Tensor:
        """P(the bag is positive), v integrated out: (b, K). A weighted sum of latent values is Gaussian."""
        P = uniform_weights(latent.segments)
        moments = [latent.weighted_moments(P, column) for column in range(latent.n_labels)]
        return torch.stack([latent.link.expected(*pair) for pair in moments], dim=1)

    def log_negative(self, latent: LatentBags, column: int) -> Tensor:
        """log P(the bag is negative | v) under every draw of v: (b, S). Queries and Monte Carlo errors ask for it."""
        rows, left = latent.weighted_design(uniform_weights(latent.segments))
        scores = rows @ latent.points.weights[column]
        return latent.link.log_probability(-latent.link.score(scores, left))


# 2. The bag model: what the bags say about their latent values F. An inference that looks for a mode wants a loss.
@dataclass(frozen=True)
class MeanLoss:
    """−log P(labels | means of the latent values), with its derivatives; bags without a label give zeros."""

    losses: BagLosses
    segments: Segments

    def value(self, F: Tensor) -> Tensor:
        """The loss."""
        return self.losses.value(self._means(F))

    def slope(self, F: Tensor) -> Tensor:
        """Its gradient in F, (n,)."""
        return self.segments.spread(self.losses.slope(self._means(F)) / self.segments.sizes)

    def curvature(self, phi: Tensor, F: Tensor) -> Tensor:
        """Φᵀ H Φ, (R, R)."""
        rows = self._means(phi)
        return rows.T @ (self.losses.bend(self._means(F))[:, None] * rows)

    def _means(self, x: Tensor) -> Tensor:
        sizes = self.segments.sizes.to(x.dtype)
        return self.segments.sum(x) / (sizes[:, None] if x.ndim == 2 else sizes)


# 3. The estimator: reads the input, makes features, infers, and finishes with a posterior and its rule.
@documented  # adds the parameters and fitted attributes to the docstring
class MeanPoolingGP(BagClassifier):
    """Gaussian process classifier of bags by the mean of their latent values.

    Parameters
    ----------
    max_iter : int
        Largest number of Newton steps. Increase it if ``fit`` warns that the mode was not reached.
    tol : float
        Largest entry of the gradient at which the mode counts as reached. Decrease it for more digits.
    """

    card = ModelCard("mean-pooling-gp", ("label",), "docs/skeletons/model.py")

    def __init__(  # constructor arguments are only assigned; fit checks them
        self,
        n_inducing: int | None = 50,
        bias: float = 5.0,
        *,
        kernel: Any = "rbf",
        lengthscale: float | None = None,
        inducing: Any = "kmeans++",
        standardize: bool = True,
        max_iter: int = 200,
        tol: float = 1e-8,
        jitter: float | None = None,
        device: str = "cpu",
        dtype: str = "float64",
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        for name, value in locals().items():
            if name != "self":
                setattr(self, name, value)

    def fit(self, bags: Any, y: Any) -> Self:
        """Learn from bags and one binary label per bag (NaN where missing); y of shape (B, K) fits K labels at once."""
        self._check_settings()
        checked, labels = self._read(bags, y)
        features = self._make_features(checked)
        rows = all_rows(features, checked)
        limits = ModeLimits(self.max_iter, self.tol, Watch("MeanPoolingGP", self.verbose, self.callback))
        fits = []
        for column in labels.values.T:
            loss = MeanLoss(BagLosses(torch.as_tensor(column, device=features.device), PROBIT), rows.segments)
            fits.append(mode_posterior(loss, rows, limits))
        if not all(fit.trace.converged for fit in fits):
            warn_user("the mode was not reached; use a larger max_iter.", ConvergenceWarning)
        log_evidence = torch.stack([fit.log_evidence for fit in fits])
        self._finish(features, joint_posterior(fits, PROBIT), MeanOfLatents(), fits[0].trace, log_evidence)
        return self

    def _check_settings(self) -> None:  # also asked of a model from a file
        check_iterations(self.max_iter, self.tol)
