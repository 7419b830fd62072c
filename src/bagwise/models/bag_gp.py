"""BagGP: a probit Gaussian process that takes any evidence about counts and learns its kernel from it."""

from typing import Any, NamedTuple, Self

import numpy as np
import torch

from bagwise import _validation as check
from bagwise.bag_models.rules import AtLeastOne
from bagwise.bags import Bags
from bagwise.evidence.reading import CountReading, counted, read_stated
from bagwise.evidence.weights import check_class_weight, repeated_by_weight
from bagwise.exceptions import BagDataError
from bagwise.gp.effects import GroupEffect
from bagwise.inference.loop import Callback, Trace
from bagwise.models._base.chain_answers import ChainAnswers
from bagwise.models._base.chains import ChainSettings
from bagwise.models._base.class_answers import AnswersInClasses
from bagwise.models._base.class_fit import CLASS_KINDS, fit_classes, states_classes
from bagwise.models._base.count_answers import KINDS
from bagwise.models._base.count_fit import fit_counts, one_row_each
from bagwise.models._base.documented import documented
from bagwise.models._base.estimator import ModelCard, check_iterations
from bagwise.models._base.first_features import asks_for_sizes
from bagwise.models._base.fit_record import FitRecord
from bagwise.models._base.total_fit import BY_GROUP, common_and_own, fit_totals, goes_by_totals

_ONLY_WHOLE = {  # why weights of bags are whole numbers
    "gibbs": "a sampler draws the instances of whole bags. Use inference='auto' or 'vi' for other weights",
    "classes": "the sites of a bag that has one class out of many are made for whole bags",
}
LEFTOVERS = ("auto", "shared", "none")
INFERENCES = ("auto", "ep", "bag-ep", "vi", "gibbs", "laplace")


class SizeEffect(NamedTuple):
    """What the size of a bag does by itself: the coefficient of log n in the latent function."""

    mean: Any
    sd: Any


@documented
class BagGP(ChainAnswers, AnswersInClasses):
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
        labelled bag is, on average, in a bag of more than 20; else "vi" where there are more than 50,000 instances
        times label columns, or some bag has a weight below ½; else "ep". For classes it takes "bag-ep", with one site
        per bag and class. Use "gibbs" where you doubt the others. ``inference_`` is what was used.
    learn : bool
        Learn the parameters of the kernel by the gradient of a log evidence: with one site per bag for labels of large
        bags, else that of expectation propagation, or a Laplace approximation from the moments of counts where these
        are pinned down and messages do not settle. Use False to keep everything as given, which is faster.
    learn_rows : int or None
        Largest number of instances that the kernel is learned from, in bags that are chosen at random. None is as many
        as matter. The search begins with about 3,000 instances (at least 60 bags; of large labelled bags at most 500
        instances each), goes on with 30,000 and ten times as many each time, and only where these ask for another
        kernel. It ends with the bags that tell the kernel to 0.003 nats of a bag's log-likelihood: some 330 for a
        variance and a lengthscale, more with relevances. Set it where learning takes too long. Where counts are pinned
        down never more than about 3,000 are used. For classes None stops after the first 3,000 (at least 12 bags for
        every class); name a larger number to go on.
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
        the bags differ in size. Of more than 100,000 instances it asks a random choice of bags with as many. Use False
        where a bag must not be judged by its size.
    leftovers : {"auto", "shared", "none"}
        Whether the latent function has a part that the inducing inputs do not determine. With it ("shared": alike
        instances of a bag share it) instances unlike all inducing inputs may be anything; without it ("none") they
        count as ordinary ones, and nothing tells that they are strange. "auto" takes "none" where labels of training
        bags that were left out are more probable so, by more than half a nat. It asks where a kernel is learned from
        labels alone (by "ep" or "bag-ep"), of at least 20 positive and 20 negative bags, and where there are more
        instances than inducing inputs and at most 10,000; it is "shared" otherwise. Asking takes six fits without
        learning. Use "shared" where it matters that strange instances are told as such. The kernel is learned with
        leftovers either way. Classes, and totals (rows with a weight), have no
        choice but "shared".
    group_effect : {"auto", "by group", True, False}, float or pair of floats
        Whether bags have effects besides the features: f(x) + u + c, with u common to the bag and c common to those of
        its individuals who have the same features, both normal and drawn anew for every bag. True learns how large
        they are, a number is the standard deviation of u (then there is no c), a pair of numbers those of u and of c,
        False leaves both out. "auto" learns them for rows with a weight and leaves them out otherwise. Use True where
        bags differ in ways that no feature tells: without it thousands of individuals make a model much surer than it
        may be. "by group" learns a size for every group, where two to four features of 0 and 1 name the group of every
        row, as from ``Bags.from_totals``. ``group_effect_`` is what was found.
    kernel : str or gpytorch kernel
        Which instances are alike: "auto", "rbf", "exponential", "matern32", "matern52", "linear", "rbf+linear" (their
        sum), or any gpytorch kernel. "auto" is "rbf"; with 100 or more features, or sparse rows, the log evidence
        decides between "rbf", "linear" and, where these two are close, their sum. Sparse rows (a
        sparse matrix, or 1,000 columns or more with zeros in nine of ten places) are then projected on their leading
        100 principal directions. (With ``learn=False``, ``ard`` or a ``feature_map`` nothing is compared: sparse rows
        get "linear", except under a ``feature_map``, all others "rbf".) Name a kernel where you know better. A kernel
        given by name has a variance, which is learned.
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
    group_effect_ : GroupEffect
        Standard deviations of the effects on the scale of the latent function, 0 where there are none: ``common`` to
        the bag, ``own`` to each kind of individuals in it, ``size`` of both together. ``sizes``, ``shares`` (of the
        variance that is own) and ``weights`` are what the data leave possible; conditional answers average over it.
        ``by_group`` are the sizes in the groups that the features ``columns`` name; ``size`` is their quadratic mean.
        It is empty where no groups are named.
    totals_seen_ : str or None
        Of a fit to totals: a fingerprint of the bags and of what they state, by which ``aggregates.group_table`` finds
        out whether it is asked about the same ones. None of any other fit.
    size_effect_ : SizeEffect or None
        Posterior ``mean`` and ``sd`` of the coefficient of log n in the latent function; None where there is no such
        column.
    leftovers_ : {"shared", "none"}
        What ``leftovers`` came to.
    log_evidence_ : float, ndarray of shape (K,) or None
        Log evidence of expectation propagation, or the lower bound of the mean field; None where chains were run. Of
        classes one number for all; of candidate sets it may be that of guesses at the classes, a lower bound.
    instance_classes_ : ndarray of shape (K + 1,)
        Of a model of classes: the classes of instances, the last one none of them.
    trace_ : Trace
        Log evidence ("ep", "bag-ep") or bound ("vi") at the start of every iteration, how far each moved, and whether
        they converged; of chains the mean log likelihood in every sweep.
    """

    own_attributes = ("inference_", "fallback_", "totals_seen_")
    traces = ("trace_", "learning_trace_")
    takes_weights = True
    card = ModelCard("bag-gp", ("label", "fraction", "count", "candidates", "known"), "bagwise")

    inference_: str
    fallback_: str | None
    totals_seen_: str | None
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
        leftovers: str = "auto",
        group_effect: Any = "auto",
        learn_rows: int | None = None,
        scale_step: bool = True,
        checkpoint: Any = None,
        learn_inducing: bool = False,
        class_weight: Any = None,
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
        self.leftovers = leftovers
        self.group_effect = group_effect
        self.learn_rows = learn_rows
        self.scale_step = scale_step
        self.checkpoint = checkpoint
        self.learn_inducing = learn_inducing
        self.class_weight = class_weight
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

    def fit(self, bags: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from bags and what is known about them, one entry (or row) of ``y`` per bag, NaN where nothing is.

        ``sample_weight`` says how much every bag counts (array, or dict or Series by id): one of weight 2 as if it were
        there twice, one of weight 0 as if its label were missing. Where chains are run, and for classes, weights are
        whole numbers.
        """
        self._check_settings()
        checked, self.totals_seen_ = self._training_bags(bags, y), None
        of_classes = states_classes(self, y, checked, keyed=isinstance(bags, Bags))
        if sample_weight is not None and (of_classes or self.inference == "gibbs"):
            why = _ONLY_WHOLE["classes" if of_classes else "gibbs"]
            return self.fit(*repeated_by_weight(bags, y, checked, sample_weight, type(self).__name__, why))
        if self.leftovers == "none" and (of_classes or goes_by_totals(self, checked)):
            raise BagDataError(
                "leftovers='none': needs labels, fractions or counts of rows that stand for one each. Use 'auto' or "
                "'shared' for classes, for rows with a weight and for effects of the group."
            )
        if of_classes:
            fit_classes(self, checked, y, keyed=isinstance(bags, Bags))
            return self._unless_interrupted()
        self.rule_ = AtLeastOne()
        reading = CountReading(self.evidence, self.confidence, self.label_noise, closed_noise=self.inference != "gibbs")
        stated = read_stated(y, checked, bags, reading)
        self._remember(stated.classes, stated.names)
        self.fallback_ = None
        weight = self._weights(bags, sample_weight, stated.labels(), stated.classes)
        if goes_by_totals(self, checked):
            fit_totals(self, checked, stated, weight)
            return self
        individuals = one_row_each(checked)
        counts = counted(stated, individuals, reading)
        fit_counts(self, individuals, counts._replace(evidence=counts.evidence.weighted(weight)))
        return self._unless_interrupted()

    def fit_record(self) -> FitRecord:
        """How the fit went and what it found."""
        record = super().fit_record()
        return record._replace(
            learning=self.learning_trace_,
            inference=self.inference_,
            fallback=self.fallback_,
            group_effect=self.group_effect_,
            size_effect=self.size_effect_,
            leftovers=self.leftovers_,
        )

    @property
    def group_effect_(self) -> GroupEffect:
        """Effects of bags and of their cells."""
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

    @property
    def leftovers_(self) -> str:
        """Whether the latent function has a part that the inducing inputs do not determine."""
        return "shared" if self.features_.leftovers else "none"

    # ------------------------------------------------------------ steps of fit

    def _unless_interrupted(self) -> Self:
        if self.learning_trace_ is not None and self.learning_trace_.interrupted:
            raise KeyboardInterrupt("fit was interrupted while learning the kernel; the best one found is kept.")
        return self

    def _check_settings(self) -> None:
        check.check_option("evidence", self.evidence, (*KINDS, *CLASS_KINDS))
        check.check_option("inference", self.inference, INFERENCES)
        check.check_option("leftovers", self.leftovers, LEFTOVERS)
        for name in ("learn", "ard", "learn_inducing"):
            check.check_flag(name, getattr(self, name))
        check.check_count("n_restarts", self.n_restarts)
        if self.learn_rows is not None:
            check.check_count("learn_rows", self.learn_rows)
        if not isinstance(self.size_effect, bool | np.bool_) and not asks_for_sizes(self):
            raise BagDataError(f"size_effect={self.size_effect!r}: expected 'auto', True or False.")
        effect = self.group_effect
        if not isinstance(effect, bool | np.bool_) and not (isinstance(effect, str) and effect in ("auto", BY_GROUP)):
            for sd in common_and_own(effect):
                check.check_positive("group_effect", sd, zero=True)
        automatic = isinstance(effect, str) and effect == "auto"
        if effect is not False and not automatic and self.inference not in ("auto", "laplace"):
            raise BagDataError(f"group_effect={effect!r}: an effect of the group needs inference='laplace' or 'auto'.")
        check.check_below("label_noise", self.label_noise, 0.5)
        check_class_weight(self.class_weight)
        if self.class_weight is not None and (self.inference == "gibbs" or self.evidence in CLASS_KINDS):
            raise BagDataError(
                f"class_weight={self.class_weight!r}: needs labels, and another inference than 'gibbs', in which bags "
                "count a whole number of times."
            )
        check_iterations(self.max_iter, 0.0 if self.tol is None else self.tol)
        ChainSettings.of(self)
