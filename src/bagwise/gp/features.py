"""Inducing inputs and whitened features φ(x) = L⁻¹ k(Z, x), κ(x) = k(x, x) − |φ(x)|² (theory section 0.1)."""

import copy
import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from bagwise import _validation as check
from bagwise.bags import Bags, as_bags
from bagwise.exceptions import BagDataError
from bagwise.gp import kernels
from bagwise.numerics.linalg import DEFAULT_JITTER, cholesky, settled, whiten
from bagwise.numerics.segments import Segments

SELECTIONS = ("kmeans++", "random")
_CHUNK_ROWS = {"cpu": 8192, "cuda": 131072}
_CHUNK_ENTRIES = {"cpu": 2**24, "cuda": 2**28}  # of dense rows at a time, where there are very many columns
_LARGEST_POOL = 2**27  # entries of sparse rows made dense to choose inducing inputs from: 1 GB
_KMEANS_ROWS = 10_000
_KMEANS_ITERATIONS = 50
_TENSORS = ("inducing", "lower", "shift", "scale")


class Design(NamedTuple):
    """What a chunk of whole bags looks like to every model: features, leftover variances, where the bags lie."""

    phi: Tensor
    kappa: Tensor
    segments: Segments


@dataclass(frozen=True)
class Features:
    """The feature map of a fitted model: plain arrays and a kernel, never changed after ``make_features``."""

    kernel: Any
    inducing: Tensor  # (R, D), in standardised units; its type and device are those of the features
    lower: Tensor | None  # Cholesky factor of k(Z, Z) + jitter; None: φ(x) = k(x, Z) itself and κ = 0 (theory 8.1)
    shift: Tensor  # (D,) subtracted from every row …
    scale: Tensor  # (D,) … which is then divided by this, both in double precision, before any rounding to float32
    bias: float  # prior standard deviation of the constant; its column stands last, absent when 0
    jitter: float  # relative jitter that k(Z, Z) needed
    origin: str  # where the inducing inputs come from

    def __post_init__(self) -> None:
        for name, value in self.tensors().items():
            object.__setattr__(self, name, settled(value))

    @property
    def dtype(self) -> torch.dtype:
        """Floating point type of the features."""
        return self.inducing.dtype

    @property
    def device(self) -> torch.device:
        """Where the features are computed."""
        return self.inducing.device

    @property
    def n_inducing(self) -> int:
        """Number of inducing inputs really used."""
        return len(self.inducing)

    @property
    def n_columns(self) -> int:
        """Number of features: the inducing inputs and, if there is one, the bias."""
        return self.n_inducing + (self.bias > 0)

    def tensors(self) -> dict[str, Tensor]:
        """Its arrays by name."""
        named = {name: getattr(self, name) for name in _TENSORS}
        return {name: value for name, value in named.items() if value is not None}

    def to(self, device: torch.device) -> "Features":
        """The same map on another device."""
        moved: dict[str, Any] = {name: value.to(device) for name, value in self.tensors().items()}
        return replace(self, kernel=copy.deepcopy(self.kernel).to(device), **moved)

    def transform(self, bags: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Whitened features (N, R) and conditional variances (N,) of every instance."""
        given = as_bags(bags)
        if given.n_features != len(self.shift):
            raise BagDataError(f"expected bags with {len(self.shift)} features, as in fit, got {given.n_features}.")
        designs = [design for _, design in self.designs(given)]
        phi = torch.cat([design.phi for design in designs])
        kappa = torch.cat([design.kappa for design in designs])
        return phi.cpu().numpy(), kappa.cpu().numpy()

    def designs(self, bags: Bags) -> Iterator[tuple[slice, Design]]:
        """The features of the bags, a bounded number of rows at a time, with the bags each part holds."""
        inverse = self._inverse()
        for part in bag_slices(bags.offsets, _rows_at_once(self.device, bags.n_features)):
            some = bags[part]
            segments = Segments(torch.from_numpy(some.offsets.copy()).to(self.device))
            yield part, Design(*self._rows(some.X, inverse), segments)

    def _inverse(self) -> Tensor | None:
        # One product with L⁻¹ is faster than a triangular solve per chunk; L has condition 1/√jitter at most.
        if self.lower is None:
            return None
        eye = torch.eye(self.n_inducing, dtype=self.lower.dtype, device=self.lower.device)
        return whiten(self.lower, eye)

    def standardised(self, X: Any) -> Tensor:
        """Rows as the kernel sees them."""
        return standardised_rows(X, self.shift, self.scale).to(self.dtype)

    def _rows(self, X: Any, inverse: Tensor | None) -> tuple[Tensor, Tensor]:
        """φ and κ of some rows, filled in block by block: a kernel needs several times the memory of its result."""
        phi = torch.empty(X.shape[0], self.n_columns, dtype=self.dtype, device=self.device)
        kappa = torch.empty(X.shape[0], dtype=self.dtype, device=self.device)
        block = max(1, _CHUNK_ROWS[self.device.type] // 4)
        for start in range(0, X.shape[0], block):
            rows = slice(start, start + block)
            self._fill(self._against_inducing(X[rows]), inverse, phi[rows], kappa[rows])
        return phi, kappa

    def of_standardised(self, x: Tensor) -> Tensor:
        """φ of rows that are standardised already, (n, R)."""
        phi = torch.empty(len(x), self.n_columns, dtype=self.dtype, device=self.device)
        kappa = torch.empty(len(x), dtype=self.dtype, device=self.device)
        self._fill(self._products(x), self._inverse(), phi, kappa)
        return phi

    @torch.no_grad()
    def _against_inducing(self, X: Any) -> tuple[Tensor, Tensor]:
        """k(x, Z) and k(x, x) of some rows; sparse rows under a linear kernel stay sparse."""
        scale = kernels.linear_variance(self.kernel) if scipy.sparse.issparse(X) else None
        if scale is None:
            return self._products(self.standardised(X))
        parts = _sparse_products(X, self.inducing, self.shift, self.scale)
        cross, squares = (scale * torch.as_tensor(part, dtype=self.dtype, device=self.device) for part in parts)
        return cross, squares

    @torch.no_grad()
    def _products(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return kernels.cross(self.kernel, x, self.inducing), kernels.diagonal(self.kernel, x)

    @torch.no_grad()
    def _fill(self, seen: tuple[Tensor, Tensor], inverse: Tensor | None, phi: Tensor, kappa: Tensor) -> None:
        own, (columns, variance) = phi[:, : self.n_inducing], seen
        own.copy_(columns if inverse is None else columns @ inverse.T)
        if self.bias > 0:
            phi[:, -1] = self.bias
        if inverse is None:
            kappa.zero_()
            return
        kappa.copy_((variance - torch.linalg.vecdot(own, own)).clamp(min=0.0))


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
    whitened: bool = True,
) -> Features:
    """Choose scale, inducing inputs and factorisation for some training bags.

    Not ``whitened`` the features are k(x, Z) as it is, so that the kernel need not be positive definite.
    """
    names = kernels.NAMES if whitened else kernels.COLUMN_NAMES
    made = kernels.make_kernel(kernel, bags.n_features, lengthscale, dtype, names).to(device)
    bias = check.check_positive("bias", bias, zero=True)
    jitter = DEFAULT_JITTER[dtype] if jitter is None else check.check_below("jitter", jitter, 1.0)
    moments = row_moments(bags, standardize, device, dtype)
    rows, origin = _inducing_rows(bags, n_inducing, inducing, moments, random)
    if not whitened:
        return Features(made, rows.to(dtype), None, *moments, bias=bias, jitter=jitter, origin=origin)
    return assemble(made, rows.to(dtype), *moments, bias=bias, jitter=jitter, origin=origin)


def assemble(
    kernel: Any, inducing: Tensor, shift: Tensor, scale: Tensor, *, bias: float, jitter: float, origin: str
) -> Features:
    """Features from their parts; factors k(Z, Z)."""
    with torch.no_grad():
        factor = cholesky(kernels.gram(kernel, inducing), jitter, "kernel matrix of the inducing inputs")
    return Features(kernel, inducing, factor.lower, shift, scale, bias, factor.jitter, origin)


def traced_design(
    kernel: Any, inducing: Tensor, x: Tensor, segments: Segments, *, bias: float, jitter: float
) -> Design:
    """The design of standardised rows x as a differentiable function of the kernel and the inducing inputs."""
    factor = cholesky(kernels.gram(kernel, inducing), jitter, "kernel matrix", attempts=3)
    phi = whiten(factor.lower, kernels.cross(kernel, inducing, x)).T
    kappa = (kernels.diagonal(kernel, x) - phi.square().sum(1)).clamp(min=0.0)
    if bias > 0:
        phi = torch.cat([phi, torch.full_like(phi[:, :1], bias)], dim=1)
    return Design(phi, kappa, segments)


def row_moments(bags: Bags, standardize: bool, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Shift and scale of the rows: those that standardise every column, or 0 and 1."""
    standard = check.check_flag("standardize", standardize)
    return _moments(bags, device, dtype) if standard else _no_moments(bags, device)


def _moments(bags: Bags, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Shift and scale that standardise every column."""
    with np.errstate(over="ignore", invalid="ignore"):
        shift, scale = column_moments(bags.X)
        far = ~(np.abs(shift) / scale < farthest(dtype))
    wrong = np.flatnonzero(far | ~np.isfinite(shift) | ~np.isfinite(scale))
    if len(wrong):
        name = check.column_name(int(wrong[0]), bags.feature_names)
        raise BagDataError(f"{name} holds numbers too large to standardise; divide it by a constant.")
    return torch.tensor(shift, device=device), torch.tensor(scale, device=device)


def farthest(dtype: torch.dtype) -> float:
    """How far from 0 a standardised number may lie: its square must be a number still."""
    return math.sqrt(torch.finfo(dtype).max)


def _no_moments(bags: Bags, device: torch.device) -> tuple[Tensor, Tensor]:
    zeros = torch.zeros(bags.n_features, dtype=torch.float64, device=device)
    return zeros, torch.ones_like(zeros)


def column_moments(X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean and standard deviation of every column (1 for a constant one), a bounded number of rows at a time."""
    if scipy.sparse.issparse(X):
        scaler = StandardScaler(with_mean=False).fit(X.astype(np.float64, copy=False))
        return np.asarray(X.mean(axis=0, dtype=np.float64)).ravel(), _scale_of(scaler)
    scaler = StandardScaler()
    for start in range(0, X.shape[0], _CHUNK_ROWS["cpu"]):
        scaler.partial_fit(X[start : start + _CHUNK_ROWS["cpu"]].astype(np.float64, copy=False))
    return scaler.mean_, _scale_of(scaler)


def _scale_of(scaler: StandardScaler) -> NDArray[Any]:
    """Its scale; infinite where the variance is, which scikit-learn would take for a constant column."""
    return np.where(np.isfinite(scaler.var_), scaler.scale_, np.inf)


def _rows_at_once(device: torch.device, n_features: int) -> int:
    return max(1, min(_CHUNK_ROWS[device.type], _CHUNK_ENTRIES[device.type] // n_features))


def bag_slices(offsets: NDArray[np.int64], rows: int) -> Iterator[slice]:
    """Runs of whole bags of about ``rows`` instances (more only where a single bag is larger)."""
    marks = np.arange(rows, offsets[-1], rows)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(offsets, marks), [len(offsets) - 1]]))
    for start, stop in itertools.pairwise(cuts):
        yield slice(int(start), int(stop))


def standardised_rows(X: Any, shift: Tensor, scale: Tensor) -> Tensor:
    """Rows as a kernel sees them, in double precision on the device of the moments."""
    dense = X.toarray() if scipy.sparse.issparse(X) else X
    return torch.tensor(dense, dtype=shift.dtype, device=shift.device).sub_(shift).div_(scale)  # a copy of this chunk


def _sparse_products(X: Any, inducing: Tensor, shift: Tensor, scale: Tensor) -> tuple[NDArray[Any], NDArray[Any]]:
    """x·z and x·x of rows x = (X − m) / s, multiplied out so that X stays sparse."""
    m, s, z = (part.cpu().double().numpy() for part in (shift, scale, inducing))
    rows = X.astype(np.float64)
    cross = rows @ (z / s).T - z @ (m / s)
    squares = rows.multiply(rows) @ s**-2.0 - 2.0 * (rows @ (m / s**2)) + ((m / s) ** 2).sum()
    return cross, np.asarray(squares).clip(min=0.0)


def _inducing_rows(
    bags: Bags,
    n_inducing: int | None,
    inducing: Any,
    moments: tuple[Tensor, Tensor],
    random: np.random.RandomState,
) -> tuple[Tensor, str]:
    if not isinstance(inducing, str):
        return standardised_rows(_given_rows(inducing, bags.n_features), *moments), "given"
    check.check_option("inducing", inducing, SELECTIONS)
    wanted = bags.n_instances if n_inducing is None else check.check_count("n_inducing", n_inducing)
    looked_at = min(bags.n_instances, _sample_size(wanted, bags.n_features))
    rows = np.sort(random.choice(bags.n_instances, looked_at, replace=False))
    _check_dense(bags.X, looked_at)
    pool = _distinct(standardised_rows(bags.X[rows], *moments).cpu().numpy())
    if len(pool) <= wanted:
        sample = f" of a sample of {looked_at}" if looked_at < bags.n_instances else ""
        chosen, origin = pool, f"all {len(pool)} distinct instances{sample}"
    else:
        chosen, origin = _select(pool, wanted, inducing, random), inducing
    return torch.tensor(chosen, device=moments[0].device), origin


def _check_dense(X: Any, n_rows: int) -> None:
    """Refuse rows that fit the memory only as long as they are sparse."""
    if scipy.sparse.issparse(X) and n_rows * X.shape[1] > _LARGEST_POOL:
        raise BagDataError(
            f"the inducing inputs are chosen among {n_rows} rows of {X.shape[1]:,} columns, which need "
            f"{8 * n_rows * X.shape[1] / 1e9:,.1f} GB once they are no longer sparse. Use a smaller n_inducing, or "
            "fewer columns, e.g. PerInstance(TruncatedSVD(100)) in a pipeline."
        )


def _given_rows(inducing: Any, n_features: int) -> Any:
    given = check.feature_matrix(inducing)[0]
    if given.shape[1] != n_features or given.shape[0] == 0:
        raise BagDataError(f"inducing: expected an (R, {n_features}) array, got shape {given.shape}.")
    if not np.isfinite(given.data if scipy.sparse.issparse(given) else given).all():
        raise BagDataError("inducing: the array holds NaN or infinity; inducing inputs must be finite.")
    return given


def _sample_size(wanted: int, n_features: int) -> int:
    """How many instances to choose the inducing inputs from: enough for k-means, within the memory of a few chunks."""
    bounded = min(max(_KMEANS_ROWS, 20 * wanted), 4 * _CHUNK_ENTRIES["cpu"] // n_features)
    return max(2 * wanted, bounded)


def _distinct(rows: NDArray[Any]) -> NDArray[Any]:
    """The rows without repetitions, in their order: a repeated inducing input would make k(Z, Z) singular."""
    return rows[np.sort(np.unique(rows, axis=0, return_index=True)[1])]


def _select(pool: NDArray[Any], wanted: int, how: str, random: np.random.RandomState) -> NDArray[Any]:
    if how == "random":
        return pool[np.sort(random.choice(len(pool), wanted, replace=False))]
    seeds, _ = kmeans_plusplus(pool, wanted, random_state=random)
    with warnings.catch_warnings():  # rows that are almost the same share a cluster: there is no harm in that
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(wanted, init=seeds, n_init=1, max_iter=_KMEANS_ITERATIONS).fit(pool)
    return _distinct(found.cluster_centers_)
