"""BagGP: a probit Gaussian process that takes any evidence about counts and learns its kernel from it."""

import copy
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse
import torch

from bagwise import _validation as check
from bagwise.bag_models.counts import ProbitCounts
from bagwise.bag_models.rules import AtLeastOne
from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.reading import CountInput, CountReading, read_counts
from bagwise.exceptions import ConvergenceWarning, NumericalError, warn_user
from bagwise.gp import kernels
from bagwise.gp.feature_maps import check_feature_map
from bagwise.gp.features import Features
from bagwise.gp.moments import column_moments
from bagwise.gp.posterior import Posterior
from bagwise.inference.chunks import Chunks, in_memory
from bagwise.inference.expectation_propagation import ExpectationPropagation
from bagwise.inference.kernel_learning.by_messages import LearningSettings, learn_features
from bagwise.inference.kernel_learning.search import unsettled
from bagwise.inference.loop import Callback, Trace, Watch, iterate
from bagwise.inference.mean_field import MeanField
from bagwise.models._base.chain_answers import ChainAnswers
from bagwise.models._base.chains import ChainSettings, forget_chains, gibbs_sampler, runner_of, sample
from bagwise.models._base.count_answers import KINDS, CountAnswers
from bagwise.models._base.estimator import ModelCard, check_iterations
from bagwise.models._base.learned_kernel import start_kernel

INFERENCES = ("auto", "ep", "vi", "gibbs")
_LARGEST_EP = 50_000  # instances × label columns above which "auto" prefers the cheaper mean field
_CAP = {"ep": 500, "vi": 2000}
_TOLERANCE = {"ep": 1e-4, "vi": 1e-6}


class _Result(NamedTuple):
    posterior: Posterior
    trace: Trace
    log_evidence: torch.Tensor | None


class BagGP(ChainAnswers, CountAnswers):
    """Gaussian process classifier of instances, learned from what is known about bags: the model to reach for first.

    Each bag may say a label (is there a positive among you?), a fraction of positives, a range for their number, or
    nothing; some instances may be known one by one (``bags.with_known``). The kernel and the mean are learned from
    that evidence alone.

    Parameters
    ----------
    evidence : what ``y`` holds: "label" (two class values), "fraction" (numbers in [0, 1]) or "count" (shape (B, 2):
        lowest and highest number of positives). ``fit`` also takes an ``Evidence``, where kinds mix bag by bag
    confidence : of fractions, a number or one per bag: the weight of as many counted instances
    label_noise : probability that a bag's label is wrong
    inference : "ep" (expectation propagation), "vi" (mean field) or "auto": "vi" where the evidence pins counts down
        (a range that excludes both too few and too many, a fraction with more confidence than the bag has instances),
        because messages to single instances cannot carry that, or where there are more than 50,000 instances times
        labels; "ep" otherwise. "gibbs" samples the exact posterior: slower, and right for any evidence. ``inference_``
        is what was used
    learn : learn the kernel's parameters by the gradient of EP's evidence (of a Laplace evidence of the moments of the
        counts where these are pinned down and EP does not settle); False keeps everything as given
    ard : one lengthscale per feature
    learn_inducing : learn the inducing inputs too
    feature_map : a torch module from (standardised) rows to features, trained together with the kernel
    n_restarts : searches for the kernel, the first from its given values, others from draws of the priors
    n_inducing, bias, kernel, lengthscale, inducing, standardize, jitter, device, dtype, random_state, verbose,
    callback : as in ``MILGPProbit``; bias is 5, and a kernel given by name has a variance, which is learned (8 to begin
        with; 1 with ``learn=False``)
    n_chains, n_samples, n_burn_in, warm_start, scale_step, checkpoint : of the sampler, as in ``MILGPProbit``
    max_iter, tol : limits of the inference; None for its own (EP: 500 sweeps, change of a message at most 1e-4)

    Attributes
    ----------
    inference_ : the inference that was used; ``fallback_`` says why it is not the one that was chosen first, or is None
    kernel_ : the kernel, learned or given; ``mean_`` the posterior mean of the constant; ``relevance_`` shares of the
        features in the squared inverse lengthscales
    log_evidence_ : EP's log evidence, or the bound (1.8) of the mean field; None where chains were run
    chains_, diagnostics_ : of the sampler, see ``ChainAnswers``
    learning_trace_ : the best log evidence plus log prior after every evaluation of the search
    features_, posterior_, trace_, n_iter_, classes_ … : as in ``MILGPProbit``
    """

    own_attributes = ("inference_", "fallback_")
    traces = ("trace_", "learning_trace_")
    card = ModelCard("bag-gp", ("label", "fraction", "count", "known"), "bagwise")

    fallback_: str | None

    def __init__(
        self,
        evidence: str = "label",
        confidence: Any = 1000.0,
        label_noise: float = 0.0,
        inference: str = "auto",
        learn: bool = True,
        ard: bool = False,
        n_restarts: int = 1,
        feature_map: Any = None,
        n_inducing: int | None = 200,
        n_chains: int = 4,
        n_samples: int = 1000,
        n_burn_in: int = 500,
        warm_start: bool = False,
        *,
        scale_step: bool = True,
        checkpoint: Any = None,
        learn_inducing: bool = False,
        bias: float = 5.0,
        kernel: Any = "rbf",
        lengthscale: float | None = None,
        inducing: Any = "kmeans++",
        standardize: bool = True,
        max_iter: int | None = None,
        tol: float | None = None,
        jitter: float | None = None,
        device: str = "cpu",
        dtype: str = "float64",
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.evidence = evidence
        self.confidence = confidence
        self.label_noise = label_noise
        self.inference = inference
        self.learn = learn
        self.ard = ard
        self.n_restarts = n_restarts
        self.feature_map = feature_map
        self.n_inducing = n_inducing
        self.n_chains = n_chains
        self.n_samples = n_samples
        self.n_burn_in = n_burn_in
        self.warm_start = warm_start
        self.scale_step = scale_step
        self.checkpoint = checkpoint
        self.learn_inducing = learn_inducing
        self.bias = bias
        self.kernel = kernel
        self.lengthscale = lengthscale
        self.inducing = inducing
        self.standardize = standardize
        self.max_iter = max_iter
        self.tol = tol
        self.jitter = jitter
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fit(self, bags: Any, y: Any) -> Self:
        """Learn from bags and what is known about them, one entry (or row) of ``y`` per bag, NaN where nothing is."""
        self._check_settings()
        checked = self._training_bags(bags, y)
        counts = read_counts(y, checked, bags, CountReading(self.evidence, self.confidence, self.label_noise))
        self._remember(counts.classes, counts.names)
        features = self._features_to_use(checked, counts)
        self.inference_, self.fallback_ = self._choice(counts.tight, checked, counts.evidence), None
        infer = self._by_gibbs if self.inference_ == "gibbs" else self._inferred
        found = infer(features, checked, counts.evidence)
        self._finish(features, found.posterior, AtLeastOne(), found.trace, found.log_evidence)
        if self.learning_trace_ is not None and self.learning_trace_.interrupted:
            raise KeyboardInterrupt("fit was interrupted while learning the kernel; the best one found is kept.")
        return self

    # ------------------------------------------------------------ steps of fit

    def _check_settings(self) -> None:
        check.check_option("evidence", self.evidence, KINDS)
        check.check_option("inference", self.inference, INFERENCES)
        for name in ("learn", "ard", "learn_inducing"):
            check.check_flag(name, getattr(self, name))
        check.check_count("n_restarts", self.n_restarts)
        check.check_below("label_noise", self.label_noise, 0.5)
        check_iterations(self.max_iter, 0.0 if self.tol is None else self.tol)
        ChainSettings.of(self)

    def _features_to_use(self, bags: Bags, counts: CountInput) -> Features:
        """Those of the last fit if its chains are to go on, new and learned ones otherwise."""
        if self.inference == "gibbs" and runner_of(self).goes_on(ChainSettings.of(self)):
            return self.features_
        forget_chains(self)
        return self._learned(self._make_features(bags, self._first_kernel(bags)), bags, counts)

    def _first_kernel(self, bags: Bags) -> Any:
        if self.feature_map is None:
            return start_kernel(self, bags.n_features)
        module = self.feature_map
        if isinstance(module, torch.nn.Module):  # a copy of our own; its layers always behave as in prediction
            module = copy.deepcopy(module).double().eval()
        width = check_feature_map(module, _some_rows(bags, self.standardize))
        base = start_kernel(self, width)
        lengthscale = self.lengthscale if base is self.kernel else None
        return kernels.MappedKernel(kernels.make_kernel(base, width, lengthscale, torch.float64), module)

    def _learned(self, features: Features, bags: Bags, counts: CountInput) -> Features:
        self.learning_trace_ = None
        if not self.learn or not counts.evidence.observed().any():
            return features
        random = np.random.RandomState(self.seed_)
        settings = LearningSettings(self.n_restarts, self.learn_inducing, random, pinned=counts.tight)
        watch = Watch("learning the kernel", self.verbose)
        learned = learn_features(features, bags, counts.evidence, settings, watch)
        self.learning_trace_ = learned.trace
        if learned.trace is not None and not learned.trace.converged and not learned.trace.interrupted:
            warn_user(unsettled(learned.trace), ConvergenceWarning)
        return learned.features

    def _choice(self, tight: bool, bags: Bags, evidence: CountEvidence) -> str:
        if self.inference != "auto":
            return self.inference
        large = bags.n_instances * evidence.labels.shape[1] > _LARGEST_EP
        return "vi" if tight or large else "ep"

    def _inferred(self, features: Features, bags: Bags, evidence: CountEvidence) -> _Result:
        if self.inference_ == "ep":
            chunks = in_memory(features, bags, ProbitCounts(evidence))
            try:
                return self._by_ep(features, chunks, evidence)
            except NumericalError as error:
                self.inference_, self.fallback_ = "vi", f"expectation propagation failed ({error})"
                warn_user(
                    f"{self.fallback_}; the mean-field answer is given instead (inference_ is 'vi').",
                    ConvergenceWarning,
                )
        return self._by_vi(features, bags, evidence)

    def _by_ep(self, features: Features, chunks: Chunks, evidence: CountEvidence) -> _Result:
        state = ExpectationPropagation(chunks, features.n_columns, evidence.labels.shape[1], features.device)
        trace = iterate(state.step, name="log evidence", **self._limits("ep"))
        if trace.interrupted:
            return _Result(state.posterior(), trace, state.log_evidence)
        state.finish()
        if not trace.converged:
            raise NumericalError(f"its messages still moved by {trace.residuals[-1]:.1e} after {len(trace)} sweeps")
        if not state.plausible(torch.as_tensor(evidence.ceiling(), device=features.device)):
            raise NumericalError("it claims an evidence above the highest that there can be")
        return _Result(state.posterior(), trace, state.log_evidence)

    def _by_vi(self, features: Features, bags: Bags, evidence: CountEvidence) -> _Result:
        observed = torch.as_tensor(evidence.observed(), device=features.device)
        state = MeanField(in_memory(features, bags, ProbitCounts(evidence), integrated=True), observed)
        trace = iterate(state.lbfgs_step, name="bound", **self._limits("vi"))
        if not trace.converged and not trace.interrupted:
            warn_user(
                f"the bound had not settled after {len(trace)} iterations (gradient {trace.residuals[-1]:.1e}).",
                ConvergenceWarning,
            )
        return _Result(state.posterior(), trace, state.bound())

    def _by_gibbs(self, features: Features, bags: Bags, evidence: CountEvidence) -> _Result:
        if self.learning_trace_ is not None and self.learning_trace_.interrupted:
            raise KeyboardInterrupt("fit was interrupted while learning the kernel, before there was a single draw.")
        settings = ChainSettings.of(self)
        gibbs = gibbs_sampler(features, bags, evidence, settings, self.seed_)
        return _Result(*sample(self, settings, gibbs, features, bags, evidence, ()), None)

    def _limits(self, engine: str) -> dict[str, Any]:
        return {
            "max_iter": _CAP[engine] if self.max_iter is None else self.max_iter,
            "tol": _TOLERANCE[engine] if self.tol is None else self.tol,
            "watch": Watch(type(self).__name__, self.verbose, self.callback),
            "open_end": self.max_iter is None,
        }


def _some_rows(bags: Bags, standardize: bool) -> torch.Tensor:
    """Rows as a feature map will see them, at most a thousand, to try it on."""
    rows = bags.X[:: max(1, bags.n_instances // 1000)]
    dense = np.asarray(rows.toarray() if scipy.sparse.issparse(rows) else rows, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # numbers too large to standardise are refused elsewhere
        shift, scale = column_moments(bags.X) if standardize else (0.0, 1.0)
        return torch.from_numpy((dense - shift) / scale)
