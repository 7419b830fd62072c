"""The multiple instance learning Gaussian process probit model of Wang & Pinar."""

from typing import Any, Self

import torch

from bagwise._validation import check_option
from bagwise.bag_models.counts import ProbitCounts
from bagwise.bag_models.rules import AtLeastOne
from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.weights import check_class_weight, repeated_by_weight
from bagwise.exceptions import BagDataError, ConvergenceWarning, warn_user
from bagwise.inference.chains.gibbs import SCHEMES
from bagwise.inference.loop import Callback, Watch, iterate
from bagwise.inference.mean_field import MeanField
from bagwise.inference.places import chunks_of
from bagwise.models._base.chain_answers import ChainAnswers
from bagwise.models._base.chains import ChainSettings, features_to_sample, forget_chains, gibbs_sampler, sample
from bagwise.models._base.documented import documented
from bagwise.models._base.estimator import BagClassifier, ModelCard, check_iterations

_ONLY_WHOLE = "a sampler draws the instances of whole bags. Use inference='vi' for other weights"
LEFTOVERS = ("shared", "independent")
_CAP = 2000  # L-BFGS iterations after which "until converged" gives up and warns
_PUBLISHED: dict[str, Any] = {
    "inference": "vi",
    "n_inducing": 50,
    "inducing": "kmeans++",
    "max_iter": 25,
    "tol": 0.0,  # all 25
    "kernel": "rbf",
    "lengthscale": None,
    "bias": 0.0,
    "standardize": False,
    "leftovers": "independent",
    "noise": "published",
    "scheme": "single-site",
    "scale_step": False,
    "n_chains": 1,
    "n_samples": 5000,
    "n_burn_in": 1000,
}


@documented
class MILGPProbit(ChainAnswers, BagClassifier):
    """Gaussian process probit classifier of instances, learned from binary bag labels.

    A bag is positive if and only if it holds at least one positive instance. The kernel is not learned. The defaults
    iterate until the bound has converged and learn a constant; ``MILGPProbit.published()`` is the setting of the paper.

    Parameters
    ----------
    inference : {"vi", "gibbs"}
        How the posterior is found: "vi" is the mean-field variational inference of the paper, "gibbs" its sampler. Use
        "gibbs" where you need the exact posterior and have the time.
    max_iter : int or None
        None runs L-BFGS on the bound until it has converged. A number makes that many fixed-point updates of the paper,
        fewer if they settle within ``tol``. Use a number only to reproduce the paper.
    noise : {"exact", "published"}
        Variance of the augmented variables in the sampler: "exact" is 1 + κ, the noise once f is integrated out;
        "published" is 1, which samples the posterior of another model unless every instance is an inducing input. Use
        "published" only to reproduce the paper.
    scheme : {"block", "single-site"}
        Order of the sampler: "block" draws whole bags at once, "single-site" one instance after the other, as
        published. Use "single-site" only to reproduce the paper: it mixes more slowly.
    leftovers : {"shared", "independent"}
        What the inducing inputs leave over of the latent function, in predictions about bags: "shared" by the instances
        of a bag as the kernel has it, so that instances that look alike count once, or "independent", as in the paper.
        Use "independent" only to reproduce the paper.
    tol : float
        Largest entry of the whitened gradient of the bound at which the iteration counts as converged. Increase it if
        ``fit`` warns that the bound had not settled.

    Attributes
    ----------
    log_evidence_ : float, ndarray of shape (K,) or None
        The lower bound of the log evidence (theory, equation 1.6) at the final posterior; None where chains were run.
    trace_ : Trace
        The bound at the start of every iteration, how far each moved, and whether they converged; of chains the mean
        log likelihood in every sweep.
    """

    card = ModelCard("mil-gp-probit", ("label",), "Wang & Pinar, The MIL Gaussian Process Probit Model")

    def __init__(
        self,
        inference: str = "vi",
        n_inducing: int | None = 200,
        max_iter: int | None = None,
        bias: float = 5.0,
        noise: str = "exact",
        scheme: str = "block",
        n_chains: int = 4,
        n_samples: int = 5000,
        n_burn_in: int = 1000,
        *,
        scale_step: bool = True,
        warm_start: bool = False,
        checkpoint: Any = None,
        leftovers: str = "shared",
        class_weight: Any = None,
        tol: float = 1e-6,
        kernel: Any = "rbf",
        lengthscale: float | None = None,
        inducing: Any = "kmeans++",
        standardize: bool = True,
        jitter: float | None = None,
        device: str = "cpu",
        dtype: str = "float64",
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.inference = inference
        self.n_inducing = n_inducing
        self.max_iter = max_iter
        self.bias = bias
        self.noise = noise
        self.scheme = scheme
        self.n_chains = n_chains
        self.n_samples = n_samples
        self.n_burn_in = n_burn_in
        self.scale_step = scale_step
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.leftovers = leftovers
        self.class_weight = class_weight
        self.tol = tol
        self.kernel = kernel
        self.lengthscale = lengthscale
        self.inducing = inducing
        self.standardize = standardize
        self.jitter = jitter
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @classmethod
    def published(cls, **changes: Any) -> Self:
        """The setting of Wang & Pinar, with ``changes`` to it.

        Section 4: 25 updates (17)–(23), 50 inducing inputs by k-means++. Section 4.1: Gaussian kernel of variance 1 and
        lengthscale √D (section 4.2 has ``kernel="exponential"``). (5): zero mean, so no bias. Section 3.4: leftovers
        diag(𝒦*), independent. Whether features were standardised the paper does not say: here they are not.

        With ``inference="gibbs"`` the sampler of section 3.5: one chain of 5,000 sweeps after 1,000, one instance after
        the other, noise of variance 1 (26)–(28).
        """
        return cls(**_PUBLISHED | changes)

    def fit(self, bags: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from bags and one binary label per bag (NaN where missing); y of shape (B, K) fits K labels at once.

        ``sample_weight`` says how much every bag counts (array, or dict or Series by id): one of weight 2 as if it were
        there twice, one of weight 0 as if its label were missing.
        Where chains are run weights are whole numbers.
        """
        self._check_settings()
        checked, labels = self._read(bags, y)
        if sample_weight is not None and self.inference == "gibbs":
            return self.fit(*repeated_by_weight(bags, y, checked, sample_weight, type(self).__name__, _ONLY_WHOLE))
        weights = self._weights(bags, sample_weight, labels.values, labels.classes)
        evidence = CountEvidence(labels.values, checked.sizes).weighted(weights)
        if self.inference == "gibbs":
            return self._fit_chains(checked, evidence)
        features = self._make_features(checked)
        forget_chains(self)
        observed = torch.as_tensor(evidence.observed(), device=features.device)
        state = MeanField(chunks_of(features, checked, ProbitCounts(evidence)), observed)
        trace = iterate(
            state.lbfgs_step if self.max_iter is None else state.fixed_point_step,
            name="bound",
            max_iter=_CAP if self.max_iter is None else self.max_iter,
            tol=max(self.tol, state.reachable),
            watch=Watch(type(self).__name__, self.verbose, self.callback),
            open_end=self.max_iter is None,
        )
        if self.max_iter is None and not trace.converged and not trace.interrupted:
            warn_user(
                f"the bound had not settled after {len(trace)} iterations (gradient {trace.residuals[-1]:.1e} > "
                f"tol={self.tol:g}); use a larger tol or dtype='float64'.",
                ConvergenceWarning,
            )
        self._finish(features, state.posterior(), self._rule(), trace, state.bound())
        self._warn_if_nothing_learned(checked, labels.values, weights)
        return self

    def _check_settings(self) -> None:
        check_option("inference", self.inference, ("vi", "gibbs"))
        check_option("noise", self.noise, ("exact", "published"))
        check_option("scheme", self.scheme, SCHEMES)
        check_option("leftovers", self.leftovers, LEFTOVERS)
        check_iterations(self.max_iter, self.tol)
        ChainSettings.of(self)
        check_class_weight(self.class_weight)
        if self.class_weight is not None and self.inference == "gibbs":
            raise BagDataError(f"class_weight={self.class_weight!r}: needs inference='vi'; {_ONLY_WHOLE}.")
        if self.checkpoint is not None and self.scheme == "single-site":
            raise BagDataError(
                "checkpoint: the single-site scheme keeps more than v between sweeps; use scheme='block'."
            )

    def _rule(self) -> AtLeastOne:
        return AtLeastOne(shares=self.leftovers == "shared")

    def _fit_chains(self, bags: Bags, evidence: CountEvidence) -> Self:
        settings = ChainSettings.of(self)
        features = features_to_sample(self, settings, lambda: self._make_features(bags))
        gibbs = gibbs_sampler(
            features, bags, evidence, settings, self.seed_, integrated=self.noise == "exact", scheme=self.scheme
        )
        found = sample(self, settings, gibbs, features, bags, evidence, (self.noise, self.scheme))
        self._finish(features, found[0], self._rule(), found[1], None)
        self._warn_if_nothing_learned(bags, evidence.labels)
        return self
