"""MIPLGP of Tang, Zhang & Zhang: bags whose class is known only up to a set of candidates."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise import _validation as check
from bagwise.bag_models.dirichlet import (
    DISAMBIGUATIONS,
    FIRST_ROUNDS,
    CandidateEvidence,
    Disambiguation,
    augmented,
)
from bagwise.bag_models.rules import ClassRule, OneClassInBag, StrongestInstance
from bagwise.bags import Bags, as_bags
from bagwise.evidence.candidates import candidate_sets, read_candidates, with_none
from bagwise.evidence.weights import repeated_by_weight
from bagwise.exceptions import BagDataError
from bagwise.gp import kernels
from bagwise.gp.posterior import ExactPosterior
from bagwise.inference.candidates.exact import exact_moments
from bagwise.inference.candidates.memory import Size, check_memory, usual_solver
from bagwise.inference.candidates.sparse import APPROXIMATIONS
from bagwise.inference.loop import Callback
from bagwise.models._base.candidate_fit import fit_candidates
from bagwise.models._base.class_answers import candidate_score, most_probable
from bagwise.models._base.documented import documented
from bagwise.models._base.estimator import BagEstimator, ModelCard, check_device, check_dtype
from bagwise.models._base.fit_record import FitRecord
from bagwise.models._base.learned_nothing import warn_if_alike
from bagwise.numerics.segments import Segments
from bagwise.predict.classes import class_probability

SOLVERS = ("auto", "exact", "sparse")
_PUBLISHED: dict[str, Any] = {
    "disambiguation": "dirichlet",
    "augment": True,
    "at_least_one": False,
    "alpha_eps": 1e-4,
    "solver": "exact",
    "rank": 100,
    "variance_steps": None,
    "n_rounds": 50,
    "tol": 0.0,  # all 50
    "learn": True,
    "learn_start": 0,
    "n_steps": 1,
    "ard": False,
    "lengthscale": None,  # the kernel has its own
    "bias": 0.0,
    "standardize": False,
}
_ONLY_WHOLE = "its rounds guess at the class of the instances of whole bags"


@documented
class MIPLGP(BagEstimator):
    """Gaussian process classifier of bags and instances, learned from candidate sets: one of them is the bag's class.

    At least one instance of a bag has the class of the bag; the others have none of the classes, which is a class of
    its own, the last one of ``predict_instance_proba``. ``fit`` takes a (B, q) table of 0/1, one set of class names per
    bag, or one class per bag. ``MIPLGP.published()`` is the setting of the paper.

    Parameters
    ----------
    disambiguation : {"dirichlet", "consistent", "uniform", "prior-mean"}
        How the instances' shares in the candidates are renewed after every round. "dirichlet", the rule of the paper:
        each instance by itself (theory, equation 7.4). "consistent": in the second half of the rounds with the whole
        bag in view, one class of which at least one instance must have (7.10), which finds more instances. "uniform":
        never. "prior-mean": (7.4) at the constants of the classes instead of f, as the authors' script has it;
        instances with one candidate set then stay alike. Use "dirichlet" to reproduce the paper, "prior-mean" to
        reproduce that script; "uniform" is for comparisons.
    augment : bool
        Add "none of them" to every candidate set. Use False where every instance has a class of its bag.
    alpha_eps : float
        Concentration of the classes that are excluded, above 0 and below 1. The smaller it is, the more an exclusion
        counts; increase it where candidate sets may miss the true class.
    solver : {"auto", "exact", "sparse"}
        "exact": conjugate gradients with the kernel matrix of all instances. "sparse": inducing inputs. "auto" is
        exact up to 2,000 instances, with CUDA up to 40,000 where the matrix takes at most half of the free memory.
        Choose "exact" for precision, "sparse" for speed; ``solver_`` is what was used.
    at_least_one : bool
        After (7.4) raise the odds of the candidate classes, by one factor for all instances of a bag, where less than
        one instance would be expected to have one. False is (7.4) to the letter, which drifts: in the end every
        instance is "none of them" and the bags cannot be told apart. Use False only to reproduce the paper.
    n_rounds : int
        Largest number of rounds. They end earlier when nothing moves by more than ``tol``. Increase it if
        ``converged_`` is False.
    learn : bool
        Learn the parameters of the kernel, by steps of Adam on the log evidence of the targets in every round from
        ``learn_start`` on (the sparse solver: from bags with 3,000 instances). Use False to keep the kernel as given.
    learn_start : int
        Number of rounds before the kernel is learned. In the first rounds the targets are close to the candidate sets,
        whose scatter from bag to bag the log evidence takes for detail; with "uniform" they stay so, and the kernel
        stays as it is. 0 learns from the first round, with "uniform" too, as the paper does: use it to reproduce that.
    n_steps : int
        Number of steps of Adam in every round. Increase it if the kernel still changes in the last rounds.
    n_inducing : int or None
        Number of inducing inputs of the sparse solver: the points on which the Gaussian process rests. More of them
        follow finer structure and cost time (quadratic in their number) and memory. Increase it until the answers stop
        changing. None uses every distinct instance.
    approximation : {"vfe", "fitc"}
        What the sparse solver does with the variance that the inducing inputs leave over: "vfe" subtracts it from the
        objective, "fitc" adds it to the noise of every instance (theory, equation 7.9). Change it to compare.
    rank : int
        Rank of the preconditioner of the exact solver. Increase it if conjugate gradients take many steps.
    n_probes : int
        Number of random probes per class for the trace in the gradient of the exact solver. Increase it if the kernel
        jumps about while it is learned.
    variance_steps : int or None
        Steps of conjugate gradients for the variances of predictions by the exact solver; each step can only lower them
        towards the exact ones. None goes all the way, 0 takes the variances of the preconditioner alone. Increase it if
        you need accurate variances.
    bias : float
        Prior standard deviation of the constant of every class, 0 for none. Keep it above 0 unless all classes are
        about equally frequent.
    tol : float
        Mean total variation distance that the shares move in a round, and change of a logarithmic kernel parameter, at
        which the rounds count as converged. Increase it to stop earlier.

    Attributes
    ----------
    classes_ : ndarray of shape (q,)
        The classes of bags.
    instance_classes_ : ndarray of shape (q + 1,)
        The same and, last, what an instance of none of them is called.
    solver_ : {"exact", "sparse"}
        The solver that was used.
    variance_steps_ : int or None
        ``variance_steps`` at the time of the fit.
    features_ : Features
        The map from instances to whitened features: scaling, kernel and inducing inputs; those of the exact solver are
        at the pivots of its preconditioner.
    mean_ : ndarray of shape (q + 1,) or (q,)
        Posterior means of the constants of all classes.
    log_evidence_ : float or None
        Log evidence of the last targets (theory, equation 7.9); None from the exact solver.
    trace_ : Trace
        How far the shares moved in every round, in total variation distance, and whether they settled.
    """

    own_attributes = ("solver_", "variance_steps_")
    card = ModelCard("miplgp", ("candidates", "label"), "Tang, Zhang & Zhang, Multi-Instance Partial-Label Learning")

    solver_: str
    variance_steps_: int | None

    def __init__(
        self,
        disambiguation: str = "consistent",
        augment: bool = True,
        alpha_eps: float = 1e-4,
        solver: str = "auto",
        n_rounds: int = 50,
        learn: bool = True,
        n_inducing: int | None = 500,
        *,
        at_least_one: bool = True,
        learn_start: int = FIRST_ROUNDS,
        n_steps: int = 1,
        ard: bool = False,
        approximation: str = "vfe",
        rank: int = 100,
        n_probes: int = 2,
        variance_steps: int | None = 2,
        bias: float = 5.0,
        kernel: Any = "matern52",
        lengthscale: float | None = None,
        inducing: Any = "kmeans++",
        standardize: bool = True,
        tol: float = 1e-4,
        jitter: float | None = None,
        device: str = "cpu",
        dtype: str = "float64",
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.disambiguation = disambiguation
        self.augment = augment
        self.alpha_eps = alpha_eps
        self.solver = solver
        self.n_rounds = n_rounds
        self.learn = learn
        self.n_inducing = n_inducing
        self.at_least_one = at_least_one
        self.learn_start = learn_start
        self.n_steps = n_steps
        self.ard = ard
        self.approximation = approximation
        self.rank = rank
        self.n_probes = n_probes
        self.variance_steps = variance_steps
        self.bias = bias
        self.kernel = kernel
        self.lengthscale = lengthscale
        self.inducing = inducing
        self.standardize = standardize
        self.tol = tol
        self.jitter = jitter
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @classmethod
    def published(cls, **changes: Any) -> Self:
        """The setting of Tang, Zhang & Zhang, with ``changes`` to it.

        Section 4.1.3: exact solver with a preconditioner of rank 100, 50 iterations of one Adam step each (MNIST and
        FMNIST: ``n_rounds=500``), Matérn kernel ν = 2.5 that begins at ℓ = 1 and, by (7), has variance 1 (words: ν =
        0.5, a gpytorch kernel; a kernel given by name would learn a variance as well), α_ε = 10⁻⁴; (3), to the letter:
        (7.4) without ``at_least_one``, which the paper does not have; zero mean, so no bias. Whether features were
        standardised the paper does not say: here they are not.
        """
        kernel = kernels.make_kernel("matern52", 1, 1.0, torch.float64)
        return cls(**{"kernel": kernel} | _PUBLISHED | changes)

    def fit(self, bags: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from bags and their candidate sets, one per bag; a bag without (None, a row of NaN) states nothing.

        ``sample_weight`` says how often every bag counts: whole numbers, 0 leaves it out.
        """
        self._check_settings()
        checked = self._training_bags(bags, y)
        if sample_weight is not None:
            return self.fit(*repeated_by_weight(bags, y, checked, sample_weight, type(self).__name__, _ONLY_WHOLE))
        sets = read_candidates(y, checked, keyed=isinstance(bags, Bags))
        self._remember(sets.classes, None)
        with_none(sets.classes)  # refuses a class of the name of the added one
        stating = checked if sets.observed.all() else checked[sets.observed]
        evidence = CandidateEvidence(augmented(sets.table[sets.observed], self.augment), stating.offsets)
        self.solver_ = self._solver(stating.n_instances, evidence.table.shape[1])
        self.variance_steps_ = self.variance_steps
        fit_candidates(self, checked, stating, evidence)
        warn_if_alike(self, stating)
        return self

    # ------------------------------------------------------------ answers

    def predict_proba(self, bags: Any) -> NDArray[np.float64]:
        """Probabilities of the classes of every bag, (B, q).

        Of "dirichlet" and "uniform" (7.6): the largest probability of the class among the bag's instances, as shares of
        one. Of "consistent": the posterior w of (7.10), all classes being candidates, at the instances' probabilities.
        """
        checked = self._check_bags(bags)
        theta = self._theta(checked)
        segments = Segments(torch.from_numpy(checked.offsets.copy()).to(theta.device))
        found: Tensor = self.rule_.probability(theta, segments)
        return found.cpu().numpy()

    def predict(self, bags: Any) -> NDArray[Any]:
        """The most probable class of every bag, (B,)."""
        probability = self.predict_proba(bags)
        return most_probable(self.classes_, probability)

    def predict_instance_proba(self, bags: Any) -> NDArray[np.float64]:
        """Probabilities of the classes of every instance, (N, q + 1), in the order of ``bags.X``.

        In the order of ``instance_classes_``; the last is "none of them", 0 throughout where ``augment`` is False.
        """
        theta = self._theta(self._check_bags(bags)).cpu().numpy()
        return theta if self.rule_.none else np.column_stack([theta, np.zeros(len(theta))])

    def predict_instances(self, bags: Any) -> NDArray[Any]:
        """The most probable class of every instance, or none of them, in the order of ``bags.X``."""
        return most_probable(self.instance_classes_, self.predict_instance_proba(bags))

    def predict_latent(self, bags: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and variance of the latent functions at every instance: (N, q + 1) each, (N, q) without ``augment``."""
        mean, variance = self._latent(self._check_bags(bags))
        return mean.cpu().numpy(), variance.cpu().numpy()

    def score(self, bags: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the bags whose predicted class is a candidate: with one class per bag, the accuracy.

        Bags that state nothing do not count.
        """
        given = as_bags(bags)
        sets = candidate_sets(y, given, keyed=isinstance(bags, Bags), classes=self.classes_)
        return candidate_score(sets.table, sets.observed, self.predict_proba(bags), sample_weight)

    @property
    def instance_classes_(self) -> NDArray[Any]:
        """The classes and, last, what an instance of none of them is called."""
        return with_none(self.classes_)

    @property
    def mean_(self) -> NDArray[np.float64]:
        """Posterior means of the constants of all latent functions, 0 without one."""
        bias = self.features_.bias
        mean = self.posterior_.mean.cpu().numpy()
        return bias * mean[-1] if bias > 0 else np.zeros(mean.shape[1])

    def fit_record(self) -> FitRecord:
        """How the fit went and what it found."""
        return super().fit_record()._replace(solver=self.solver_, mean=self.mean_)

    # ------------------------------------------------------------ steps of fit

    def _check_settings(self) -> None:
        check.check_option("disambiguation", self.disambiguation, DISAMBIGUATIONS)
        check.check_option("solver", self.solver, SOLVERS)
        check.check_option("approximation", self.approximation, APPROXIMATIONS)
        for name in ("augment", "learn", "ard", "at_least_one"):
            check.check_flag(name, getattr(self, name))
        for name in ("n_rounds", "n_steps", "rank", "n_probes"):
            check.check_count(name, getattr(self, name))
        if self.variance_steps is not None:
            check.check_count("variance_steps", self.variance_steps, least=0)
        check.check_count("learn_start", self.learn_start, least=0)
        check.check_below("alpha_eps", check.check_positive("alpha_eps", self.alpha_eps), 1.0)
        check.check_positive("tol", self.tol, zero=True)
        if self.disambiguation == "consistent" and not self.augment:
            raise BagDataError(
                "disambiguation='consistent' needs the class \"none of them\" for the other instances of a bag; "
                "use augment=True, or disambiguation='dirichlet'."
            )
        if self.disambiguation == "prior-mean" and self.bias == 0:
            raise BagDataError(
                "disambiguation='prior-mean' goes by the constants of the classes, and bias=0 leaves these out; use a "
                "bias above 0."
            )

    def _solver(self, n: int, C: int) -> str:
        """The solver to use for n instances of C classes; what would not fit into memory is refused at once."""
        device, dtype = check_device(self.device), check_dtype(self.dtype)
        chosen = usual_solver(n, device, dtype) if self.solver == "auto" else self.solver
        check_memory(chosen, Size(n, C, self.n_inducing, self.n_probes, bool(self.learn)), device, dtype)
        return chosen

    def _rule(self) -> ClassRule:
        kind = OneClassInBag if self.disambiguation == "consistent" else StrongestInstance
        return kind(bool(self.augment))

    def _disambiguation(self) -> Disambiguation:
        kept = bool(self.at_least_one and self.augment)
        first_rounds = max(FIRST_ROUNDS, self.n_rounds // 2)
        return Disambiguation(self.disambiguation, float(self.alpha_eps), kept, first_rounds)

    def _learns(self) -> bool:
        """Targets that stay as they are teach the kernel nothing, unless it shall learn from the first round."""
        return bool(self.learn) and (self.disambiguation != "uniform" or self.learn_start == 0)

    # ------------------------------------------------------------ helpers

    def _n_functions(self) -> int:
        return len(self.classes_) + bool(self.rule_.none)

    def _has_sound_classes(self) -> bool:
        return self.classes_.ndim == 1 and len(set(self.classes_.tolist())) == len(self.classes_) >= 2

    def _latent(self, bags: Bags) -> tuple[Tensor, Tensor]:
        if isinstance(self.posterior_, ExactPosterior):
            return exact_moments(self.features_, self.posterior_, bags, self.variance_steps_)
        parts = [self.posterior_.moments(design.phi, design.kappa) for _, design in self.features_.designs(bags)]
        mean, variance = (torch.cat(values) for values in zip(*parts, strict=True))
        return mean, variance

    def _theta(self, bags: Bags) -> Tensor:
        """(7.5), (N, C)."""
        return class_probability(*self._latent(bags), self.seed_)
