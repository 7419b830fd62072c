"""The multiple instance learning Gaussian process probit model of Wang & Pinar."""

from typing import Any, Self

import torch

from bagwise._validation import check_option
from bagwise.bag_models.counts import ProbitCounts
from bagwise.bag_models.rules import AtLeastOne
from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import BagDataError, ConvergenceWarning, warn_user
from bagwise.inference.chains.gibbs import SCHEMES
from bagwise.inference.chunks import in_memory
from bagwise.inference.loop import Callback, Watch, iterate
from bagwise.inference.mean_field import MeanField
from bagwise.models._base.chain_answers import ChainAnswers
from bagwise.models._base.chains import ChainSettings, forget_chains, gibbs_sampler, runner_of, sample
from bagwise.models._base.estimator import BagClassifier, ModelCard, check_iterations

LEFTOVERS = ("shared", "independent")
_CAP = 2000  # L-BFGS iterations after which "until converged" gives up and warns
_PUBLISHED: dict[str, Any] = {
    "inference": "vi",
    "n_inducing": 50,
    "inducing": "kmeans++",
    "max_iter": 25,
    "tol": 0.0,  # all 25
    "kernel": "rbf",
    "lengthscale": "sqrt_d",
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


class MILGPProbit(ChainAnswers, BagClassifier):
    """Gaussian process probit classifier of instances, learned from binary bag labels.

    A bag is positive if and only if it holds at least one positive instance. The kernel is not learned. The defaults
    iterate until the bound has converged and learn a constant; ``MILGPProbit.published()`` is the setting of the paper.

    Parameters
    ----------
    inference : "vi", the mean-field variational inference of the paper, or "gibbs", its sampler
    n_inducing : number of inducing inputs; None takes every distinct instance
    max_iter : None runs L-BFGS on the bound until it has converged; a number makes that many fixed-point updates of the
        paper, unless they settle within ``tol`` earlier
    bias : prior standard deviation of a constant added to the latent function; 0 for none
    noise : of the sampler: "exact" (1 + κ, the noise once f is integrated out) or "published" (1, which samples the
        posterior of another model unless every instance is an inducing input)
    scheme : of the sampler: "block" (whole bags at once) or "single-site" (one instance after the other, (26)–(28) of
        the paper)
    n_chains, n_samples, n_burn_in : chains side by side, sweeps of each that are used, and sweeps before those. At most
        4,000 draws per label are kept for predictions, evenly spaced among the sweeps of all chains
    scale_step : rescale the sampler's latent values after every sweep (3.3), which mixes better
    warm_start : go on with the chains of the last fit until they have ``n_samples`` sweeps: after Ctrl-C, or after
        raising ``n_samples``
    checkpoint : name of a file into which the chains are written every 500 sweeps; if it exists, fit goes on from there
        and makes the same chains as if it had never stopped (needs a number as ``random_state``)
    leftovers : what the inducing inputs leave over of the latent function, in predictions about bags: "shared" by the
        instances of a bag as the kernel has it, so that look-alikes count once, or "independent", as in the paper
    tol : largest entry of the whitened gradient of the bound at which the iteration counts as converged
    kernel : "rbf", "exponential", "matern32", "matern52", "linear", or any gpytorch kernel
    lengthscale : of a kernel given by name; None for √D of standardised features and for the size of their spread where
        they are not; "sqrt_d" for √D in either case
    inducing : "kmeans++", "random", or an (R, D) array in the units of the data
    standardize : shift and scale every column to mean 0 and variance 1 (remembered with the model)
    jitter : added to the diagonal of k(Z, Z), relative to its mean; None for 1e-6 (float32: 1e-4)
    device, dtype : "cpu" or "cuda"; "float64" or "float32"
    random_state, verbose, callback : as in scikit-learn; ``callback(iteration, bound)`` is called after every iteration

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn
    features_, posterior_ : the fitted model: feature map and Gaussian posterior over its weights
    log_evidence_ : the bound (1.6) at the final posterior; None where chains were run
    trace_, n_iter_, converged_ : the bound at the start of every iteration, and whether they settled; of chains, the
        mean log likelihood in every sweep and whether ``diagnostics_`` are good
    chains_, diagnostics_ : of the sampler, see ``ChainAnswers``
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
        tol: float = 1e-6,
        kernel: Any = "rbf",
        lengthscale: float | str | None = None,
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

    def fit(self, bags: Any, y: Any) -> Self:
        """Learn from bags and one binary label per bag (NaN where missing); y of shape (B, K) fits K labels at once."""
        self._check_settings()
        checked, labels = self._read(bags, y)
        evidence = CountEvidence(labels.values, checked.sizes)
        if self.inference == "gibbs":
            return self._fit_chains(checked, evidence)
        features = self._make_features(checked)
        forget_chains(self)
        observed = torch.as_tensor(evidence.observed(), device=features.device)
        state = MeanField(in_memory(features, checked, ProbitCounts(evidence)), observed)
        trace = iterate(
            state.lbfgs_step if self.max_iter is None else state.fixed_point_step,
            name="bound",
            max_iter=_CAP if self.max_iter is None else self.max_iter,
            tol=self.tol,
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
        return self

    def _check_settings(self) -> None:
        check_option("inference", self.inference, ("vi", "gibbs"))
        check_option("noise", self.noise, ("exact", "published"))
        check_option("scheme", self.scheme, SCHEMES)
        check_option("leftovers", self.leftovers, LEFTOVERS)
        check_iterations(self.max_iter, self.tol)
        ChainSettings.of(self)
        if self.checkpoint is not None and self.scheme == "single-site":
            raise BagDataError(
                "checkpoint: the single-site scheme keeps more than v between sweeps; use scheme='block'."
            )

    def _rule(self) -> AtLeastOne:
        return AtLeastOne(shares=self.leftovers == "shared")

    def _fit_chains(self, bags: Bags, evidence: CountEvidence) -> Self:
        settings = ChainSettings.of(self)
        if runner_of(self).goes_on(settings):
            features = self.features_
        else:
            forget_chains(self)
            features = self._make_features(bags)
        gibbs = gibbs_sampler(
            features, bags, evidence, settings, self.seed_, integrated=self.noise == "exact", scheme=self.scheme
        )
        found = sample(self, settings, gibbs, features, bags, evidence, (self.noise, self.scheme))
        self._finish(features, found[0], self._rule(), found[1], None)
        return self
