"""Transformers of rows and a model, as one estimator that keeps all of the model's methods."""

from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.pipeline import make_pipeline as named_steps
from sklearn.utils.validation import check_is_fitted

from bagwise._files import PathLike
from bagwise.bags import Bags, as_bags
from bagwise.exceptions import ModelFileError
from bagwise.models._base.state import pack
from bagwise.models._base.transformers import check_together, pack_step, unpack_step
from bagwise.per_instance import PerInstance
from bagwise.persistence import write_model

PIPELINE = "pipeline"  # in model files, where a model has its name


def make_pipeline(*steps: Any) -> "BagPipeline":
    """A ``BagPipeline`` of some transformers and a model, with names made from their classes.

    Parameters
    ----------
    *steps : scikit-learn transformers, then one model
        A transformer sees the rows of all bags together: it is put into ``PerInstance`` unless it is one already.

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from bagwise import VGPMIL, make_pipeline
    >>> from bagwise.datasets import make_bags
    >>> bags, y, _ = make_bags(30, 5, 4, random_state=0)
    >>> model = make_pipeline(PCA(2), VGPMIL(max_iter=5, random_state=0)).fit(bags, y)
    >>> model.predict_instance_proba(bags).shape
    (150, 2)
    """
    *transformers, model = steps
    wrapped = [step if isinstance(step, PerInstance) else PerInstance(step) for step in transformers]
    names = [name for name, _ in named_steps(*(step.transformer for step in wrapped), model).steps]
    return BagPipeline(list(zip(names, [*wrapped, model], strict=True)))


class BagPipeline(Pipeline):
    """scikit-learn's ``Pipeline`` with everything that a model of bags can do.

    ``predict_instance_proba`` and all other answers see the transformed bags. Fitted attributes of the model
    (``rule_``, ``trace_``, ``diagnostics_`` …) can be read from the pipeline. ``save`` writes transformers and model
    into one file, which ``bagwise.load`` reads.

    Parameters
    ----------
    steps : list of (name, step)
        Transformers of bags (``PerInstance``), then one model. Use ``make_pipeline`` to have the names made for you.
    transform_input : list of str or None, default=None
        A setting of scikit-learn that has no use here. Keep it None.
    memory : str or None, default=None
        Folder in which scikit-learn keeps fitted transformers. Set it where a transformer is slow and is fitted again
        and again, as in a search over settings of the model.
    verbose : bool, default=False
        Whether the time of every step is printed. Use True to find out which step is slow.

    Attributes
    ----------
    model_ : estimator
        The last step.
    classes_ : ndarray
        The classes of bags that the model knows.
    n_features_in_ : int
        Number of features of the bags before any transformer.
    feature_names_in_ : ndarray of str
        Names of these features, where the bags had names.
    """

    # ------------------------------------------------------------ answers

    def prepare(self, bags: Any) -> Bags:
        """The bags as the model sees them: after all transformers."""
        check_is_fitted(self)
        prepared = as_bags(bags)
        for _, step in self.steps[:-1]:
            prepared = step.transform(prepared)
        return prepared

    @property
    def model_(self) -> Any:
        """The last step."""
        return self.steps[-1][1]

    def predict_instance_proba(self, bags: Any, **asked: Any) -> NDArray[np.float64]:
        """Probabilities of every instance, in the order of ``bags.X``; ``given`` as in the model's own method."""
        found: NDArray[np.float64] = self.model_.predict_instance_proba(self.prepare(bags), **asked)
        return found

    def predict_instances(self, bags: Any) -> NDArray[Any]:
        """The most probable class of every instance, in the order of ``bags.X``."""
        found: NDArray[Any] = self.model_.predict_instances(self.prepare(bags))
        return found

    def predict_latent(self, bags: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and variance of the latent f of every instance."""
        found: tuple[NDArray[np.float64], NDArray[np.float64]] = self.model_.predict_latent(self.prepare(bags))
        return found

    def __getattr__(self, name: str) -> Any:
        """What else the model has: further ``predict_…`` methods see prepared bags, anything else is as it is."""
        if name.startswith("_") or "steps" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = getattr(self.model_, name)
        if not name.startswith("predict_"):
            return found
        return lambda bags, *arguments, **named: found(self.prepare(bags), *arguments, **named)

    # ------------------------------------------------------------ files

    def save(self, path: PathLike, *, notes: dict[str, Any] | None = None) -> None:
        """Write transformers and model to one file, whole or not at all.

        ``StandardScaler``, ``MinMaxScaler``, ``MaxAbsScaler``, ``RobustScaler``, ``Normalizer``, ``PCA``,
        ``TruncatedSVD`` and ``VarianceThreshold`` can be saved before a model; with any other the pipeline works, and
        ``save`` says that it cannot be saved.
        """
        check_is_fitted(self.model_, "posterior_")
        description, tensors = pack(self.model_)
        steps = [
            {"name": name, **pack_step(_checked_step(name, step), f"step.{number}", tensors)}
            for number, (name, step) in enumerate(self.steps[:-1])
        ]
        last = {"name": self.steps[-1][0], "model": self.model_.card.name}
        description |= {"model": PIPELINE, "steps": steps, "last": last, "version": version("bagwise")}
        write_model(path, description | {"notes": notes or {}}, tensors)


def _checked_step(name: str, step: Any) -> PerInstance:
    if not isinstance(step, PerInstance):
        raise ModelFileError(f"the step {name!r} is a {type(step).__name__}; only PerInstance(...) can be saved.")
    return step


def without_steps(model: Any, bags: Any) -> tuple[Any, Any]:
    """The last step of a pipeline and the bags as it sees them; any other model and its bags as they are."""
    return (model.model_, model.prepare(bags)) if isinstance(model, BagPipeline) else (model, bags)


def rebuild_pipeline(description: dict[str, Any], tensors: dict[str, Any], model: Any) -> BagPipeline:
    """The pipeline around a model from a file."""
    try:
        described = description["steps"]
        steps = [unpack_step(step, f"step.{number}", tensors) for number, step in enumerate(described)]
        if steps:
            check_together(steps, model)
        names = [str(step["name"]) for step in described]
        return BagPipeline([*zip(names, steps, strict=True), (str(description["last"]["name"]), model)])
    except ModelFileError:
        raise
    except Exception as error:  # a damaged description can go wrong in any way
        raise ModelFileError(f"the pipeline in the model file is incomplete or damaged ({error!r:.200}).") from error
