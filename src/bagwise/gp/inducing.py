"""Which points a Gaussian process rests on: inducing inputs, given or chosen among the rows."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from bagwise import _validation as check
from bagwise._matrices import feature_matrix
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError, LearnedNothingWarning, warn_user
from bagwise.gp.ground import Ground

SELECTIONS = ("kmeans++", "random", "principal")
SAMPLE = "sample"  # name of the rows that are put aside to choose inducing inputs from
_LARGEST_SAMPLE = 2**26  # entries of dense rows to choose from, where there are very many columns
_LARGEST_POOL = 2**27  # entries of sparse rows made dense to choose from: 1 GB
_KMEANS_ROWS = 10_000
_KMEANS_ITERATIONS = 50
_LEAST_SQUARE = 1e-14  # of the largest squared singular value


class RowSample(NamedTuple):
    """Which rows inducing inputs are chosen from, in ascending order, and how many of them are wanted."""

    rows: NDArray[np.int64]
    wanted: int


def sample_rows(bags: Bags, n_inducing: int | None, inducing: Any, random: np.random.RandomState) -> RowSample | None:
    """None where inducing inputs are given. Rows in a file are put aside when they come by for the moments."""
    if not isinstance(inducing, str):
        return None
    check.check_option("inducing", inducing, SELECTIONS)
    wanted = bags.n_instances if n_inducing is None else check.check_count("n_inducing", n_inducing)
    looked_at = min(bags.n_instances, _sample_size(wanted, bags.n_features))
    rows = np.sort(random.choice(bags.n_instances, looked_at, replace=False))
    if bags.stays_in_file:
        bags.X.keep(SAMPLE, rows, for_passes=False)
    return RowSample(rows, wanted)


def inducing_rows(
    bags: Bags, sample: RowSample | None, inducing: Any, ground: Ground, random: np.random.RandomState
) -> tuple[Tensor, str]:
    """The inducing inputs in the units of the kernel, and where they come from."""
    if sample is None:
        return ground.rows(_given_rows(inducing, bags.n_features)), "given"
    looked_at, wanted = len(sample.rows), sample.wanted
    if ground.projection is None:
        _check_dense(bags.X, looked_at)
    pool = _distinct(ground.rows(bags.X[sample.rows]).cpu().numpy())
    if len(pool) == 1 < looked_at:
        warn_user(
            f"all {looked_at} instances that were looked at have the same features: nothing can tell them apart. Every "
            "instance will get the same probability.",
            LearnedNothingWarning,
        )
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
    directions = _leading(pool, wanted)
    return torch.tensor(directions, device=device), f"{len(directions)} principal directions"


def _leading(pool: NDArray[Any], wanted: int) -> NDArray[Any]:
    """Leading right singular vectors, from the eigenvectors of the smaller of the two matrices of products.

    That takes a fraction of the time of a singular value decomposition of thousands of wide rows. Singular values below
    1e-7 of the largest drown in rounding there, and are left out.
    """
    wide = pool.shape[0] < pool.shape[1]
    products = pool @ pool.T if wide else pool.T @ pool
    last = len(products) - 1
    squares, vectors = scipy.linalg.eigh(products, subset_by_index=(max(0, last + 1 - wanted), last))
    kept = max(1, int((squares > _LEAST_SQUARE * squares[-1]).sum()))
    leading = vectors[:, ::-1][:, :kept].T.copy()  # torch takes no negative strides, not even of one number
    return _one_sign(np.linalg.qr((leading @ pool).T)[0].T if wide else leading)


def _one_sign(directions: NDArray[Any]) -> NDArray[Any]:
    """Directions whose largest number is positive: which of the two signs a solver returns is a matter of rounding."""
    largest = np.abs(directions).argmax(axis=1)
    signed: NDArray[Any] = directions * np.sign(directions[np.arange(len(directions)), largest])[:, None]
    return signed


def _check_dense(X: Any, n_rows: int) -> None:
    """Refuse rows that fit the memory only as long as they are sparse."""
    if scipy.sparse.issparse(X) and n_rows * X.shape[1] > _LARGEST_POOL:
        raise BagDataError(
            f"the inducing inputs are chosen among {n_rows} rows of {X.shape[1]:,} columns, which need "
            f"{8 * n_rows * X.shape[1] / 1e9:,.1f} GB once they are no longer sparse. Use a smaller n_inducing, or "
            "fewer columns, e.g. PerInstance(TruncatedSVD(100)) in a pipeline."
        )


def _given_rows(inducing: Any, n_features: int) -> Any:
    given = feature_matrix(inducing)[0]
    if given.shape[1] != n_features or given.shape[0] == 0:
        raise BagDataError(f"inducing: expected an (R, {n_features}) array, got shape {given.shape}.")
    if not np.isfinite(given.data if scipy.sparse.issparse(given) else given).all():
        raise BagDataError("inducing: the array holds NaN or infinity; inducing inputs must be finite.")
    return given


def _sample_size(wanted: int, n_features: int) -> int:
    """How many instances to choose the inducing inputs from: enough for k-means, within the memory of a few chunks."""
    bounded = min(max(_KMEANS_ROWS, 20 * wanted), _LARGEST_SAMPLE // n_features)
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
