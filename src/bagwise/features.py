"""Inducing inputs and whitened features φ(x) = L⁻¹ k(Z, x), κ(x) = k(x, x) − |φ(x)|² (models section 0.1)."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from bagwise import _validation as check
from bagwise import kernels
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.linalg import DEFAULT_JITTER, cholesky, whiten
from bagwise.special import Segments

SELECTIONS = ("kmeans++", "random")
_CHUNK_ROWS = {"cpu": 8192, "cuda": 131072}
_KMEANS_ROWS = 10_000
_KMEANS_ITERATIONS = 50


class Design(NamedTuple):
    """What a chunk of whole bags looks like to every model: features, leftover variances, where the bags lie."""

    phi: Tensor
    kappa: Tensor
    segments: Segments


@dataclass(frozen=True)
class Features:
    """The feature map of a fitted model: plain arrays and a kernel, never changed after ``make_features``."""

    kernel: Any
    inducing: Tensor  # (R, D), in standardised units
    lower: Tensor  # Cholesky factor of k(Z, Z) + jitter
    shift: Tensor  # (D,) subtracted from every row …
    scale: Tensor  # (D,) … which is then divided by this
    bias: float  # prior standard deviation of the constant; its column stands last, absent when 0
    jitter: float  # relative jitter that k(Z, Z) needed
    origin: str  # where the inducing inputs come from

    @property
    def n_inducing(self) -> int:
        """Number of inducing inputs really used."""
        return len(self.inducing)

    @property
    def n_columns(self) -> int:
        """Number of features: the inducing inputs and, if there is one, the bias."""
        return self.n_inducing + (self.bias > 0)

    def to(self, device: torch.device) -> "Features":
        """The same map on another device."""
        moved = {name: getattr(self, name).to(device) for name in ("inducing", "lower", "shift", "scale")}
        return Features(self.kernel.to(device), **moved, bias=self.bias, jitter=self.jitter, origin=self.origin)

    def transform(self, bags: Bags) -> tuple[NDArray[Any], NDArray[Any]]:
        """Whitened features (N, R) and conditional variances (N,) of every instance."""
        designs = [design for _, design in self.designs(bags)]
        phi = torch.cat([design.phi for design in designs])
        kappa = torch.cat([design.kappa for design in designs])
        return phi.cpu().numpy(), kappa.cpu().numpy()

    def designs(self, bags: Bags) -> Iterator[tuple[slice, Design]]:
        """The features of the bags, a bounded number of rows at a time, with the bags each part holds."""
        with torch.no_grad():
            inverse = self._inverse()
            for part in bag_slices(bags.offsets, _CHUNK_ROWS[self.inducing.device.type]):
                some = bags[part]
                segments = Segments(torch.from_numpy(some.offsets.copy()).to(self.inducing.device))
                yield part, Design(*self._rows(some.X, inverse), segments)

    def _inverse(self) -> Tensor:
        # One product with L⁻¹ is faster than a triangular solve per chunk; L has condition 1/√jitter at most.
        eye = torch.eye(self.n_inducing, dtype=self.lower.dtype, device=self.lower.device)
        return whiten(self.lower, eye)

    def _rows(self, X: Any, inverse: Tensor) -> tuple[Tensor, Tensor]:
        x = _standardised(X, self.shift, self.scale)
        phi = torch.empty(len(x), self.n_columns, dtype=x.dtype, device=x.device)
        phi[:, : self.n_inducing] = kernels.cross(self.kernel, x, self.inducing) @ inverse.T
        own = phi[:, : self.n_inducing]
        kappa = kernels.diagonal(self.kernel, x) - torch.linalg.vecdot(own, own)
        if self.bias > 0:
            phi[:, -1] = self.bias
        return phi, kappa.clamp(min=0.0)


def make_features(
    bags: Bags,
    *,
    kernel: Any,
    lengthscale: float | None,
    bias: float,
    n_inducing: int | None,
    inducing: Any,
    standardize: bool,
    jitter: float | None,
    device: torch.device,
    dtype: torch.dtype,
    random: np.random.RandomState,
) -> Features:
    """Choose scale, inducing inputs and factorisation for some training bags."""
    shift, scale = column_moments(bags.X) if standardize else (np.zeros(bags.n_features), np.ones(bags.n_features))
    moments = [torch.as_tensor(value, dtype=dtype, device=device) for value in (shift, scale)]
    rows, origin = _inducing_rows(bags, n_inducing, inducing, moments, random)
    made = kernels.make_kernel(kernel, bags.n_features, lengthscale, dtype).to(device)
    return assemble(made, rows, moments[0], moments[1], bias=bias, jitter=jitter, origin=origin)


def assemble(
    kernel: Any, inducing: Tensor, shift: Tensor, scale: Tensor, *, bias: float, jitter: float | None, origin: str
) -> Features:
    """Features from their parts; factors k(Z, Z)."""
    with torch.no_grad():
        gram = kernels.cross(kernel, inducing, inducing)
    relative = DEFAULT_JITTER[inducing.dtype] if jitter is None else check.check_positive("jitter", jitter, zero=True)
    factor = cholesky(gram, relative, "kernel matrix of the inducing inputs")
    bias = check.check_positive("bias", bias, zero=True)
    return Features(kernel, inducing, factor.lower, shift, scale, bias, factor.jitter, origin)


def column_moments(X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean and standard deviation of every column (1 for a constant one), a bounded number of rows at a time."""
    if scipy.sparse.issparse(X):
        scaler = StandardScaler(with_mean=False).fit(X)
        return np.asarray(X.mean(axis=0)).ravel(), scaler.scale_
    scaler = StandardScaler()
    for start in range(0, X.shape[0], _CHUNK_ROWS["cpu"]):
        scaler.partial_fit(X[start : start + _CHUNK_ROWS["cpu"]])
    return scaler.mean_, scaler.scale_


def bag_slices(offsets: NDArray[np.int64], rows: int) -> Iterator[slice]:
    """Runs of whole bags of about ``rows`` instances (more only where a single bag is larger)."""
    marks = np.arange(rows, offsets[-1], rows)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(offsets, marks), [len(offsets) - 1]]))
    for start, stop in itertools.pairwise(cuts):
        yield slice(int(start), int(stop))


def _standardised(X: Any, shift: Tensor, scale: Tensor) -> Tensor:
    dense = X.toarray() if scipy.sparse.issparse(X) else np.array(X)  # a writable copy of this chunk only
    return torch.from_numpy(dense).to(dtype=shift.dtype, device=shift.device).sub_(shift).div_(scale)


def _inducing_rows(
    bags: Bags, n_inducing: int | None, inducing: Any, moments: list[Tensor], random: np.random.RandomState
) -> tuple[Tensor, str]:
    if not isinstance(inducing, str):
        given = check.feature_matrix(inducing)[0]
        if given.shape[1] != bags.n_features or given.shape[0] == 0:
            raise BagDataError(f"inducing: expected an (R, {bags.n_features}) array, got shape {given.shape}.")
        check.check_finite(given, ["inducing"], np.zeros(len(given), dtype=int), np.arange(len(given)), None)
        return _standardised(given, *moments), "given"
    check.check_option("inducing", inducing, SELECTIONS)
    wanted = bags.n_instances if n_inducing is None else check.check_count("n_inducing", n_inducing)
    rows = np.arange(bags.n_instances)
    if wanted < bags.n_instances:
        rows = np.sort(random.choice(bags.n_instances, min(bags.n_instances, max(_KMEANS_ROWS, 20 * wanted)), False))
    pool = _distinct(_standardised(bags.X[rows], *moments).cpu().numpy())
    if len(pool) <= wanted:
        chosen, origin = pool, f"all {len(pool)} distinct instances"
    else:
        chosen, origin = _select(pool, wanted, inducing, random), inducing
    return torch.as_tensor(chosen, dtype=moments[0].dtype, device=moments[0].device), origin


def _distinct(rows: NDArray[Any]) -> NDArray[Any]:
    """The rows without repetitions, in their order: a repeated inducing input would make k(Z, Z) singular."""
    return rows[np.sort(np.unique(rows, axis=0, return_index=True)[1])]


def _select(pool: NDArray[Any], wanted: int, how: str, random: np.random.RandomState) -> NDArray[Any]:
    if how == "random":
        return pool[np.sort(random.choice(len(pool), wanted, replace=False))]
    seeds, _ = kmeans_plusplus(pool, wanted, random_state=random)
    centres: NDArray[Any] = KMeans(wanted, init=seeds, n_init=1, max_iter=_KMEANS_ITERATIONS).fit(pool).cluster_centers_
    return centres
