"""Whitened features φ(x) = L⁻¹ k(Z, x), κ(x) = k(x, x) − |φ(x)|² (theory section 0.1)."""

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise._matrices import column_name
from bagwise.bags import Bags, as_bags
from bagwise.exceptions import BagDataError
from bagwise.gp import kernels
from bagwise.gp.effects import NO_EFFECT, GroupEffect
from bagwise.gp.ground import make_ground, projected_ground, standardised_rows
from bagwise.gp.inducing import inducing_rows, sample_rows
from bagwise.numerics.linalg import cholesky, owned, whiten
from bagwise.numerics.segments import Segments
from bagwise.sources.ahead import one_ahead

CHUNK_ROWS = 32_768  # where chunks begin must not depend on the device: sums would round otherwise
_CHUNKS = 64  # that very many rows make: every chunk takes time of its own in every sweep …
_CHUNK_FEATURES = 2**26  # … but holds no more numbers than these for that reason
_CHUNK_ENTRIES = 2**24  # of dense rows at a time, where there are very many columns
_BLOCK_ROWS = {"cpu": 2048, "cuda": 131_072}  # of which a kernel is computed at once
_TENSORS = ("inducing", "lower", "shift", "scale", "projection")


class Design(NamedTuple):
    """What a chunk of whole bags looks like to every model: features, leftover variances, where the bags lie."""

    phi: Tensor
    kappa: Tensor
    segments: Segments
    offset: Tensor | None = None  # (n,) a known part of f besides φᵀv, where rows stand for whole bags

    def runs(self, rows: int) -> Iterator[tuple[slice, "Design"]]:
        """Runs of whole bags of about so many rows, with the numbers of their bags."""
        offsets = self.segments.offsets
        for bags in bag_slices(offsets.cpu().numpy(), rows):
            own = offsets[bags.start : bags.stop + 1]
            some = slice(int(own[0]), int(own[-1]))
            yield bags, Design(self.phi[some], self.kappa[some], Segments(own - own[0]))


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
    stretched: bool = False  # whether projected rows are then brought to one length
    leftovers: bool = True  # whether f has a part that v does not determine; else κ = 0
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
        read = ((part, bags[part].in_memory()) for part in chunk_slices(bags, self.n_columns))
        for part, some in one_ahead(read) if bags.stays_in_file else read:
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
        if self.effect.size > 0.0:
            variance = np.square(self.effect.size * self.effect.relative(some.X))
            kappa += torch.as_tensor(variance, dtype=kappa.dtype, device=kappa.device)
        return Design(phi, kappa, segments)

    def _inverse(self) -> Tensor | None:
        # One product with L⁻¹ is faster than a triangular solve per chunk; L has condition 1/√jitter at most.
        if self.lower is None:
            return None
        eye = torch.eye(self.n_inducing, dtype=self.lower.dtype, device=self.lower.device)
        return whiten(self.lower, eye)

    def standardised(self, X: Any) -> Tensor:
        """Rows as the kernel sees them."""
        rows = standardised_rows(X, self.shift, self.scale, self.projection, stretched=self.stretched)
        return rows.to(self.dtype)

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
        """φ of rows that are standardised already, (n, R); they count as bags of the smallest size of the fit."""
        phi = torch.empty(len(x), self.n_columns, dtype=self.dtype, device=self.device)
        kappa = torch.empty(len(x), dtype=self.dtype, device=self.device)
        self._fill(self._products(x), self._inverse(), phi, kappa)
        if self.size_range is not None:
            phi[:, self.n_inducing] = self.size_range[0]
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
        if inverse is None or not self.leftovers:
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
            f"{column_name(column, bags.feature_names)}: {_dense_row(bags.X, row)[column]:g} is too far from the "
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
    sample = None if project is not None else sample_rows(bags, n_inducing, inducing, random)
    ground = make_ground(bags, bias=bias, standardize=standardize, jitter=jitter, device=device, dtype=dtype)
    if project is not None:
        ground = projected_ground(ground, bags, project, random)
        sample = sample_rows(bags, n_inducing, inducing, random)
    width = bags.n_features if ground.projection is None else ground.projection.shape[1]
    made = kernels.make_kernel(kernel, width, lengthscale, dtype, names).to(device)
    rows, origin = inducing_rows(bags, sample, inducing, ground, random)
    if not whitened:
        return Features(made, rows.to(dtype), None, **ground._asdict(), origin=origin)
    return assemble(made, rows.to(dtype), **ground._asdict(), origin=origin)


def assemble(kernel: Any, inducing: Tensor, shift: Tensor, scale: Tensor, *, jitter: float, **others: Any) -> Features:
    """Features from their parts; factors k(Z, Z)."""
    with torch.no_grad():
        factor = cholesky(kernels.gram(kernel, inducing), jitter, "kernel matrix of the inducing inputs")
    return Features(kernel, inducing, factor.lower, shift, scale, jitter=factor.jitter, **others)


def reassembled(
    features: Features, *, kernel: Any = None, inducing: Tensor | None = None, origin: str | None = None
) -> Features:
    """The same features with another kernel or other inducing inputs, and without effects of bags."""
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
        stretched=features.stretched,
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


def chunk_slices(bags: Bags, n_columns: int) -> Iterator[slice]:
    """The bags of every chunk: a matter of their sizes and of the numbers of columns alone."""
    return bag_slices(bags.offsets, chunk_rows(bags.n_instances, bags.n_features, n_columns))


def chunk_rows(n_rows: int, n_features: int, n_columns: int) -> int:
    """How many rows a chunk has, about."""
    rows = longer_chunks(CHUNK_ROWS, n_rows, _CHUNK_FEATURES // n_columns)
    return max(1, min(rows, _CHUNK_ENTRIES // n_features))


def longer_chunks(rows: int, n_rows: int, most: int) -> int:
    """Rows of a chunk where there are so many in all: more than usual of very many, but not more than ``most``."""
    return max(rows, min(n_rows // _CHUNKS, most))


def bag_slices(offsets: NDArray[np.int64], rows: int) -> Iterator[slice]:
    """Runs of whole bags of about ``rows`` instances (more only where a single bag is larger)."""
    marks = np.arange(rows, offsets[-1], rows)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(offsets, marks), [len(offsets) - 1]]))
    for start, stop in itertools.pairwise(cuts):
        yield slice(int(start), int(stop))


def _sparse_products(X: Any, inducing: Tensor, shift: Tensor, scale: Tensor) -> tuple[NDArray[Any], NDArray[Any]]:
    """x·z and x·x of rows x = (X − m) / s, multiplied out so that X stays sparse."""
    m, s, z = (part.cpu().double().numpy() for part in (shift, scale, inducing))
    rows = X.astype(np.float64)
    cross = rows @ (z / s).T - z @ (m / s)
    squares = rows.multiply(rows) @ s**-2.0 - 2.0 * (rows @ (m / s**2)) + ((m / s) ** 2).sum()
    return cross, np.asarray(squares).clip(min=0.0)
