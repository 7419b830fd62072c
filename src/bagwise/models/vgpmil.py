"""VGPMIL and LM-VGPMIL of Haussmann, Hamprecht & Kandemir: logistic instances, noisy bag labels, a quadratic bound."""

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch

from bagwise import _validation as check
from bagwise.bag_models.noisy_or import UPDATES, NoisyOr, NoisyOrEvidence
from bagwise.bag_models.rules import AtLeastOne
from bagwise.bags import Bags
from bagwise.evidence.reading import CountInput, CountReading, read_counts
from bagwise.evidence.weights import check_class_weight
from bagwise.exceptions import BagDataError, ConvergenceWarning, warn_user
from bagwise.gp.features import Features
from bagwise.inference.logistic_bound import Bound, LogisticBound, MarginBound, PlainBound
from bagwise.inference.loop import Callback, Trace, Watch, iterate
from bagwise.inference.places import chunks_of
from bagwise.models._base.count_answers import KINDS, CountAnswers
from bagwise.models._base.documented import documented
from bagwise.models._base.estimator import ModelCard, check_iterations

_CAP = {"sequential": 2000, "structured": 2000, "parallel": 200}  # iterations after which "until converged" gives up
_SOURCE = "Haussmann, Hamprecht & Kandemir, Variational Bayesian Multiple Instance Learning with Gaussian Processes"
_FIRST_CAP, _FIRST_TOLERANCE = 200, 1e-3  # of the VGPMIL that LM-VGPMIL starts from
STARTS = ("plain", "published")
_PUBLISHED: dict[str, Any] = {
    "H": 100.0,
    "updates": "sequential",
    "n_inducing": 50,
    "inducing": "kmeans++",
    "max_iter": 25,
    "tol": 0.0,  # all 25
    "kernel": "rbf",
    "lengthscale": None,
    "bias": 0.0,
    "standardize": False,
}
_FALL = 1e-9  # of its size: what the bound may seem to fall by rounding


@documented
class VGPMIL(CountAnswers):
    """Gaussian process classifier of instances with a logistic link, learned from binary labels of bags.

    A bag's label fits its instances ("some are positive" or "none is") with odds H to 1. The kernel is not learned. The
    defaults iterate until the bound has settled and learn a constant; ``VGPMIL.published()`` is the setting with which
    the papers compare: 25 iterations, which often stop short of that, and no constant.

    Parameters
    ----------
    evidence : {"label", "fraction", "count"}
        What ``y`` holds: "label" (two class values), "fraction" (fractions of positives, numbers in [0, 1]) or "count"
        (shape (B, 2): lowest and highest number of positives). Change it to what you know about your bags; "fraction"
        and "count" need ``updates="structured"``. ``fit`` also takes an ``Evidence``, in which the kinds mix.
    max_iter : int or None
        Largest number of iterations. None continues until the bound has settled; the published number of 25 often stops
        short of that. Set it to bound the time of a fit.
    tol : float
        Relative change of the bound at which the iteration counts as converged. Increase it if ``fit`` warns that the
        bound had not settled.

    Attributes
    ----------
    log_evidence_ : float or ndarray of shape (K,)
        The lower bound of the log evidence at the final posterior.
    trace_ : Trace
        The bound after every iteration, its relative changes, and whether it settled.
    """

    card = ModelCard("vgpmil", ("label", "fraction", "count", "known"), _SOURCE)

    def __init__(
        self,
        H: float = 100.0,
        updates: str = "sequential",
        n_inducing: int | None = 50,
        bias: float = 5.0,
        *,
        evidence: str = "label",
        confidence: Any = 1000.0,
        class_weight: Any = None,
        max_iter: int | None = None,
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
        self.H = H
        self.updates = updates
        self.n_inducing = n_inducing
        self.bias = bias
        self.evidence = evidence
        self.confidence = confidence
        self.class_weight = class_weight
        self.max_iter = max_iter
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
        """The setting in which VGPMIL was compared, with ``changes`` to it.

        The updates are (5.1)–(5.3) of the theory page, section 1 of the supplement, one instance after the other; the
        authors' own code makes them all at once (``updates="parallel"``). Wang & Pinar, section 4, report 25 iterations
        "as they did", 50 inducing inputs by k-means++ and, section 4.1, the Gaussian kernel of variance 1 with
        lengthscale √D; the mean is zero. The value of H is in none of the texts: 100 is ours. Whether features were
        standardised they do not say either: here they are not.
        """
        return cls(**_PUBLISHED | changes)

    def fit(self, bags: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from bags and what is known about them, one entry (or row) of ``y`` per bag, NaN where nothing is.

        ``sample_weight`` says how much every bag counts (array, or dict or Series by id): one of weight 2 as if it were
        there twice, one of weight 0 as if its label were missing.
        """
        self._check_settings()
        checked = self._training_bags(bags, y)
        counts = self._read_evidence(checked, bags, y)
        self._remember(counts.classes, counts.names)
        weights = self._weights(bags, sample_weight, counts.evidence.labels, counts.classes)
        counts = counts._replace(evidence=counts.evidence.weighted(weights))
        features = self._make_features(checked)
        state = self._engine(features, checked, counts)
        trace = self._climb(state)
        self._judge(trace)
        self._finish(features, state.posterior(), AtLeastOne(), trace, state.value)
        self._warn_if_nothing_learned(checked, counts.evidence.labels, weights)
        return self

    # ------------------------------------------------------------ steps of fit

    def _climb(self, state: LogisticBound) -> Trace:
        return iterate(
            state.step,
            name="bound",
            max_iter=_CAP[self.updates] if self.max_iter is None else self.max_iter,
            tol=self.tol,
            watch=Watch(type(self).__name__, self.verbose, self.callback),
            open_end=self.max_iter is None,
        )

    def _first_bound(self) -> Bound:
        return PlainBound()

    def _check_settings(self) -> None:
        check.check_option("updates", self.updates, UPDATES)
        check.check_option("evidence", self.evidence, KINDS)
        check_iterations(self.max_iter, self.tol)
        check_class_weight(self.class_weight)
        _check_trust(self.H, self.updates)

    def _read_evidence(self, bags: Bags, given: Any, y: Any) -> CountInput:
        noise = 1.0 / (1.0 + self.H)
        reading = CountReading(self.evidence, self.confidence, noise, plain_labels=True)
        counts = read_counts(y, bags, given, reading)
        beyond_labels = counts.evidence.observed() & np.isnan(counts.evidence.labels)
        takes_counts = "count" in self.card.evidence and self.updates == "structured"
        if beyond_labels.any() and not takes_counts:
            bag = bags.ids[int(np.flatnonzero(beyond_labels.any(axis=1))[0])]
            raise BagDataError(
                f"bag {bag!r} states something about its number of positives other than a label, but "
                f"{type(self).__name__}(updates={self.updates!r}) learns from labels only; use "
                "VGPMIL(updates='structured')."
            )
        return counts

    def _engine(self, features: Features, bags: Bags, counts: CountInput) -> LogisticBound:
        chunks = chunks_of(features, bags, NoisyOrEvidence(counts.evidence))
        n_labels = counts.evidence.labels.shape[1]
        rule = NoisyOr(float(self.H), self.updates, n_labels, features.device)
        exact = features.dtype == torch.float64
        return LogisticBound(chunks, self._first_bound(), rule, features.n_columns, n_labels, features.device, exact)

    def _judge(self, trace: Trace) -> None:
        """Say so when the iteration went round in circles, or was to go on until it settled and did not."""
        if trace.converged or trace.interrupted:
            return
        circling = _falls(trace) if self.updates == "parallel" else 0
        if circling:
            message = (
                f"the parallel updates go round in circles: the bound fell in {circling} of {len(trace)} iterations, "
                f"last it went from {trace.values[-2]:.6g} to {trace.values[-1]:.6g}. Use updates='sequential' or "
                "'structured', which never lower it."
            )
        elif self.max_iter is None:
            message = (
                f"the bound had not settled after {len(trace)} iterations (relative change {trace.residuals[-1]:.1e} > "
                f"tol={self.tol:g}); use a larger tol."
            )
        else:
            return
        warn_user(message, ConvergenceWarning)


@documented
class LMVGPMIL(VGPMIL):
    """VGPMIL with a large margin: instances are kept away from the border, whatever side they are on.

    Every instance has a switch g that is probably on where the latent function is farther than V from zero, on the side
    of the instance's label; only then does the instance's label bear on the latent function. Harder (C) and farther (V)
    margins make bolder models. One constant (``bias``) can keep the margins of all instances of the larger class, and
    then the other labels are given up: ``fit`` warns where that happens, and ``bias=0`` may help.

    Parameters
    ----------
    C : float
        Steepness of the margin: how much it matters to keep it. Increase it for bolder answers.
    V : float
        Width of the margin, in units of the latent function. Increase it for bolder answers; without a constant
        (``bias=0``) a kernel of variance 1 can hardly keep a margin of 2.
    H : float
        How far labels are trusted: one label in 1 + H may be wrong. Take a far larger number than for ``VGPMIL``, as
        the authors' own code does: where few instances keep the margin, little holds a doubted label in place.
        ``math.inf`` says that labels are never wrong and needs ``updates="structured"``.
    start : {"plain", "published"}
        "plain": a VGPMIL settles first, then the margins come into force. "published": margins from the first iteration
        on, as in the authors' code, which often ends where most of them have been given up, at a far lower objective.
        Use "published" to reproduce the paper, or to rank instances of text, where it does better.
    max_iter : int or None
        Largest number of iterations with margins. None continues until the objective has settled. Set it to bound the
        time of a fit.
    tol : float
        Relative change of the objective at which the iteration counts as converged. Increase it if ``fit`` warns that
        it had not settled.

    Attributes
    ----------
    log_evidence_ : float or ndarray of shape (K,)
        The objective (theory, equation 5.11) at the final posterior. It rises like a lower bound but bounds no log
        evidence: do not compare it between different C, V or kernels.
    trace_ : Trace
        The objective after every iteration, its relative changes, and whether it settled.
    """

    card = ModelCard("lm-vgpmil", ("label", "known"), _SOURCE)

    def __init__(
        self,
        C: float = 2.0,
        V: float = 2.0,
        H: float = 1e12,
        start: str = "plain",
        updates: str = "sequential",
        n_inducing: int | None = 50,
        bias: float = 5.0,
        *,
        class_weight: Any = None,
        max_iter: int | None = None,
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
        super().__init__(
            H,
            updates,
            n_inducing,
            bias,
            class_weight=class_weight,
            max_iter=max_iter,
            tol=tol,
            kernel=kernel,
            lengthscale=lengthscale,
            inducing=inducing,
            standardize=standardize,
            jitter=jitter,
            device=device,
            dtype=dtype,
            random_state=random_state,
            verbose=verbose,
            callback=callback,
        )
        self.C = C
        self.V = V
        self.start = start

    @classmethod
    def published(cls, **changes: Any) -> Self:
        """The setting in which LM-VGPMIL was compared, with ``changes`` to it.

        As ``VGPMIL.published``, with the updates (5.7)–(5.10), section 2 of the supplement, margins from the first
        iteration on, and C = V = 2 (Wang & Pinar, section 4). H = 10¹² is that of the authors' own code.
        """
        return cls(**_PUBLISHED | {"C": 2.0, "V": 2.0, "H": 1e12, "start": "published"} | changes)

    def _check_settings(self) -> None:
        super()._check_settings()
        check.check_option("start", self.start, STARTS)
        check.check_positive("C", self.C)
        check.check_positive("V", self.V, zero=True)

    def _first_bound(self) -> Bound:
        return self._margin() if self.start == "published" else PlainBound()

    def _climb(self, state: LogisticBound) -> Trace:
        if self.start == "plain":
            watch = Watch("VGPMIL to begin with", self.verbose)
            trace = iterate(state.step, name="bound", max_iter=_FIRST_CAP, tol=_FIRST_TOLERANCE, watch=watch)
            if trace.interrupted:
                return trace
            state.go_on_with(self._margin())
            margins = super()._climb(state)
            return margins if len(margins) else replace(trace, interrupted=margins.interrupted)
        return super()._climb(state)

    def _margin(self) -> MarginBound:
        return MarginBound(float(self.C), float(self.V))


def _check_trust(H: Any, updates: str) -> None:
    if isinstance(H, float | np.floating) and math.isinf(H) and H > 0:
        if updates != "structured":
            raise BagDataError(
                f"H=inf: labels that are never wrong need updates='structured'; updates={updates!r} takes a number."
            )
        return
    if check.check_positive("H", H) <= 1.0:
        raise BagDataError(f"H={H}: expected a number above 1 (at 1 a label says nothing; 100 is the default), or inf.")


def _falls(trace: Trace) -> int:
    """In how many iterations the objective fell by more than rounding."""
    return int((np.diff(trace.values) < -_FALL * np.abs(trace.values[1:])).sum())
