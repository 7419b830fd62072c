"""What estimators that can be fitted by chains answer about these chains."""

import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from bagwise.inference.chains.diagnostics import Chains
from bagwise.inference.chains.prediction_error import PredictionError, prediction_error


class ChainAnswers:
    """Mixin for a ``BagClassifier``: ``chains_`` holds what was watched in every sweep, None without chains."""

    chains_: Chains | None

    @property
    def diagnostics_(self) -> pd.DataFrame:
        """R-hat, bulk and tail effective sample size, Monte Carlo error of every watched quantity.

        The log likelihood of the evidence, the length of v, the mean (where there is a bias) and up to fifty latent
        values φᵀv of random training instances (named by their row in ``bags.X``).
        """
        return self._watched().table.copy()

    def predict_error(self, bags: Any) -> PredictionError:
        """Monte Carlo standard errors of the probabilities, ``.bags`` (B,) and ``.instances`` (N,), or with K columns.

        What finite chains leave uncertain about ``predict_proba`` and ``predict_instance_proba``, not how uncertain
        the model is.
        """
        self._watched()
        model: Any = self
        checked = model._check_bags(bags)
        error = prediction_error(model._fitted(), checked)
        return error if model._several() else PredictionError(error.bags[:, 0], error.instances[:, 0])

    def to_arviz(self) -> Any:
        """The watched quantities and the kept draws of v for ArviZ (which must be installed).

        An ``arviz.InferenceData``; from ArviZ 1.0 on, which no longer has that class, an ``xarray.DataTree``. v is
        thinned (``posterior_``), so it stands in a group of its own, ``posterior_weights``.
        """
        chains = self._watched()
        model: Any = self
        several, weights = model._several(), model.posterior_.weights.cpu().numpy()
        watched = np.moveaxis(chains.values, 0, -1)
        names = ("evidence_log_likelihood", *chains.names[1:])  # ArviZ keeps "log_likelihood" for another thing
        named = dict(zip(names, watched if several else watched[..., 0], strict=True))
        v = np.moveaxis(weights, 0, -1) if several else weights[0]
        return for_arviz({"posterior": named, "posterior_weights": {"v": v}})

    def _watched(self) -> Chains:
        chains = self._found_chains()
        if chains is None:
            raise AttributeError(f"this {type(self).__name__} was not fitted with inference='gibbs': it has no chains.")
        return chains

    def _found_chains(self) -> Chains | None:
        chains: Chains | None = vars(self).get("chains_")  # the file of a model without chains says nothing of them
        return chains


def for_arviz(groups: dict[str, dict[str, Any]]) -> Any:
    """Groups of named draws, as the installed version of ArviZ wants them."""
    if find_spec("arviz") is None:
        raise ImportError("to_arviz needs ArviZ: pip install 'bagwise[arviz]'.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing", category=FutureWarning)  # shown once a day
        import arviz
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict(groups)
    return arviz.InferenceData(**{name: arviz.dict_to_dataset(draws) for name, draws in groups.items()})
