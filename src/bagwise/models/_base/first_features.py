"""Features of ``BagGP`` before anything is learned: kinds of kernel in question, projections, feature maps, sizes."""

import copy
from typing import Any

import numpy as np
import scipy.sparse
import torch

from bagwise.bags import Bags
from bagwise.gp.feature_maps import check_feature_map
from bagwise.gp.features import Features, reassembled
from bagwise.gp.ground import is_sparse
from bagwise.gp.kernels import MappedKernel, make_kernel
from bagwise.gp.moments import column_moments
from bagwise.models._base.learned_kernel import start_kernel

WIDE = 100  # features from which on kernel="auto" asks for the log evidence of a linear kernel too
DIRECTIONS = 100  # principal directions that sparse rows are projected on


def kinds_in_question(model: Any, bags: Bags) -> tuple[Any, ...]:
    """The kernels to choose from: where there are many features ``kernel="auto"`` leaves it to the log evidence."""
    if not _chooses_kernel(model):
        return (model.kernel,)
    sparse = is_sparse(bags)
    if not (sparse or bags.n_features >= WIDE) or model.ard or model.feature_map is not None or not model.learn:
        return ("linear",) if sparse and model.feature_map is None else ("rbf",)
    return "rbf", "linear"


def asks_for_sizes(model: Any) -> bool:
    """Whether the data shall decide about a column of sizes."""
    return isinstance(model.size_effect, str) and model.size_effect == "auto"


def wants_sizes(model: Any) -> bool:
    """Whether the user wants a column of sizes, whatever the data say."""
    return not asks_for_sizes(model) and bool(model.size_effect)


def first_features(model: Any, bags: Bags, kind: Any) -> Features:
    """Features with a kernel of some kind; sparse rows are projected where the kernel is ours to choose."""
    own = _chooses_kernel(model)
    project = _width_of_projection(model, bags)
    inducing = "principal" if own and kind == "linear" and isinstance(model.inducing, str) else None
    kernel = _first_kernel(model, bags, kind, project)
    features: Features = model._make_features(bags, kernel, inducing=inducing, project=project)
    return features


def features_beside(first: Features, model: Any, bags: Bags, kind: str, *, rows_of_first: bool = False) -> Features:
    """First features of another kind, with the inducing inputs of the first ones or with inducing inputs of their own.

    The seed stays what it is: it says which bags the kinds are judged by, and these have to be the same ones.
    """
    if rows_of_first:
        kernel = _first_kernel(model, bags, kind, _width_of_projection(model, bags))
        made = make_kernel(kernel, first.inducing.shape[1], None, first.dtype)
        return reassembled(first, kernel=made.to(first.device))
    seed = model.seed_
    other = first_features(model, bags, kind)
    model.seed_ = seed
    return other


def _width_of_projection(model: Any, bags: Bags) -> int | None:
    return DIRECTIONS if _chooses_kernel(model) and model.feature_map is None and is_sparse(bags) else None


def with_sizes(features: Features, bags: Bags, sized: bool) -> Features:
    """The same features with a column of sizes, or as they are."""
    return features.with_sizes(bags.totals) if sized else features


def _chooses_kernel(model: Any) -> bool:
    return isinstance(model.kernel, str) and model.kernel == "auto"


def _first_kernel(model: Any, bags: Bags, kind: Any, project: int | None) -> Any:
    if model.feature_map is None:
        width = None if project is None else min(project, bags.n_features - 1, bags.n_instances - 1)
        return start_kernel(model, bags, width, kind)
    module = model.feature_map
    if isinstance(module, torch.nn.Module):  # a copy of our own; its layers always behave as in prediction
        module = copy.deepcopy(module).double().eval()
    width = check_feature_map(module, _some_rows(bags, model.standardize))
    base = start_kernel(model, bags, width, kind)
    lengthscale = model.lengthscale if base is kind else None
    return MappedKernel(make_kernel(base, width, lengthscale, torch.float64), module)


def _some_rows(bags: Bags, standardize: bool) -> torch.Tensor:
    """Rows as a feature map will see them, at most a thousand, to try it on."""
    rows = bags.X[:: max(1, bags.n_instances // 1000)]
    dense = np.asarray(rows.toarray() if scipy.sparse.issparse(rows) else rows, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # numbers too large to standardise are refused elsewhere
        shift, scale = column_moments(bags.X) if standardize else (0.0, 1.0)
        return torch.from_numpy((dense - shift) / scale)
