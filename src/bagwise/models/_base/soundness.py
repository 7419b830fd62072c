"""Whether a model that was read from a file can be one: shapes, values and answers."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bagwise.bags import Bags
from bagwise.exceptions import ModelFileError
from bagwise.gp.features import Features
from bagwise.gp.ground import farthest
from bagwise.gp.posterior import ExactPosterior, Posterior, SamplePosterior, SparseSamplePosterior
from bagwise.inference.candidates.exact import exact_moments
from bagwise.numerics.linalg import DEFAULT_JITTER

_WHOLE_NUMBERS = ("factor_of", "columns")  # of a posterior; everything else is in double precision …
_ROWS = ("inputs",)  # … but rows that it remembers, which are of the type of the features
_PROBED = 8  # rows that a loaded model is tried on


def check_model(model: Any) -> None:
    """Refuse a model whose parts do not fit together, or that no fit could have made."""
    _check_shapes(model)
    _check_values(model)
    _check_answers(model)


def _check_shapes(model: Any) -> None:
    """The parts of a file must fit together, or answers would be nonsense."""
    features, posterior, names = model.features_, model.posterior_, getattr(model, "feature_names_in_", None)
    R, K = posterior.mean.shape
    D, width = model.n_features_in_, features.inducing.shape[1]
    fits = (
        features.n_columns == R
        and features.inducing.shape == (features.n_inducing, D if features.projection is None else width)
        and (features.projection is None or features.projection.shape == (D, width))
        and features.shift.shape == features.scale.shape == (D,)
        and (features.lower is None or features.lower.shape == (features.n_inducing, features.n_inducing))
        and _posterior_fits(posterior, R, K)
        and model._n_functions() == K
        and (names is None or len(names) == D)
    )
    if not fits:
        raise ModelFileError("the parts of the model file do not fit together; it is damaged.")


def _posterior_fits(posterior: Posterior | ExactPosterior, R: int, K: int) -> bool:
    if isinstance(posterior, SparseSamplePosterior):
        columns = posterior.columns
        return (
            columns.shape == posterior.values.shape
            and columns.ndim == 4
            and len(columns) == K
            and columns.dtype == torch.int64
            and 0 <= int(columns.min()) <= int(columns.max()) < R
        )
    if isinstance(posterior, ExactPosterior) and not _exact_fits(posterior, K):
        return False
    return (
        posterior.factors.shape[1:] == (R, R)
        and posterior.factor_of.shape == (K,)
        and posterior.factor_of.dtype == torch.int64
        and (not isinstance(posterior, SamplePosterior) or posterior.weights.shape == posterior.means.shape)
        and 0 <= int(posterior.factor_of.min()) <= int(posterior.factor_of.max()) < len(posterior.factors)
    )


def _exact_fits(posterior: ExactPosterior, K: int) -> bool:
    rows, noise = posterior.inputs, posterior.noise
    return rows.ndim == 2 and posterior.weights.shape == noise.shape == (len(rows), K) and bool((noise > 0).all())


def _check_values(model: Any) -> None:
    """Numbers of the right kind, all finite, factors that can be divided by, two classes."""
    features, posterior = model.features_, model.posterior_
    parts = {name: getattr(posterior, name) for name in posterior.ARRAYS}
    own = [part for name, part in parts.items() if name not in (*_WHOLE_NUMBERS, *_ROWS)]
    projection = () if features.projection is None else (features.projection,)
    doubles = (features.shift, features.scale, *projection, posterior.mean, *own)
    singles = [features.inducing] if features.lower is None else [features.inducing, features.lower]
    singles += [part for name, part in parts.items() if name in _ROWS]
    diagonals = [part.diagonal(dim1=-2, dim2=-1) for part in _factors(features, posterior)]
    sound = (
        features.inducing.dtype in DEFAULT_JITTER
        and all(part.dtype == features.inducing.dtype for part in singles)
        and all(part.dtype == torch.float64 for part in doubles)
        and all(bool(torch.isfinite(part).all()) for part in (*singles, *doubles))
        and bool((features.scale > 0).all())
        and bool((features.shift.abs() / features.scale < farthest(features.dtype)).all())
        and all(bool((part.abs() < farthest(part.dtype)).all()) for part in singles)
        and all(bool((part > 0).all()) for part in diagonals)
        and features.bias >= 0
        and model.seed_ >= 0
        and model._has_sound_classes()
    )
    if not sound:
        raise ModelFileError("the model file holds values that no model has; it is damaged.")


def _check_answers(model: Any) -> None:
    """What the model says of its own inducing inputs; from sound numbers follow finite answers."""
    features = model.features_
    seen = features.inducing[:_PROBED].double()
    own = seen if features.projection is None else seen @ features.projection.T
    rows = (own * features.scale + features.shift).cpu().numpy()
    bags = Bags(rows, np.zeros(len(rows)), feature_names=getattr(model, "feature_names_in_", None))
    if isinstance(model.posterior_, ExactPosterior):  # solves that take as long as the fit are left out
        answers = [part.cpu().numpy() for part in exact_moments(features, model.posterior_, bags, 0)]
    else:
        answers = [*model.predict_latent(bags), model.predict_instance_proba(bags)]
    if not all(np.isfinite(part).all() for part in answers):
        raise ModelFileError("the model file holds values that no model has: its answers are not finite.")


def _factors(features: Features, posterior: Posterior) -> list[Tensor]:
    """The triangular factors, whose diagonals must be positive."""
    own = [] if isinstance(posterior, SparseSamplePosterior) else [posterior.factors]
    return own if features.lower is None else [features.lower, *own]
