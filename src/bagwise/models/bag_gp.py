"""BagGP: a probit Gaussian process that takes any evidence about counts and learns its kernel from it."""

import copy
import math
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse
import torch

from bagwise import _validation as check
from bagwise.bag_models.rules import AtLeastOne
from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.reading import CountInput, CountReading, Stated, counted, read_stated
from bagwise.exceptions import BagDataError, ConvergenceWarning, NumericalError, warn_user
from bagwise.gp import kernels
from bagwise.gp.feature_maps import check_feature_map
from bagwise.gp.features import Features
from bagwise.gp.moments import column_moments
from bagwise.gp.posterior import Posterior
from bagwise.inference.engines import NEARLY, Inferred, Limits, by_bag_sites, by_mean_field, by_messages, engine_for
from bagwise.inference.kernel_learning.learn import Learned, LearningSettings, learn_features
from bagwise.inference.kernel_learning.search import unsettled
from bagwise.inference.kernel_learning.size_effect import (
    LEAST_GAIN,
    gain_of_sizes,
    may_have_sizes,
)
from bagwise.inference.laplace.totals import Totals, by_totals, learn_totals
from bagwise.inference.loop import Callback, Trace, Watch
from bagwise.models._base.chain_answers import ChainAnswers
from bagwise.models._base.chains import ChainSettings, forget_chains, gibbs_sampler, runner_of, sample
from bagwise.models._base.class_answers import AnswersInClasses
from bagwise.models._base.class_fit import CLASS_KINDS, fit_classes, states_classes
from bagwise.models._base.count_answers import KINDS
from bagwise.models._base.documented import documented
from bagwise.models._base.estimator import ModelCard, check_iterations
from bagwise.models._base.learned_kernel import start_kernel
from bagwise.models._base.total_answers import TotalAnswers

WIDE = 100  # features from which on kernel="auto" asks for the log evidence of a linear kernel too
CLOSE = 3.0  # nats between the two within which their sum is tried; it has more to learn and must gain as many
DIRECTIONS = 100  # principal directions that sparse rows are projected on
INFERENCES = ("auto", "ep", "bag-ep", "vi", "gibbs", "laplace")
LARGEST_REPEATED = 1_000_000  # individuals that get a row each where an inference cannot do with weights


class SizeEffect(NamedTuple):
    """What the size of a bag does by itself: the coefficient of log n in the latent function."""

    mean: Any
    sd: Any


class _Sampled(NamedTuple):
    posterior: Posterior
    trace: Trace
    log_evidence: None


@documented
class BagGP(AnswersInClasses, ChainAnswers, TotalAnswers):
    """Gaussian process classifier of instances, learned from what is known about bags: the model to reach for first.

    Each bag may state a label (is there a positive in it?), a fraction of positives, a range for their number, its
    class or a set of candidate classes, or nothing; some instances may be known one by one (``bags.with_known``). The
    kernel and the mean are learned from that evidence alone.

    Parameters
    ----------
    evidence : {"label", "fraction", "count", "class", "candidates"}
        What ``y`` holds: "label" (two class values), "fraction" (fractions of positives, numbers in [0, 1]), "count"
        (shape (B, 2): lowest and highest number of positives), "class" (one of several classes per bag) or "candidates"
        (a (B, K) table of 0/1, or one set of classes per bag, one of which is right). Change it to what you know about
        your bags. ``fit`` also takes an ``Evidence``, in which the kinds mix bag by bag; this parameter is then not
        used.
    label_noise : float
        Probability that the label of a bag is wrong, at least 0 and below 0.5. Increase it where some labels are
        mistaken: a single wrong label of a large bag can otherwise move the whole fit.
    inference : {"auto", "ep", "bag-ep", "vi", "gibbs", "laplace"}
        How the posterior is found. "ep": expectation propagation with a message to every instance. "bag-ep":
        expectation propagation with one site per bag, for labels in large bags. "vi": mean field. "gibbs": samples the
        exact posterior, which is slower and right for any evidence. "laplace": a Gaussian around the most probable
        function, in which a bag tells as much as its number of positives does; for totals (rows with a weight) and for
        effects of the group. "auto" takes "laplace" for rows with a weight and where an effect of the group is asked
        for; else "vi" where the evidence pins counts
        down (a range that excludes both too few and too many, a fraction with more confidence than the bag has
        instances), because messages to single instances cannot carry that; else "bag-ep" where an instance of a
        labelled bag is, on average, in a bag of more than 30; else "vi" where there are more than 50,000 instances
        times label columns; else "ep". For classes it takes "bag-ep", with one site per bag and class. Use "gibbs"
        where you doubt the others. ``inference_`` is what was used.
    learn : bool
        Learn the parameters of the kernel by the gradient of a log evidence: with one site per bag for labels of large
        bags, else that of expectation propagation, or a Laplace approximation from the moments of counts where these
        are pinned down and messages do not settle. Use False to keep everything as given, which is faster.
    learn_rows : int or None
        Largest number of instances that the kernel is learned from, in bags that are chosen at random. None allows all:
        the search begins with about 3,000 instances (at least 60 bags; of large labelled bags at most 500 instances
        each) and goes on to more only where these ask for another kernel. Set it where learning takes too long. Where
        counts are pinned down never more than about 3,000 are used. For classes None stops after the first 3,000 (at
        least 12 bags for every class; 30,000 where bags exclude few classes); name a larger number to go on.
    learn_inducing : bool
        Learn the positions of the inducing inputs together with the kernel. Use it where few inducing inputs must do,
        for there are then many more parameters to learn.
    feature_map : torch module or None
        A module from (standardised) rows to features on which the kernel works, trained together with it. Use it where
        distances between the rows themselves mean little, as between images.
    size_effect : {"auto", True, False}
        Whether the size of a bag has an effect by itself: a column log n, the logarithm of the number of instances,
        is added to the features of every instance. "auto" keeps the column where it raises the log evidence, at the
        kernel that was learned without it, by more than one nat; it asks only where labels are all that bags state and
        the bags differ in size. Use False where a bag must not be judged by its size.
    group_effect : {"auto", True, False} or float
        Whether everyone in a bag has an effect u in common, besides the features: f(x) + u, u ~ N(0, s²) for every bag
        anew. True learns s, a number is s itself, False leaves the effect out. "auto" learns s for rows with a weight
        and leaves it out otherwise. Use True where bags differ in ways that no feature tells: without it thousands of
        individuals make a model much surer than it may be. ``group_effect_`` is s.
    kernel : str or gpytorch kernel
        Which instances are alike: "auto", "rbf", "exponential", "matern32", "matern52", "linear", "rbf+linear" (their
        sum), or any gpytorch kernel. "auto" is "rbf"; with 100 or more features, or sparse rows, the log evidence
        decides between "rbf", "linear" and, where these two are close, their sum. Sparse rows are then projected on
        their leading 100 principal directions. (With ``learn=False``, ``ard`` or a ``feature_map`` nothing is compared:
        sparse rows get "linear", except under a ``feature_map``, all others "rbf".) Name a kernel where you know
        better. A kernel given by name has a variance, which is learned.
    max_iter : int or None
        Largest number of iterations of the inference. None takes a limit of its own (500 sweeps of "ep", 200 of
        "bag-ep", 2,000 iterations of "vi"). Increase it if ``fit`` warns that the iteration had not settled.
    tol : float or None
        Change at which the iteration counts as converged: the largest change of a message ("ep") or site ("bag-ep"), or
        the largest entry of the gradient ("vi"). None takes 1e-4, 1e-3 and 1e-6. Decrease it for more digits.

    Attributes
    ----------
    inference_ : str
        The inference that was used.
    fallback_ : str or None
        Why ``inference_`` is not the one that was chosen first; None if it is.
    group_effect_ : float
        Standard deviation s of the effect of a bag, on the scale of the latent function; 0 where there is none.
    size_effect_ : SizeEffect or None
        Posterior ``mean`` and ``sd`` of the coefficient of log n in the latent function; None where there is no such
        column.
    log_evidence_ : float, ndarray of shape (K,) or None
        Log evidence of expectation propagation, or the lower bound of the mean field; None where chains were run. Of
        classes one number for all.
    instance_classes_ : ndarray of shape (K + 1,)
        Of a model of classes: the classes of instances, the last one none of them.
    trace_ : Trace
        Log evidence ("ep", "bag-ep") or bound ("vi") at the start of every iteration, how far each moved, and whether
        they converged; of chains the mean log likelihood in every sweep.
    """

    own_attributes = ("inference_", "fallback_")
    traces = ("trace_", "learning_trace_")
    takes_weights = True
    card = ModelCard("bag-gp", ("label", "fraction", "count", "candidates", "known"), "bagwise")

    inference_: str
    fallback_: str | None
    learning_trace_: Trace | None

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
        size_effect: Any = "auto",
        group_effect: Any = "auto",
        learn_rows: int | None = None,
        scale_step: bool = True,
        checkpoint: Any = None,
        learn_inducing: bool = False,
        bias: float = 5.0,
        kernel: Any = "auto",
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
        self.size_effect = size_effect
        self.group_effect = group_effect
        self.learn_rows = learn_rows
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
        if states_classes(self, y, checked, keyed=isinstance(bags, Bags)):
            fit_classes(self, checked, y, keyed=isinstance(bags, Bags))
            return self._said_if_interrupted()
        self.rule_ = AtLeastOne()
        reading = CountReading(self.evidence, self.confidence, self.label_noise, closed_noise=self.inference != "gibbs")
        stated = read_stated(y, checked, bags, reading)
        self._remember(stated.classes, stated.names)
        self.fallback_ = None
        if self._goes_by_totals(checked):
            return self._fit_totals(checked, stated)
        checked = _individuals(checked)
        counts = counted(stated, checked, reading)
        self.inference_ = (
            engine_for(checked, counts.evidence, counts.tight) if self.inference == "auto" else self.inference
        )
        features = self._features_to_use(checked, counts)
        infer = self._by_gibbs if self.inference_ == "gibbs" else self._inferred
        found = infer(features, checked, counts.evidence)
        self._finish(features, found.posterior, self.rule_, found.trace, found.log_evidence)
        return self._said_if_interrupted()

    @property
    def group_effect_(self) -> float:
        """Standard deviation of the effect of a bag; 0 where there is none."""
        return self.features_.effect

    @property
    def size_effect_(self) -> SizeEffect | None:
        """Posterior mean and standard deviation of the coefficient of log n; None where there is no such column."""
        if self.features_.size_range is None:
            return None
        place = self.features_.n_inducing
        unit = torch.zeros(1, self.features_.n_columns, dtype=torch.float64, device=self.posterior_.mean.device)
        unit[0, place] = 1.0
        mean, variance = (part[0].cpu().numpy() for part in self.posterior_.moments(unit, torch.zeros_like(unit[:, 0])))
        return SizeEffect(
            *((mean, np.sqrt(variance)) if self._several() else (float(mean[0]), float(variance[0] ** 0.5)))
        )

    # ------------------------------------------------------------ steps of fit

    def _said_if_interrupted(self) -> Self:
        if self.learning_trace_ is not None and self.learning_trace_.interrupted:
            raise KeyboardInterrupt("fit was interrupted while learning the kernel; the best one found is kept.")
        return self

    def _check_settings(self) -> None:
        check.check_option("evidence", self.evidence, (*KINDS, *CLASS_KINDS))
        check.check_option("inference", self.inference, INFERENCES)
        for name in ("learn", "ard", "learn_inducing"):
            check.check_flag(name, getattr(self, name))
        check.check_count("n_restarts", self.n_restarts)
        if self.learn_rows is not None:
            check.check_count("learn_rows", self.learn_rows)
        if not isinstance(self.size_effect, bool | np.bool_) and not self._asks_for_sizes():
            raise BagDataError(f"size_effect={self.size_effect!r}: expected 'auto', True or False.")
        effect = self.group_effect
        if not isinstance(effect, bool | np.bool_) and not (isinstance(effect, str) and effect == "auto"):
            check.check_positive("group_effect", effect, zero=True)
        if effect is not False and not isinstance(effect, str) and self.inference not in ("auto", "laplace"):
            raise BagDataError(f"group_effect={effect!r}: an effect of the group needs inference='laplace' or 'auto'.")
        check.check_below("label_noise", self.label_noise, 0.5)
        check_iterations(self.max_iter, 0.0 if self.tol is None else self.tol)
        ChainSettings.of(self)

    def _goes_by_totals(self, bags: Bags) -> bool:
        """Whether statements are taken as totals: asked for, or needed for weights or an effect of the group."""
        if self.inference != "auto":
            return self.inference == "laplace"
        asked = not isinstance(self.group_effect, str) and bool(self.group_effect)
        return bags.weight is not None or asked

    def _fit_totals(self, bags: Bags, stated: Stated) -> Self:
        """Fit around the mode; kernel and size of the effect are learned together."""
        forget_chains(self)
        self.inference_, self.learning_trace_ = "laplace", None
        first = self._first_features(bags, self._kinds(bags)[0])
        first = _sized(first, bags, not self._asks_for_sizes() and bool(self.size_effect))
        totals = Totals.of(bags, stated, self.label_noise)
        learned = learn_totals(
            first,
            totals,
            self._wanted_effect(bags),
            kernel_too=bool(self.learn),
            n_restarts=self.n_restarts,
            random=np.random.RandomState(self.seed_),
            watch=Watch("learning the kernel", self.verbose),
        )
        self.learning_trace_ = learned.trace
        self._say_unsettled()
        found = by_totals(learned.features, totals, learned.effect)
        with_effect = replace(learned.features, effect=learned.effect)
        self._finish(with_effect, found.posterior, AtLeastOne(), found.trace, found.log_evidence)
        return self

    def _wanted_effect(self, bags: Bags) -> float | None:
        """The size of the effect of a bag; None where it is to be learned."""
        if isinstance(self.group_effect, str):
            return 0.0 if bags.weight is None else None
        if isinstance(self.group_effect, bool | np.bool_):
            return None if self.group_effect else 0.0
        return float(self.group_effect)

    def _features_to_use(self, bags: Bags, counts: CountInput) -> Features:
        """Those of the last fit if its chains are to go on, new and learned ones otherwise."""
        if self.inference == "gibbs" and runner_of(self).goes_on(ChainSettings.of(self)):
            return self.features_
        forget_chains(self)
        self.learning_trace_ = None
        learned = self._learned_features(bags, counts)
        self._say_unsettled()
        return learned

    def _learned_features(self, bags: Bags, counts: CountInput) -> Features:
        """Whether there is a column of sizes, the kind of kernel and its parameters, in that order."""
        kinds = self._kinds(bags)
        first = self._first_features(bags, kinds[0])
        sized, begin = not self._asks_for_sizes() and bool(self.size_effect), None
        if self._asks_for_sizes() and self.learn and may_have_sizes(bags, counts.evidence):
            begin = self._learned(first, bags, counts, choosing=len(kinds) > 1)
            sized = gain_of_sizes(begin, bags, counts.evidence, self.seed_) > LEAST_GAIN
            if not sized and len(kinds) == 1:
                return begin
        if len(kinds) > 1:
            kind, begin = self._best_kind(kinds, bags, counts, sized)
            first = self._first_features(bags, kind)
        return self._learned(_sized(first, bags, sized), bags, counts, begin)

    def _kinds(self, bags: Bags) -> tuple[Any, ...]:
        """The kernels in question: where there are many features ``kernel="auto"`` leaves it to the log evidence."""
        if not isinstance(self.kernel, str) or self.kernel != "auto":
            return (self.kernel,)
        sparse = scipy.sparse.issparse(bags.X)
        if not (sparse or bags.n_features >= WIDE) or self.ard or self.feature_map is not None or not self.learn:
            return ("linear",) if sparse and self.feature_map is None else ("rbf",)
        return "rbf", "linear"

    def _best_kind(self, kinds: tuple[Any, ...], bags: Bags, counts: CountInput, sized: bool) -> tuple[str, Features]:
        """The kind of the highest log evidence on the first rows to learn from, and what was learned there."""
        tried = {kind: self._reached(bags, counts, kind, sized) for kind in kinds}
        values = [value for value, _ in tried.values()]
        if max(values) - min(values) < CLOSE:
            value, learned = self._reached(bags, counts, "rbf+linear", sized)
            tried["rbf+linear"] = value - CLOSE, learned
        best = max(tried, key=lambda kind: tried[kind][0])
        return best, tried[best][1]

    def _reached(self, bags: Bags, counts: CountInput, kind: str, sized: bool) -> tuple[float, Features]:
        """The log evidence (with log prior) that a kind of kernel reaches, and the features with that kernel."""
        learned = self._learned(_sized(self._first_features(bags, kind), bags, sized), bags, counts, choosing=True)
        trace = self.learning_trace_
        if trace is not None and trace.interrupted:
            raise KeyboardInterrupt("fit was interrupted while choosing the kernel; there is no model yet.")
        return float(trace.values.max()) if trace is not None and len(trace) else -math.inf, learned

    def _first_features(self, bags: Bags, kind: Any) -> Features:
        """Features before anything is learned; sparse rows are projected where the kernel is ours to choose."""
        own = isinstance(self.kernel, str) and self.kernel == "auto"
        sparse = scipy.sparse.issparse(bags.X) and bags.n_features > 1
        project = DIRECTIONS if own and sparse and self.feature_map is None else None
        inducing = "principal" if own and kind == "linear" and isinstance(self.inducing, str) else None
        return self._make_features(bags, self._first_kernel(bags, kind, project), inducing=inducing, project=project)

    def _asks_for_sizes(self) -> bool:
        """Whether the data shall decide about a column of sizes."""
        return isinstance(self.size_effect, str) and self.size_effect == "auto"

    def _first_kernel(self, bags: Bags, kind: Any, project: int | None) -> Any:
        if self.feature_map is None:
            width = None if project is None else min(project, bags.n_features - 1, bags.n_instances - 1)
            return start_kernel(self, bags, width, kind)
        module = self.feature_map
        if isinstance(module, torch.nn.Module):  # a copy of our own; its layers always behave as in prediction
            module = copy.deepcopy(module).double().eval()
        width = check_feature_map(module, _some_rows(bags, self.standardize))
        base = start_kernel(self, bags, width, kind)
        lengthscale = self.lengthscale if base is kind else None
        return kernels.MappedKernel(kernels.make_kernel(base, width, lengthscale, torch.float64), module)

    def _learned(
        self,
        features: Features,
        bags: Bags,
        counts: CountInput,
        begin: Features | None = None,
        *,
        choosing: bool = False,
    ) -> Features:
        """Features with a learned kernel, judged by the engine that suits the bags; kinds of kernel by bags alone.

        Where messages can judge no kernel at all, one site per bag does.
        """
        if not self.learn or not counts.evidence.observed().any():
            return features
        only_labels = counts.evidence.only_labels()
        by_bags = only_labels and (choosing or self._has_large_bags(bags, counts))
        learned = self._search(features, bags, counts, begin, by_bags, choosing)
        if only_labels and not by_bags and learned.trace is not None and _found_nothing(learned.trace):
            learned = self._search(features, bags, counts, begin, True, choosing)
        self.learning_trace_ = learned.trace
        return learned.features

    def _has_large_bags(self, bags: Bags, counts: CountInput) -> bool:
        return self.inference == "bag-ep" or engine_for(bags, counts.evidence, counts.tight) == "bag-ep"

    def _search(
        self, features: Features, bags: Bags, counts: CountInput, begin: Features | None, by_bags: bool, choosing: bool
    ) -> Learned:
        settings = LearningSettings(
            self.n_restarts,
            self.learn_inducing,
            np.random.RandomState(self.seed_),
            by_bags=by_bags,
            pinned=counts.tight,
            rows=self.learn_rows,
            one_stage=counts.tight or choosing,
        )
        watch = Watch("learning the kernel", self.verbose)
        return learn_features(features, bags, counts.evidence, settings, watch, begin)

    def _say_unsettled(self) -> None:
        trace = self.learning_trace_
        if trace is not None and not trace.converged and not trace.interrupted:
            warn_user(unsettled(trace), ConvergenceWarning)

    def _inferred(self, features: Features, bags: Bags, evidence: CountEvidence) -> Inferred:
        """By the engine of ``inference_``; where it fails by the next one that can answer, with a warning."""
        limits = Limits(self.max_iter, self.tol, Watch(type(self).__name__, self.verbose, self.callback), NEARLY)
        while self.inference_ != "vi":
            try:
                if self.inference_ == "ep":
                    return by_messages(features, bags, evidence, limits)
                return by_bag_sites(features, bags, evidence, limits, self.seed_)
            except NumericalError as error:
                self._fall_back(error, evidence)
        return by_mean_field(features, bags, evidence, limits)

    def _fall_back(self, error: NumericalError, evidence: CountEvidence) -> None:
        """From messages to one site per bag where labels are all that bags say, else to the mean field."""
        what = "expectation propagation" if self.inference_ == "ep" else "expectation propagation with a site per bag"
        sites = self.inference_ == "ep" and evidence.only_labels()
        failed = f"{what} failed ({error})"
        self.inference_ = "bag-ep" if sites else "vi"
        self.fallback_ = failed if self.fallback_ is None else f"{self.fallback_}, then {failed}"
        answer = "the answer with one site per bag" if sites else "the mean-field answer"
        warn_user(f"{failed}; {answer} is given instead (inference_ is {self.inference_!r}).", ConvergenceWarning)

    def _by_gibbs(self, features: Features, bags: Bags, evidence: CountEvidence) -> _Sampled:
        if self.learning_trace_ is not None and self.learning_trace_.interrupted:
            raise KeyboardInterrupt("fit was interrupted while learning the kernel, before there was a single draw.")
        settings = ChainSettings.of(self)
        gibbs = gibbs_sampler(features, bags, evidence, settings, self.seed_)
        return _Sampled(*sample(self, settings, gibbs, features, bags, evidence, ()), None)


def _found_nothing(trace: Trace) -> bool:
    return not trace.interrupted and not bool(np.isfinite(trace.values).any())


def _sized(features: Features, bags: Bags, sized: bool) -> Features:
    return features.with_sizes(bags.totals) if sized else features


def _individuals(bags: Bags) -> Bags:
    """A row for every individual."""
    if bags.weight is not None and bags.totals.sum() > LARGEST_REPEATED:
        raise BagDataError(
            f"the rows stand for {bags.totals.sum():,} individuals, too many to give each a row of its own; use "
            "inference='laplace', which takes a row as it is."
        )
    return bags.repeated()


def _some_rows(bags: Bags, standardize: bool) -> torch.Tensor:
    """Rows as a feature map will see them, at most a thousand, to try it on."""
    rows = bags.X[:: max(1, bags.n_instances // 1000)]
    dense = np.asarray(rows.toarray() if scipy.sparse.issparse(rows) else rows, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # numbers too large to standardise are refused elsewhere
        shift, scale = column_moments(bags.X) if standardize else (0.0, 1.0)
        return torch.from_numpy((dense - shift) / scale)
