"""GPMIL of Kim & De la Torre: a Gaussian process whose largest value in a bag decides about the bag."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from bagwise import _validation as check
from bagwise.bag_models.rules import DECISIONS, LabelRule, SoftMax, Witness
from bagwise.bag_models.soft_max import POOLINGS, BagLosses, Pooling, weighted_losses
from bagwise.bags import Bags
from bagwise.evidence.known import with_known_as_bags, with_known_weights
from bagwise.evidence.weights import check_class_weight
from bagwise.exceptions import BagDataError, BagDataWarning, warn_user
from bagwise.gp import kernels
from bagwise.gp.features import Features, reassembled
from bagwise.inference.kernel_learning.by_laplace import SearchSettings, learn_soft_max, learn_witness
from bagwise.inference.kernel_learning.learn import some_bags
from bagwise.inference.laplace.annealing import LAST_ROUNDS, Schedule
from bagwise.inference.laplace.fit import (
    ColumnFit,
    Starts,
    fit_soft_max,
    fit_witness,
    joint_posterior,
    share_left_over,
)
from bagwise.inference.laplace.mode import FLOOR, ModeLimits
from bagwise.inference.laplace.pooled_rows import PooledRows, RowsAt, rows_of, stays_sparse
from bagwise.inference.loop import Callback, Trace, Watch, one_after_the_other
from bagwise.models._base.documented import documented
from bagwise.models._base.estimator import BagClassifier, ModelCard, check_iterations
from bagwise.models._base.fit_record import FitRecord
from bagwise.models._base.learned_kernel import start_kernel, warn_if_unsettled
from bagwise.numerics.links import LINKS
from bagwise.predict.bags import bag_decision

APPROXIMATIONS = ("witness", "softmax")
WITNESSES = ("soft", "hard", "alternating")
_EXACT = {"witness": 1500, "softmax": 800}  # instances up to which each is its own inducing input
_INDUCING = 300  # inducing inputs where there are more
_LEARNING_ROWS = 20_000
_LEFT_OVER = 0.05  # share of the kernel's variance that the inducing inputs may fail to represent
_NEWTON_STEPS = 200
_PUBLISHED: dict[str, Any] = {
    "approximation": "witness",
    "witnesses": "soft",
    "n_stages": 3,
    "pooling": "sum",
    "sharpness": 1.0,
    "link": "logistic",
    "kernel": "rbf",
    "lengthscale": None,
    "learn": True,
    "ard": False,
    "n_inducing": None,
    "n_restarts": 3,  # "different starting iterates"
    "n_starts": 3,
    "decision": "mode",  # (27)
    "bias": 0.0,
    "standardize": False,
}
_TOLERANCE = {"witness": 1e-2, "softmax": 1e-8}


@documented
class GPMIL(BagClassifier):
    """Gaussian process whose largest latent value in a bag decides about the bag; its kernel can choose features.

    Individually known instances (``bags.with_known``) take part as bags of one.

    ``GPMIL.published()`` is the setting of the paper.

    Parameters
    ----------
    approximation : {"witness", "softmax"}
        How the maximum over a bag is approximated: "witness" (deterministic annealing towards one instance per bag) or
        "softmax" (a soft maximum). Use "softmax" where several instances together make a bag positive.
    pooling : {"sum", "mean"}
        The soft maximum (1/β) log Σ exp(βF) of a bag: "sum" as published; "mean" takes the mean instead of the sum, so
        that large bags are not positive by their size alone. Use "mean" where bags differ much in size.
    sharpness : float
        β of the soft maximum. Increase it to come closer to the maximum; the search for a mode then gets harder.
    link : {"logistic", "probit"}
        From the score of a bag to its probability. Change it to compare with models that use the other one.
    learn : bool
        Learn the parameters of the kernel by the gradient of the Laplace log evidence, from at most about 20,000
        instances. Use False to keep everything as given, which is faster.
    n_inducing : int or None
        Number of inducing inputs: the points on which the Gaussian process rests. More of them follow finer structure
        and cost time and memory. None takes every distinct instance of small data (1,500 instances, with "softmax"
        800) and 300 inducing inputs of larger data. Increase it when ``fit`` warns that much of the variance is left
        over. Sparse rows under a linear kernel need none with "witness": they stay sparse and the model is exact.
    decision : {"probability", "mode"}
        How ``predict`` decides under "softmax": "probability" calls a bag positive if its probability exceeds one half;
        "mode" looks at the posterior means alone, as the paper does (27), and comes closest to its figures.
        ``predict_proba`` is the same with both, and under "witness" so is ``predict``. Use "mode" to compare with the
        paper.
    witnesses : {"soft", "hard", "alternating"}
        "hard" makes a last fit in which one instance carries all the weight of its bag; "soft" leaves the weights as
        they are at the last temperature; "alternating" has no temperatures: in every round the largest instance is the
        witness (28). Use "hard" where one instance decides.
    averaging : bool
        Average the weights of the witnesses over rounds, so that they settle. False takes those of the last round, as
        the paper does; they may then change for ever, and ``fit`` warns.
    n_stages : int or None
        Number of temperatures of the annealing, λ = 0.1, 1, 10 and so on. Increase it to end closer to a single
        witness. None goes on until a further temperature changes no weight by more than 0.01: three temperatures at
        least, six at most.
    floor : float
        Smallest eigenvalue that the curvature at the mode is left with under "softmax", ε of the paper: above 0 and at
        most 1, where 1 is what the prior alone has. Decrease it to follow the paper; the search for a kernel may then
        run to where the approximation breaks down.
    kernel_prior : bool
        Whether the search for the kernel has its weak prior. False maximises the evidence alone, as the paper does;
        with few bags the search may then run to very large or small values.
    n_starts : int
        Number of starts of the search for the mode under "softmax": zero, the witness solution, then draws of the
        prior. Increase it where different values of ``random_state`` give different models.
    max_iter : int or None
        Largest number of Newton steps ("softmax"), or of rounds at the last temperature ("witness"). None takes 200.
        Increase it if ``fit`` warns that the mode was not reached.
    tol : float or None
        Largest entry of the gradient ("softmax"), or largest change of a witness weight ("witness"), at which the
        iteration counts as converged. None takes 1e-8 and 0.01. Decrease it for more digits.

    Attributes
    ----------
    witness_ : ndarray of shape (B,) or (B, K)
        Row (of ``bags.X``) of the instance that carries each training bag.
    witness_rows_ : list of list of int
        The same, one list per label column, as it is saved.
    log_evidence_ : float or ndarray of shape (K,)
        Laplace's approximation of the log evidence; with "witness" that of the model at its final weights.
    trace_ : Trace
        Objective of every iteration, how far each moved, and whether they converged; label column after label column.
    """

    own_attributes = ("witness_rows_",)
    traces = ("trace_", "learning_trace_")
    card = ModelCard(
        "gpmil", ("label", "known"), "Kim & De la Torre, Multiple Instance Learning via Gaussian Processes"
    )

    witness_rows_: list[list[int]]
    learning_trace_: Trace | None

    def __init__(
        self,
        approximation: str = "witness",
        pooling: str = "sum",
        sharpness: float = 1.0,
        link: str = "logistic",
        learn: bool = True,
        ard: bool = False,
        n_inducing: int | None = None,
        n_restarts: int = 3,
        *,
        decision: str = "probability",
        witnesses: str = "soft",
        averaging: bool = True,
        n_stages: int | None = 3,
        n_starts: int = 3,
        class_weight: Any = None,
        floor: float = FLOOR,
        kernel_prior: bool = True,
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
        self.approximation = approximation
        self.pooling = pooling
        self.sharpness = sharpness
        self.link = link
        self.learn = learn
        self.ard = ard
        self.n_inducing = n_inducing
        self.n_restarts = n_restarts
        self.decision = decision
        self.witnesses = witnesses
        self.averaging = averaging
        self.n_stages = n_stages
        self.n_starts = n_starts
        self.class_weight = class_weight
        self.floor = floor
        self.kernel_prior = kernel_prior
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

    @classmethod
    def published(cls, **changes: Any) -> Self:
        """The setting of Kim & De la Torre, with ``changes`` to it.

        Section 6: RBF kernel whose parameters maximise the evidence, logistic link (12), zero mean (14), so no bias.
        GP-WDA, witnesses weighted softly (29) and annealed with λ = 0.1, 1, 10; how many times λ grows the paper leaves
        to "no significant change". GP-SMX, the soft maximum (13) with β = 1 and sum, is
        ``published(approximation="softmax")``; section 6.3.3 has ``kernel="linear"``, section 6.5 ``ard=True``. Whether
        features were standardised the paper does not say: here they are not. Beyond 1,500 instances (soft maximum: 800)
        300 inducing inputs stand in for the paper's full process; ``n_inducing=len(bags.X)`` does without. Bags are
        called by the mode (27). Three things differ, because they fail as printed (theory, section 6), and can be had
        as printed: ``kernel_prior=False`` (the paper has no prior), ``floor=1e-3`` ("a small ε", here ½) and
        ``averaging=False`` with ``n_stages=None`` (annealing until nothing changes).
        """
        return cls(**_PUBLISHED | changes)

    def fit(self, bags: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from bags and one binary label per bag (NaN where missing); y of shape (B, K) fits K labels at once.

        ``sample_weight`` says how much every bag counts (array, or dict or Series by id): one of weight 2 as if it were
        there twice, one of weight 0 as if its label were missing.
        """
        self._check_settings()
        given, labels = self._read(bags, y)
        checked, values = with_known_as_bags(given, labels)
        features = self._first_features(checked)
        link = LINKS[self.link]
        weights = self._weights(bags, sample_weight, labels.values, labels.classes)
        times = with_known_weights(given, weights)
        columns = weighted_losses(torch.as_tensor(values, device=features.device), link, times)
        kernel = self._learned_kernel(features, checked, columns)
        features, fits, rule = self._modes(reassembled(features, kernel=kernel), checked, columns)
        self.witness_rows_ = [fit.witnesses[: len(given)].tolist() for fit in fits]
        log_evidence = torch.stack([fit.log_evidence for fit in fits])
        trace = one_after_the_other([fit.trace for fit in fits])
        self._finish(features, joint_posterior(fits, link), rule, trace, log_evidence)
        self._warn_if_nothing_learned(given, labels.values, weights)
        if self.learning_trace_ is not None and self.learning_trace_.interrupted:
            raise KeyboardInterrupt("fit was interrupted while learning the kernel; the best one found is kept.")
        return self

    def predict(self, bags: Any) -> NDArray[Any]:
        """The class of every bag, decided as ``decision`` says: (B,), or (B, K) of 0/1 for K labels."""
        checked = self._bags_to_judge(bags)
        called = bag_decision(self._fitted(), checked)
        return self._decide(self._columns(called.astype(float)))

    def predict_witness(self, bags: Any) -> NDArray[np.int64]:
        """Row (of ``bags.X``) of the instance with the highest latent mean in each bag: (B,), or (B, K)."""
        checked = self._check_bags(bags)
        means = self.predict_latent(checked)[0].reshape(checked.n_instances, -1)
        rows = np.column_stack([_largest(mean, checked) for mean in means.T])
        return rows if self._several() else rows[:, 0]

    @property
    def witness_(self) -> NDArray[np.int64]:
        """Row (of the training ``bags.X``) of the instance that carries each bag: (B,), or (B, K)."""
        rows = np.array(self.witness_rows_, dtype=np.int64).T
        return rows if self._several() else rows[:, 0]

    def fit_record(self) -> FitRecord:
        """How the fit went and what it found."""
        return super().fit_record()._replace(learning=self.learning_trace_)

    # ------------------------------------------------------------ steps of fit

    def _check_settings(self) -> None:
        check.check_option("approximation", self.approximation, APPROXIMATIONS)
        check.check_option("pooling", self.pooling, POOLINGS)
        check.check_positive("sharpness", self.sharpness)
        check.check_option("link", self.link, tuple(LINKS))
        check.check_option("witnesses", self.witnesses, WITNESSES)
        check.check_option("decision", self.decision, DECISIONS)
        for name in ("learn", "ard", "averaging", "kernel_prior"):
            check.check_flag(name, getattr(self, name))
        for name in ("n_restarts", "n_starts"):
            check.check_count(name, getattr(self, name))
        if self.n_stages is not None:
            check.check_count("n_stages", self.n_stages)
        if check.check_positive("floor", self.floor) > 1.0:
            raise BagDataError(f"floor={self.floor!r}: expected at most 1, the curvature of the prior.")
        check_iterations(self.max_iter, 0.0 if self.tol is None else self.tol)
        check_class_weight(self.class_weight)

    def _first_features(self, bags: Bags) -> Features:
        kernel = start_kernel(self, bags)
        if self.approximation == "witness" and scipy.sparse.issparse(bags.X) and kernels.is_linear(kernel):
            return self._make_features(bags, kernel, inducing=_bag_means(bags))
        return self._make_features(bags, kernel, n_inducing=self._wanted(bags))

    def _wanted(self, bags: Bags) -> int:
        if self.n_inducing is not None:
            return check.check_count("n_inducing", self.n_inducing)
        return bags.n_instances if bags.n_instances <= _EXACT[self.approximation] else _INDUCING

    def _rows(self, features: Features, bags: Bags) -> RowsAt:
        return rows_of(features, bags, exact=self._exact(features, bags))

    def _exact(self, features: Features, bags: Bags) -> bool:
        """Whether every instance is its own inducing input."""
        return isinstance(self.inducing, str) and features.n_inducing <= bags.n_instances <= self._wanted(bags)

    def _learned_kernel(self, features: Features, bags: Bags, columns: Sequence[BagLosses]) -> Any:
        self.learning_trace_ = None
        states = ~np.isnan(np.column_stack([column.labels.cpu().numpy() for column in columns])).all(axis=1)
        if not self.learn or not states.any():
            return features.kernel
        random = np.random.RandomState(self.seed_)
        how = SearchSettings(
            self.n_restarts,
            random,
            Watch("learning the kernel", self.verbose),
            self.kernel_prior,
            float(self.floor),
        )
        chosen = some_bags(bags, states, _LEARNING_ROWS, random)
        some, their_losses = bags[chosen], [column.some(chosen) for column in columns]
        if self.approximation == "witness":
            learned = learn_witness(features, self._rows(features, some), their_losses, self._schedule, how)
        else:
            learned = learn_soft_max(features, some, their_losses, self._pooling, how)
        self.learning_trace_ = learned.trace
        warn_if_unsettled(learned.trace)
        return learned.kernel

    def _modes(
        self, features: Features, bags: Bags, columns: Sequence[BagLosses]
    ) -> tuple[Features, list[ColumnFit], LabelRule]:
        """Features, fits, and what a bag is: judged by the soft maximum, or by witnesses as at the end of training."""
        if self.approximation == "softmax":
            self._warn_if_too_few(features.n_inducing, share_left_over(features, bags))
            random = np.random.RandomState(self.seed_)
            starts = Starts(self.n_starts, self._pooled_rows(features, bags), self._schedule, random)
            limits, floor = self._limits(_NEWTON_STEPS), float(self.floor)
            fits = fit_soft_max(features, bags, columns, self._pooling, starts, limits, floor)
            return features, fits, SoftMax(self.pooling, float(self.sharpness), self.decision)
        whole = self._exact(features, bags) or stays_sparse(features.kernel, bags)
        rows = self._pooled_rows(features, bags) if whole else None
        found = fit_witness(features, bags, columns, rows, self._schedule, self._limits(LAST_ROUNDS))
        self._warn_if_too_few(features.n_inducing, found.left_over)
        return found.features, found.fits, Witness(found.sharpness if self.witnesses == "soft" else None)

    @torch.no_grad()
    def _pooled_rows(self, features: Features, bags: Bags) -> PooledRows:
        return self._rows(features, bags)(features.kernel)

    @property
    def _schedule(self) -> Schedule:
        return Schedule(self.n_stages, self.witnesses, bool(self.averaging))

    @property
    def _pooling(self) -> Pooling:
        return Pooling(self.pooling, float(self.sharpness))

    def _limits(self, most: int) -> ModeLimits:
        return ModeLimits(
            most if self.max_iter is None else self.max_iter,
            _TOLERANCE[self.approximation] if self.tol is None else self.tol,
            Watch(type(self).__name__, self.verbose, self.callback),
        )

    @staticmethod
    def _warn_if_too_few(n_inducing: int, left: float) -> None:
        if left > _LEFT_OVER:
            warn_user(
                f"{n_inducing} inducing inputs leave {left:.0%} of the kernel's variance unrepresented (at "
                f"most {_LEFT_OVER:.0%} is sound): the log evidence may favour kernels that they cannot carry. Use a "
                "larger n_inducing.",
                BagDataWarning,
            )


def _bag_means(bags: Bags) -> NDArray[np.float64]:
    """The mean row of every bag, from sparse rows."""
    ones = np.repeat(1.0 / bags.sizes, bags.sizes)
    P = scipy.sparse.csr_array((ones, np.arange(bags.n_instances), bags.offsets), shape=(len(bags), bags.n_instances))
    means: NDArray[np.float64] = (P @ bags.X).toarray()
    return means


def _largest(values: NDArray[np.float64], bags: Bags) -> NDArray[np.int64]:
    """The row of the largest value in every bag."""
    rows: NDArray[np.int64] = np.lexsort((-values[: bags.n_instances], bags.index))[bags.offsets[:-1]]
    return rows
