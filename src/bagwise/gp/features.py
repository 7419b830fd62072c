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
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize
from torch import Tensor

from bagwise import _validation as check
from bagwise.bags import Bags, as_bags
from bagwise.exceptions import BagDataError
from bagwise.gp import kernels
from bagwise.gp.effects import NO_EFFECT, GroupEffect
from bagwise.gp.moments import column_moments, column_summary
from bagwise.numerics.linalg import DEFAULT_JITTER, cholesky, owned, whiten
from bagwise.numerics.segments import Segments

SELECTIONS = ("kmeans++", "random", "principal")
CHUNK_ROWS = 32_768  # where chunks begin must not depend on the device: sums would round otherwise
_CHUNK_ENTRIES = 2**24  # of dense rows at a time, where there are very many columns
_BLOCK_ROWS = {"cpu": 2048, "cuda": 131_072}  # of which a kernel is computed at once
_LARGEST_POOL = 2**27  # entries of sparse rows made dense to choose inducing inputs from: 1 GB
_KMEANS_ROWS = 10_000
_KMEANS_ITERATIONS = 50
_TENSORS = ("inducing", "lower", "shift", "scale", "projection")


class Design(NamedTuple):
    """What a chunk of whole bags looks like to every model: features, leftover variances, where the bags lie."""

    phi: Tensor
    kappa: Tensor
    segments: Segments
    offset: Tensor | None = None  # (n,) a known part of f besides φᵀv, where rows stand for whole bags


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
    size_range: tuple[float, float] | None = None  # of log n in the fit; there is a column log n before the constant
    projection: Tensor | None = None  # (D, d) that rows of unit length are multiplied by before the kernel sees them
    effect: GroupEffect = NO_EFFECT  # effects of bags, whose variance κ contains (theory section 15)

    def __post_init__(self) -> None:
        for name, value in self.tensors().items():
            object.__setattr__(self, name, owned(value))

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
        """Number of features: the inducing inputs and, where there are such columns, the size and the constant."""
        return self.n_inducing + (self.size_range is not None) + (self.bias > 0)

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

    def with_sizes(self, sizes: NDArray[np.int64]) -> "Features":
        """The same map with a column log n: the logarithm of the size of an instance's bag (theory section 13.2)."""
        return replace(self, size_range=(float(np.log(sizes.min())), float(np.log(sizes.max()))))

    def log_sizes(self, sizes: NDArray[np.int64]) -> Tensor:
        """log n of bags, held within what the fit has seen."""
        low, high = self.size_range or (0.0, 0.0)
        return torch.as_tensor(np.log(sizes).clip(low, high), dtype=self.dtype, device=self.device)

    def designs(self, bags: Bags, sizes: NDArray[np.int64] | None = None) -> Iterator[tuple[slice, Design]]:
        """The features of the bags, a bounded number of rows at a time, with the bags each part holds.

        ``sizes`` (B,) are those of the bags where they stand for parts of larger ones.
        """
        for part, _, design in self.parts(bags, sizes):
            yield part, design

    def parts(self, bags: Bags, sizes: NDArray[np.int64] | None = None) -> Iterator[tuple[slice, Bags, Design]]:
        """The same with the bags of each part themselves, their rows in memory."""
        inverse = self._inverse()
        for part in chunk_slices(bags):
            some = bags[part].in_memory()
            yield part, some, self._design(some, some.totals if sizes is None else sizes[part], inverse)

    def design(self, bags: Bags) -> Design:
        """The features of a single chunk."""
        some = bags.in_memory()
        return self._design(some, some.totals, self._inverse())

    def _design(self, some: Bags, sizes: NDArray[np.int64], inverse: Tensor | None) -> Design:
        segments = Segments(torch.from_numpy(some.offsets.copy()).to(self.device))
        phi, kappa = self._rows(some.X, inverse)
        if self.size_range is not None:
            phi[:, self.n_inducing] = segments.spread(self.log_sizes(sizes))
        _refuse_lost_rows(phi, kappa, some)
        kappa += self.effect.size**2
        return Design(phi, kappa, segments)

    def _inverse(self) -> Tensor | None:
        # One product with L⁻¹ is faster than a triangular solve per chunk; L has condition 1/√jitter at most.
        if self.lower is None:
            return None
        eye = torch.eye(self.n_inducing, dtype=self.lower.dtype, device=self.lower.device)
        return whiten(self.lower, eye)

    def standardised(self, X: Any) -> Tensor:
        """Rows as the kernel sees them."""
        return standardised_rows(X, self.shift, self.scale, self.projection).to(self.dtype)

    @property
    def takes_rows_as_they_come(self) -> bool:
        """Whether rows are neither standardised nor projected, so that they may be of any size."""
        plain = bool((self.scale == 1.0).all()) and bool((self.shift == 0.0).all())
        return plain and self.projection is None

    def _rows(self, X: Any, inverse: Tensor | None) -> tuple[Tensor, Tensor]:
        """φ and κ of some rows, filled in block by block: a kernel needs several times the memory of its result."""
        phi = torch.empty(X.shape[0], self.n_columns, dtype=self.dtype, device=self.device)
        kappa = torch.empty(X.shape[0], dtype=self.dtype, device=self.device)
        block = _BLOCK_ROWS[self.device.type]
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
        stays_sparse = scipy.sparse.issparse(X) and self.projection is None
        scale = kernels.linear_variance(self.kernel) if stays_sparse else None
        if scale is None:
            return self._products(self.standardised(X))
        parts = _sparse_products(X, self.inducing, self.shift, self.scale)
        cross, squares = (scale * torch.as_tensor(part, dtype=self.dtype, device=self.device) for part in parts)
        return cross, squares

    @torch.no_grad()
    def _products(self, x: Tensor) -> tuple[Tensor, Tensor]:
        # gpytorch centres by the mean of its first argument: with the inducing inputs there, no row moves another.
        return kernels.cross(self.kernel, self.inducing, x).T, kernels.diagonal(self.kernel, x)

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


def _refuse_lost_rows(phi: Tensor, kappa: Tensor, bags: Bags) -> None:
    """A row too far from all others to compute with is an error that names it, not a number that is none."""
    lost = ~torch.isfinite(phi.sum(1) + kappa)
    if bool(lost.any()):
        row = int(lost.nonzero()[0])
        column = int(np.argmax(np.abs(_dense_row(bags.X, row))))
        raise BagDataError(
            f"bag {bags.ids[bags.index[row]]!r}, row {bags.rows[row]} of the table, "
            f"{check.column_name(column, bags.feature_names)}: {_dense_row(bags.X, row)[column]:g} is too far from the "
            "training data to compute with; correct the value or leave the instance out."
        )


def _dense_row(X: Any, row: int) -> NDArray[Any]:
    found: NDArray[Any] = X[[row]].toarray()[0] if scipy.sparse.issparse(X) else X[row]
    return found


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
    project: int | None = None,
) -> Features:
    """Choose scale, inducing inputs and factorisation for some training bags.

    Not ``whitened`` the features are k(x, Z) as it is, so that the kernel need not be positive definite. With
    ``project`` rows are scaled to unit length and projected on so many principal directions, for sparse rows.
    """
    names = kernels.NAMES if whitened else kernels.COLUMN_NAMES
    sample = None if project is not None else _sample(bags, n_inducing, inducing, random)
    ground = make_ground(bags, bias=bias, standardize=standardize, jitter=jitter, device=device, dtype=dtype)
    if project is not None:
        ground = projected_ground(ground, bags, project, random)
        sample = _sample(bags, n_inducing, inducing, random)
    width = bags.n_features if ground.projection is None else ground.projection.shape[1]
    made = kernels.make_kernel(kernel, width, lengthscale, dtype, names).to(device)
    rows, origin = _inducing_rows(bags, sample, inducing, ground, random)
    if not whitened:
        return Features(made, rows.to(dtype), None, **ground._asdict(), origin=origin)
    return assemble(made, rows.to(dtype), **ground._asdict(), origin=origin)


class Ground(NamedTuple):
    """What features stand on besides their kernel and inducing inputs: the scale of the rows, the constant, jitter."""

    shift: Tensor
    scale: Tensor
    bias: float
    jitter: float
    projection: Tensor | None = None

    def rows(self, X: Any) -> Tensor:
        """Rows as a kernel sees them."""
        return standardised_rows(X, self.shift, self.scale, self.projection)


def make_ground(
    bags: Bags, *, bias: float, standardize: bool, jitter: float | None, device: torch.device, dtype: torch.dtype
) -> Ground:
    """The settings of an estimator, checked, and the scale of its training rows."""
    standardise = check.check_flag("standardize", standardize)
    shift, scale = _moments(bags, device, dtype) if standardise else _no_moments(bags, device)
    size = DEFAULT_JITTER[dtype] if jitter is None else check.check_below("jitter", jitter, 1.0)
    return Ground(shift, scale, check.check_positive("bias", bias, zero=True), size)


def projected_ground(ground: Ground, bags: Bags, width: int, random: np.random.RandomState) -> Ground:
    """Rows of unit length on their leading principal directions, scaled so that their mean squared length is d.

    Standardising thousands of mostly empty columns puts every row at its own distance from all others, however alike
    they are; what rows of unit length share is in a few directions.
    """
    rows = _unit_rows(bags.X)
    width = max(1, min(width, *(size - 1 for size in rows.shape)))
    with np.errstate(divide="ignore", invalid="ignore"):  # it takes shares of the variance, and rows may be all alike
        svd = TruncatedSVD(width, random_state=random).fit(rows)
    lengths = np.square(svd.transform(rows)).sum(axis=1).mean()
    directions = svd.components_.T * math.sqrt(width / (lengths if lengths > 0 else 1.0))
    shift, scale = _no_moments(bags, ground.shift.device)
    return ground._replace(shift=shift, scale=scale, projection=torch.tensor(directions, device=shift.device))


def own_scale(bags: Bags, kernel: Any, standardize: bool) -> float | None:
    """Where to begin with the lengthscale of a kernel given by name on rows taken as they come: their spread.

    (Of standardised rows it is √D, which is the kernel's own choice.)
    """
    if standardize or not isinstance(kernel, str):
        return None
    mean, deviation, varies = column_summary(bags.X)
    spread = (np.square(deviation) * varies).sum() + (np.square(mean).sum() if kernels.is_linear(kernel) else 0.0)
    return math.sqrt(spread) if np.isfinite(spread) and spread > 0 else None


def assemble(
    kernel: Any,
    inducing: Tensor,
    shift: Tensor,
    scale: Tensor,
    *,
    bias: float,
    jitter: float,
    origin: str,
    size_range: tuple[float, float] | None = None,
    projection: Tensor | None = None,
) -> Features:
    """Features from their parts; factors k(Z, Z)."""
    with torch.no_grad():
        factor = cholesky(kernels.gram(kernel, inducing), jitter, "kernel matrix of the inducing inputs")
    own = (bias, factor.jitter, origin, size_range, projection)
    return Features(kernel, inducing, factor.lower, shift, scale, *own)


def reassembled(
    features: Features, *, kernel: Any = None, inducing: Tensor | None = None, origin: str | None = None
) -> Features:
    """The same features with another kernel or other inducing inputs."""
    return assemble(
        features.kernel if kernel is None else kernel,
        features.inducing if inducing is None else inducing.to(features.dtype),
        features.shift,
        features.scale,
        bias=features.bias,
        jitter=features.jitter,
        origin=features.origin if origin is None else origin,
        size_range=features.size_range,
        projection=features.projection,
    )


def traced_design(
    features: Features, kernel: Any, inducing: Tensor, x: Tensor, segments: Segments, log_sizes: Tensor | None = None
) -> Design:
    """The design of standardised rows x as a differentiable function of a kernel and of inducing inputs.

    What else features are made of (the constant, the jitter, whether there is a column of sizes) is that of
    ``features``; ``log_sizes`` are log n of the bags.
    """
    factor = cholesky(kernels.gram(kernel, inducing), features.jitter, "kernel matrix", attempts=3)
    phi = whiten(factor.lower, kernels.cross(kernel, inducing, x)).T
    kappa = (kernels.diagonal(kernel, x) - phi.square().sum(1)).clamp(min=0.0)
    columns = [phi]
    if features.size_range is not None and log_sizes is not None:
        columns.append(segments.spread(log_sizes)[:, None])
    if features.bias > 0:
        columns.append(torch.full_like(phi[:, :1], features.bias))
    return Design(torch.cat(columns, dim=1) if len(columns) > 1 else phi, kappa, segments)


def _moments(bags: Bags, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Shift and scale that standardise every column."""
    shift, scale = column_moments(bags.X, bags.weight)
    with np.errstate(over="ignore", invalid="ignore"):
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


def chunk_slices(bags: Bags) -> Iterator[slice]:
    """The bags of every chunk: a matter of their sizes and of the number of features alone."""
    return bag_slices(bags.offsets, max(1, min(CHUNK_ROWS, _CHUNK_ENTRIES // bags.n_features)))


def bag_slices(offsets: NDArray[np.int64], rows: int) -> Iterator[slice]:
    """Runs of whole bags of about ``rows`` instances (more only where a single bag is larger)."""
    marks = np.arange(rows, offsets[-1], rows)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(offsets, marks), [len(offsets) - 1]]))
    for start, stop in itertools.pairwise(cuts):
        yield slice(int(start), int(stop))


def standardised_rows(X: Any, shift: Tensor, scale: Tensor, projection: Tensor | None = None) -> Tensor:
    """Rows as a kernel sees them, in double precision on the device of the moments."""
    if projection is not None:
        rows = _unit_rows(X) @ projection.cpu().double().numpy()
        return torch.tensor(np.asarray(rows), dtype=shift.dtype, device=shift.device)
    dense = X.toarray() if scipy.sparse.issparse(X) else np.asarray(X)
    return torch.tensor(dense, dtype=shift.dtype, device=shift.device).sub_(shift).div_(scale)  # a copy of this chunk


def _unit_rows(X: Any) -> Any:
    """Rows of length 1 (or 0), also where their squares are no numbers."""
    return normalize(normalize(X.astype(np.float64), norm="max"))


def _sparse_products(X: Any, inducing: Tensor, shift: Tensor, scale: Tensor) -> tuple[NDArray[Any], NDArray[Any]]:
    """x·z and x·x of rows x = (X − m) / s, multiplied out so that X stays sparse."""
    m, s, z = (part.cpu().double().numpy() for part in (shift, scale, inducing))
    rows = X.astype(np.float64)
    cross = rows @ (z / s).T - z @ (m / s)
    squares = rows.multiply(rows) @ s**-2.0 - 2.0 * (rows @ (m / s**2)) + ((m / s) ** 2).sum()
    return cross, np.asarray(squares).clip(min=0.0)


class _Sample(NamedTuple):
    """Which rows inducing inputs are chosen from, in ascending order, and how many of them are wanted."""

    rows: NDArray[np.int64]
    wanted: int


def _sample(bags: Bags, n_inducing: int | None, inducing: Any, random: np.random.RandomState) -> _Sample | None:
    """None where inducing inputs are given. Rows in a file are put aside when they come by for the moments."""
    if not isinstance(inducing, str):
        return None
    check.check_option("inducing", inducing, SELECTIONS)
    wanted = bags.n_instances if n_inducing is None else check.check_count("n_inducing", n_inducing)
    looked_at = min(bags.n_instances, _sample_size(wanted, bags.n_features))
    rows = np.sort(random.choice(bags.n_instances, looked_at, replace=False))
    if bags.stays_in_file:
        bags.X.keep(rows)
    return _Sample(rows, wanted)


def _inducing_rows(
    bags: Bags, sample: _Sample | None, inducing: Any, ground: Ground, random: np.random.RandomState
) -> tuple[Tensor, str]:
    if sample is None:
        return ground.rows(_given_rows(inducing, bags.n_features)), "given"
    looked_at, wanted = len(sample.rows), sample.wanted
    if ground.projection is None:
        _check_dense(bags.X, looked_at)
    pool = _distinct(ground.rows(bags.X[sample.rows]).cpu().numpy())
    if inducing == "principal":
        return _principal(pool, wanted, ground.shift.device)
    if len(pool) <= wanted:
        few = f" of a sample of {looked_at}" if looked_at < bags.n_instances else ""
        chosen, origin = pool, f"all {len(pool)} distinct instances{few}"
    else:
        chosen, origin = _select(pool, wanted, inducing, random), inducing
    return torch.tensor(chosen, device=ground.shift.device), origin


def _principal(pool: NDArray[Any], wanted: int, device: torch.device) -> tuple[Tensor, str]:
    """Leading principal directions of the rows: the best that a linear kernel can rest on, whatever their length."""
    _, sizes, directions = np.linalg.svd(pool, full_matrices=False)
    kept = int(min(wanted, (sizes > 1e-10 * sizes[0]).sum()))
    return torch.tensor(directions[: max(kept, 1)], device=device), f"{kept} principal directions"


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
    bounded = min(max(_KMEANS_ROWS, 20 * wanted), 4 * _CHUNK_ENTRIES // n_features)
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
