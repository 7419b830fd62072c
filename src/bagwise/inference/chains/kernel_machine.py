"""Sampling the sparse kernel machine: which kernels, their weights, their scale, the latent values (theory section 8).

f(x) = Σ_j β_j K(x, c_j) over the active columns, β | γ, δ² ~ N(0, δ² P_gg⁻¹), δ² ~ IG(μ/2, ν/2), z = f + N(0, I). In
every sweep are drawn

    z  given β          exactly, whole bags at once, as in section 3.3, or by the printed random walk
    z ← s z             the scale step, β integrated out: s² ~ Gamma(N/2, rate (|z|² − cᵀA⁻¹c)/2)                (3.3)
    γ  given z, δ²      moves of ``kernel_selection``, β integrated out
    β  given γ, z, δ²   N(A⁻¹c, A⁻¹),  A = H_gg + P_gg/δ²                                                        (8.5)
    δ² given β          IG((μ + k)/2, (ν + βᵀP_gg β)/2); k, where the paper prints k + 1                         (8.3)

Instances of which nothing is known count in P, the prior, but their z is integrated out and they have no part in H.
Chains are columns and random numbers belong to sweeps as in ``gibbs``. The state of a chain is β and δ²; a column is
active where β is not 0.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrs, dtrtrs
from torch import Tensor

from bagwise.exceptions import NumericalError
from bagwise.gp.posterior import SparseSamplePosterior
from bagwise.inference.chains.birth_death import Dictionary, KernelSelection, cholesky_of
from bagwise.inference.chains.gibbs import Randomness, Sweep, block_step, prepare_step
from bagwise.inference.chains.random_walk import random_walk_step
from bagwise.inference.chunks import Chunk, Chunks, Step, Sums
from bagwise.inference.loop import Report
from bagwise.inference.mean_field import patterns_of

Z_UPDATES: dict[str, Step] = {"exact": block_step, "random-walk": random_walk_step}
LARGEST_DELTA2 = 1e6  # the prior of δ² ends here: beyond, A and H could not be told apart in double precision
_FIRST_ACTIVE = 10  # at most so many columns are active at the start

Floats = NDArray[np.float64]


class Prior(NamedTuple):
    """Beta(a, b) on the share of active columns, inverse Gamma(mu/2, nu/2) on δ², and the jitter ε over mean diag G."""

    a: float = 1.0
    b: float = 1.0
    mu: float = 1.0
    nu: float = 1.0
    jitter: float = 1e-6


USUAL_PRIOR = Prior()


def whole_gram_step(chunk: Chunk, remembered: object, shared: None) -> tuple[Sums, object]:
    """Ψᵀ Ψ over all instances, those of bags that state nothing included."""
    return {"gram": chunk.design.phi.T @ chunk.design.phi}, remembered


class KernelMachine:
    """The state of all chains after ``done`` sweeps, and what the last sweep saw."""

    names: tuple[str, ...] = ("log_likelihood", "n_active", "log_delta2")

    def __init__(
        self,
        chunks: Chunks,
        observed: Tensor,
        *,
        n_rows: int,
        n_chains: int = 4,
        seed: int = 0,
        prior: Prior = USUAL_PRIOR,
        n_moves: int = 10,
        z_update: str = "exact",
        rescale: bool = True,
    ) -> None:
        patterns = patterns_of(observed)
        sums = chunks.sweep(prepare_step, (patterns, n_chains))
        whole = with_jitter(chunks.sweep(whole_gram_step, None)["gram"].cpu().numpy(), prior.jitter)
        dictionaries = [Dictionary(gram, whole, prior.a, prior.b) for gram in sums["gram"].cpu().numpy()]
        pattern = patterns.of_column.repeat_interleave(n_chains).tolist()
        self._chunks, self._step = chunks, Z_UPDATES[z_update]
        self._prior, self._n_moves = prior, n_moves
        self._rescale = rescale and z_update == "exact"  # the random walk needs the z it left behind
        self._half_rows = [0.5 * int(sums["rows"][number]) for number in pattern]
        self._random = Randomness(seed, n_rows, (len(whole), len(pattern)), observed.device)
        self.selections = [KernelSelection(dictionaries[number]) for number in pattern]
        self.n_chains, self.done = n_chains, 0
        self._set_state(*self._start())
        self.seen, self.means, self._seen_delta2 = self.weights, torch.zeros_like(self.weights), self.delta2
        self.log_likelihood = torch.zeros(len(pattern), dtype=torch.float64, device=observed.device)
        self.accepted = 0.0  # share of the moves of the last sweep

    # ------------------------------------------------------------ one sweep

    def sweep(self) -> Report:
        """z, γ, β, δ². Afterwards ``seen`` is the β that the sweep began with, ``log_likelihood`` (S,) is
        log P(evidence | seen), ``means`` the expectation of the new β, and ``state`` the new β and δ²."""
        stream = self._random.generator(self.done + 1)
        sums = self._chunks.sweep(self._step, Sweep(self.weights, *self._random.uniforms(stream)))
        self.seen, self._seen_delta2, self.log_likelihood = self.weights, self.delta2, sums["log_likelihood"]
        pull, square = sums["pull"].T.cpu().numpy(), sums["square"].tolist()
        active = (self.weights != 0).T.cpu().numpy()
        weights, means = np.zeros((2, *pull.shape))
        delta2, accepted = np.empty(len(pull)), 0
        for chain, selection in enumerate(self.selections):
            selection.activate(active[chain])  # in an order that does not depend on the past
            selection.refresh(float(self.delta2[chain]), pull[chain])
            if self._rescale and self._half_rows[chain] > 0:
                selection.rescale(self._scale(chain, square[chain], stream))
            accepted += selection.move(stream.random((self._n_moves, 4)))
            beta, mean, energy = draw_weights(selection, float(self.delta2[chain]), stream)
            delta2[chain] = self._draw_delta2(selection.count, energy, stream)
            weights[chain, selection.active], means[chain, selection.active] = beta, mean
        self._set_state(weights.T, delta2)
        self.means = torch.from_numpy(means.T).to(self.weights)
        self.accepted = accepted / (self._n_moves * len(pull))
        self.done += 1
        return Report(float(self.log_likelihood.sum()) / self.n_chains, 1.0)

    def _scale(self, chain: int, square: float, stream: np.random.Generator) -> float:
        drawn = float(stream.standard_gamma(self._half_rows[chain]))
        return math.sqrt(2.0 * drawn / (square - self.selections[chain].explained()))

    def _draw_delta2(self, count: int, energy: float, stream: np.random.Generator) -> float:
        """(8.3), by rejection of what lies beyond the end of the prior."""
        rate = 0.5 * (self._prior.nu + energy)
        while True:
            drawn = float(stream.standard_gamma(self._delta2_shape(count)))
            if rate <= LARGEST_DELTA2 * drawn:
                return rate / drawn

    def _delta2_shape(self, count: int) -> float:
        return 0.5 * (self._prior.mu + count)

    # ------------------------------------------------------------ the state

    def _start(self) -> tuple[Floats, Floats]:
        """A few random kernels with weights from their prior: starts that differ, so that R-hat can see it."""
        stream, size = self._random.generator(0), len(self.selections[0].order)
        weights, delta2 = np.zeros((size, len(self.selections))), np.exp(stream.standard_normal(len(self.selections)))
        for chain, selection in enumerate(self.selections):
            count = int(stream.integers(1, min(_FIRST_ACTIVE, size), endpoint=True))
            selection.activate(stream.permutation(size) < count)
            prior = selection.grams()[1]
            weights[selection.active, chain] = correlated(cholesky_of(prior), stream) * math.sqrt(delta2[chain])
        return weights, delta2

    def _set_state(self, weights: Floats, delta2: Floats) -> None:
        self.weights = torch.from_numpy(np.ascontiguousarray(weights)).to(self._random.device)
        self.delta2 = delta2

    @property
    def state(self) -> Tensor:
        """All that the next sweep needs, (M + 1, S): β, and δ² last."""
        return torch.cat([self.weights, torch.from_numpy(self.delta2).to(self.weights)[None]])

    def resume(self, state: Tensor, done: int) -> None:
        """Go on from β and δ² after ``done`` sweeps."""
        if state.shape != self.state.shape or not bool(torch.isfinite(state).all()):
            raise NumericalError(f"cannot go on from a state of shape {tuple(state.shape)} that is not all finite.")
        values = state.cpu().numpy()
        self._set_state(values[:-1].copy(), values[-1].copy())
        self.done = done

    def watched(self) -> Tensor:
        """(3, S) the quantities in ``names``, of ``seen``."""
        log_delta2 = torch.from_numpy(np.log(self._seen_delta2)).to(self.seen)
        return torch.stack([self.log_likelihood, (self.seen != 0).sum(0).to(self.seen.dtype), log_delta2])

    def posterior(self, weights: Tensor, means: Tensor) -> SparseSamplePosterior:
        """From β and its expectation in many sweeps, each (K, chains, draws, M)."""
        return SparseSamplePosterior.from_dense(weights, means)

    def fingerprint(self) -> bytes:
        """Equal for equal Gram matrices and starts; the start holds the seed."""
        grams = {id(selection.dictionary): selection.dictionary for selection in self.selections}
        parts = [part for dictionary in grams.values() for part in (dictionary.likelihood, dictionary.prior)]
        return b"".join(part.tobytes() for part in (*parts, self.state.cpu().numpy()))


def draw_weights(
    selection: KernelSelection, delta2: float, stream: np.random.Generator
) -> tuple[Floats, Floats, float]:
    """β and its expectation over the active columns, and βᵀ P_gg β: (8.5)."""
    if selection.count == 0:
        return np.zeros(0), np.zeros(0), 0.0
    likelihood, prior = selection.grams()
    lower = cholesky_of(likelihood + prior / delta2)
    mean = dpotrs(lower, selection.active_pull, lower=1)[0]
    beta = mean + correlated(lower, stream)
    return beta, mean, float(beta @ prior @ beta)


def correlated(lower: Floats, stream: np.random.Generator) -> Floats:
    """L⁻ᵀ n, n standard normal."""
    drawn: Floats = dtrtrs(lower, stream.standard_normal(len(lower)), lower=1, trans=1)[0]
    return drawn


def with_jitter(gram: Floats, jitter: float) -> Floats:
    """P = G + ε I, ε relative to the mean diagonal (8.4)."""
    size = float(gram.diagonal().mean())
    jittered: Floats = gram + jitter * (size if size > 0 else 1.0) * np.eye(len(gram))
    return jittered
