"""The group statistics model of Kück & de Freitas: a sparse kernel machine with Bayesian selection of its kernels."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bagwise import _validation as check
from bagwise.bag_models.counts import ProbitCounts
from bagwise.bag_models.rules import AtLeastOne
from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.reading import CountReading, read_counts
from bagwise.evidence.weights import repeated_by_weight
from bagwise.exceptions import BagDataError
from bagwise.gp.features import Features, make_features
from bagwise.inference.chains.kernel_machine import Z_UPDATES, KernelMachine, Prior
from bagwise.inference.loop import Callback
from bagwise.inference.places import chunks_of
from bagwise.models._base.chain_answers import ChainAnswers
from bagwise.models._base.chains import ChainSettings, features_to_sample, sample
from bagwise.models._base.count_answers import KINDS, CountAnswers
from bagwise.models._base.documented import documented
from bagwise.models._base.estimator import ModelCard, check_device, check_dtype
from bagwise.models._base.learned_nothing import warn_if_alike

LARGEST_DICTIONARY = 2**25  # bytes of an N × N matrix up to which every instance is a centre: 2,048 instances
MANY_CENTRES = 500  # beyond
_PUBLISHED: dict[str, Any] = {
    "evidence": "fraction",
    "confidence": 1000.0,
    "kernel": "rbf",
    "lengthscale": None,
    "n_centres": None,
    "a": 1.0,
    "b": 1.0,
    "mu": 1.0,
    "nu": 1.0,
    "n_chains": 1,
    "n_samples": 1000,
    "n_burn_in": 1000,
    "thin": 1,
    "n_moves": 10,
    "z_update": "random-walk",
    "constant": False,
    "scale_step": False,
    "standardize": False,
}
_ONLY_WHOLE = "a sampler draws the instances of whole groups"


@documented
class GroupKernelMachine(ChainAnswers, CountAnswers):
    """Sparse kernel machine for instances, learned from the fraction of positives in every group, by MCMC.

    f(x) = Σ β_j K(x, c_j) over a few active centres c_j, P(positive) = cdf(f). Which centres are active, how many,
    their weights and the scale δ² of the weights are all sampled; answers are averages over the draws. Far from every
    active centre a local kernel gives f = 0, one half, unless ``constant=True``. The kernel itself is not learned:
    ``lengthscale`` is worth a search. ``GroupKernelMachine.published()`` is the setting of the paper.

    It takes no weights of rows: its sampler draws a latent value for every single individual, so a row cannot stand for
    many. It has no effect of the group either, which the published model does not know: where the individuals of a
    group have more in common than their features tell, its ranges are too narrow. For both use ``BagGP``.

    Parameters
    ----------
    confidence : float or array of shape (B,)
        χ of the paper, how far fractions are trusted: a fraction weighs as much as so many counted instances. Decrease
        it where fractions are estimates; one number per group gives each group its own, and 0 says that nothing is
        known. Fractions of 0 and 1 are certain under any other confidence.
    kernel : str or gpytorch kernel
        The columns of the machine: "rbf" (as published, where σ means a lengthscale of 1/√(2σ)), "exponential",
        "matern32", "matern52", "linear", "rbf+linear", "sigmoid" (tanh(x·x'/ℓ² + 1)), or any gpytorch kernel. It is not
        learned: compare several.
    lengthscale : float or None
        Lengthscale of a kernel given by name, in units of the standardised features. None takes √D for D features.
        It is not learned: search over it by cross-validation.
    n_centres : int or None
        How many centres to choose from. None takes every distinct instance while an N × N matrix needs at most 32 MB
        (2,048 instances), and 500 beyond. Increase it where the function has fine structure; sweeps then take longer.
    centres : {"kmeans++", "random"} or array of shape (M, D)
        How the centres are chosen: cluster centres of the instances, a random choice of instances, or the rows that are
        given here, in the units of the data. Give an array where you know which regions matter.
    a : float
        First parameter of the Beta prior on the share of active centres. With a = b = 1 every number of active centres
        is equally probable; increase it for more of them.
    b : float
        Second parameter of the Beta prior on the share of active centres. Increase it for fewer of them.
    mu : float
        Shape of the inverse Gamma(mu/2, nu/2) prior on the scale δ² of the weights. Increase it to hold δ² closer to
        nu/mu.
    nu : float
        Scale of the inverse Gamma(mu/2, nu/2) prior on δ². Increase it to allow larger weights.
    thin : int
        Keep the draws of every so many sweeps for predictions; more are skipped where over 4,000 would be kept.
        ``diagnostics_`` see all sweeps. Increase it to save memory.
    z_update : {"exact", "random-walk"}
        How the latent values of a group are drawn: "exact" draws whole groups at once, "random-walk" moves them as
        published. Use "random-walk" only to reproduce the paper: it mixes more slowly.
    n_moves : int
        Number of proposed births, deaths and swaps of centres in every sweep. Increase it if the number of active
        centres mixes slowly.
    constant : bool
        Let a constant be one of the centres; False as published. Use True where positives are rare or frequent
        everywhere.
    jitter : float or None
        ε of the prior precision (Ψ'Ψ + ε I)/δ² of the weights, relative to its mean diagonal. None takes a usual value
        (1e-6; with float32 1e-4). Increase it if ``fit`` says that a matrix cannot be factored.

    Attributes
    ----------
    inclusion_ : ndarray of shape (M,) or (M, K)
        Posterior probability of every centre to be active (the constant, if there is one, last).
    centres_ : ndarray of shape (M, D)
        The centres, in the units of the data.
    n_active_ : float or ndarray of shape (K,)
        Expected number of active centres.
    log_evidence_ : None
        Chains give no log evidence.
    trace_ : Trace
        Mean log likelihood in every sweep, and whether the chains have mixed.
    """

    card = ModelCard(
        "group-kernel-machine",
        ("fraction", "label", "count", "known"),
        "Kück & de Freitas, Learning about Individuals from Group Statistics",
    )

    def __init__(
        self,
        evidence: str = "fraction",
        confidence: Any = 1000.0,
        kernel: Any = "rbf",
        n_centres: int | None = None,
        a: float = 1.0,
        b: float = 1.0,
        mu: float = 1.0,
        nu: float = 1.0,
        n_chains: int = 4,
        n_samples: int = 1000,
        n_burn_in: int = 1000,
        thin: int = 1,
        z_update: str = "exact",
        *,
        n_moves: int = 10,
        constant: bool = False,
        centres: Any = "kmeans++",
        scale_step: bool = True,
        warm_start: bool = False,
        checkpoint: Any = None,
        lengthscale: float | None = None,
        standardize: bool = True,
        jitter: float | None = None,
        device: str = "cpu",
        dtype: str = "float64",
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.evidence = evidence
        self.confidence = confidence
        self.kernel = kernel
        self.n_centres = n_centres
        self.a = a
        self.b = b
        self.mu = mu
        self.nu = nu
        self.n_chains = n_chains
        self.n_samples = n_samples
        self.n_burn_in = n_burn_in
        self.thin = thin
        self.z_update = z_update
        self.n_moves = n_moves
        self.constant = constant
        self.centres = centres
        self.scale_step = scale_step
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.lengthscale = lengthscale
        self.standardize = standardize
        self.jitter = jitter
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @classmethod
    def published(cls, **changes: Any) -> Self:
        """The setting of Kück & de Freitas, with ``changes`` to it.

        Section 5.1: Gaussian kernel, a = b = μ = ν = 1, χ = 1000, one chain of 1,000 sweeps after 1,000 (section 5.2:
        10,000 after 10,000, ``kernel="sigmoid"``). (3): every instance is a centre, and there is no constant. Section
        4: a random walk over the latent values of a group. The paper gives neither σ of the kernel nor the number of
        moves per sweep, nor says whether features were standardised: here they are not, the lengthscale is the size of
        their spread, and there are 10 moves. Beyond 2,048 instances 500 centres stand in for all
        (``n_centres=len(bags.X)`` takes all). The law of δ² is the corrected one (8.3), the prior of the weights has a
        small jitter (8.4).
        """
        return cls(**_PUBLISHED | changes)

    def fit(self, bags: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from groups and what is known of each, one entry (or row) of ``y`` per group, NaN where nothing is.

        ``sample_weight`` says how often every group counts: whole numbers, 0 leaves it out.
        """
        self._check_settings()
        checked = self._training_bags(bags, y)
        if sample_weight is not None:
            return self.fit(*repeated_by_weight(bags, y, checked, sample_weight, type(self).__name__, _ONLY_WHOLE))
        counts = read_counts(y, checked, bags, CountReading(self.evidence, self.confidence, may_doubt=True))
        self._remember(counts.classes, counts.names)
        return self._fit_chains(checked, counts.evidence)

    @property
    def inclusion_(self) -> NDArray[np.float64]:
        """Share of the draws in which each centre is active: (M,), or (M, K) for K labels."""
        shares: NDArray[np.float64] = (self.posterior_.weights != 0).double().mean((1, 2)).T.cpu().numpy()
        return shares if self._several() else shares[:, 0]

    @property
    def n_active_(self) -> Any:
        """Expected number of active centres; one value per label."""
        expected = self.inclusion_.sum(0)
        return expected if self._several() else float(expected)

    @property
    def centres_(self) -> NDArray[np.float64]:
        """(M, D) the centres, in the units of the data."""
        features = self.features_
        centres: NDArray[np.float64] = (features.inducing.double() * features.scale + features.shift).cpu().numpy()
        return centres

    # ------------------------------------------------------------ steps of fit

    def _check_settings(self) -> None:
        check.check_option("evidence", self.evidence, KINDS)
        check.check_option("z_update", self.z_update, tuple(Z_UPDATES))
        check.check_flag("constant", self.constant)
        check.check_count("n_moves", self.n_moves)
        for name in ("a", "b", "mu", "nu"):
            check.check_positive(name, getattr(self, name))
        self._chain_settings()
        if self.checkpoint is not None and self.z_update == "random-walk":
            raise BagDataError("checkpoint: the random walk keeps more than the weights; use z_update='exact'.")

    def _chain_settings(self) -> ChainSettings:
        return ChainSettings.of(self, check.check_count("thin", self.thin))

    def _n_centres(self, bags: Bags) -> int | None:
        """None for every distinct instance."""
        if self.n_centres is not None:
            return check.check_count("n_centres", self.n_centres)
        return None if 8 * bags.n_instances**2 <= LARGEST_DICTIONARY else MANY_CENTRES

    def _columns_of_kernels(self, bags: Bags) -> Features:
        """The columns K(x, c_j), not whitened."""
        random = check.random_stream(self.random_state)
        features = make_features(
            bags,
            kernel=self.kernel,
            lengthscale=self.lengthscale,
            bias=float(self.constant),
            n_inducing=self._n_centres(bags),
            inducing=self.centres,
            standardize=self.standardize,
            jitter=self.jitter,
            device=check_device(self.device),
            dtype=check_dtype(self.dtype),
            random=random,
            whitened=False,
        )
        self.seed_ = int(random.randint(2**31 - 1))
        return features

    def _fit_chains(self, bags: Bags, evidence: CountEvidence) -> Self:
        settings = self._chain_settings()
        features = features_to_sample(self, settings, lambda: self._columns_of_kernels(bags))
        machine = self._machine(features, bags, evidence, settings)
        how = (*self._prior(features), self.n_moves, self.z_update)
        posterior, trace = sample(self, settings, machine, features, bags, evidence, how)
        self._finish(features, posterior, AtLeastOne(), trace, None)
        if evidence.observed().any():
            warn_if_alike(self, bags)
        return self

    def _prior(self, features: Features) -> Prior:
        return Prior(self.a, self.b, self.mu, self.nu, features.jitter)

    def _machine(
        self, features: Features, bags: Bags, evidence: CountEvidence, settings: ChainSettings
    ) -> KernelMachine:
        return KernelMachine(
            chunks_of(features, bags, ProbitCounts(evidence)),
            torch.as_tensor(evidence.observed(), device=features.device),
            n_rows=bags.n_instances,
            n_chains=settings.length.n_chains,
            seed=self.seed_,
            prior=self._prior(features),
            n_moves=self.n_moves,
            z_update=self.z_update,
            rescale=settings.scale_step,
        )
