"""Cells in AnnData: their features in, predictions back."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from bagwise._validation import shorten
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.metrics import positive_proba


def cell_features(adata: Any, features: str) -> tuple[Any, list[str] | None]:
    """The rows of cells and the names of their columns: "X", or an entry of ``obsm``. Sparse rows stay sparse."""
    if not (hasattr(adata, "obs") and hasattr(adata, "obsm")):
        need = "" if find_spec("anndata") else " (pip install 'bagwise[anndata]')"
        raise BagDataError(f"from_anndata: expected an AnnData object{need}, got {type(adata).__name__}.")
    if features == "X":
        return _in_memory(adata.X), [str(name) for name in adata.var_names]
    if features not in adata.obsm:
        raise BagDataError(
            f"features={features!r}: there is no such entry in obsm; there are {shorten(adata.obsm, 12) or 'none'}, "
            "and 'X' for the matrix itself."
        )
    rows = adata.obsm[features]
    if hasattr(rows, "columns"):
        return rows.to_numpy(), [str(name) for name in rows.columns]
    found = _in_memory(rows)
    return found, [f"{features}_{number}" for number in range(found.shape[1])]


def _in_memory(rows: Any) -> Any:
    """Rows of a backed object are read here; a sparse matrix stays one."""
    if rows is None:
        raise BagDataError("features='X': this AnnData object has no X; name an entry of obsm.")
    if scipy.sparse.issparse(rows) or isinstance(rows, np.ndarray):
        return rows
    return rows.to_memory() if hasattr(rows, "to_memory") else np.asarray(rows[:])


def add_to_anndata(
    adata: Any,
    model: Any,
    bags: Bags,
    *,
    probability: str = "bagwise_probability",
    spread: str | None = None,
    bag_probability: str | None = None,
    given: Any = None,
) -> None:
    """Write what a model says of the cells into ``adata``, cell by cell; cells that are not in ``bags`` get NaN.

    Parameters
    ----------
    adata : the object that ``bags`` came from; it is changed (write a backed one to disk yourself)
    model : a fitted model
    bags : from ``Bags.from_anndata``, all of them or some
    probability : name of the column of ``obs`` for P(positive) of the cell; with several labels or classes an entry of
        ``obsm``, one column for each
    spread : name for the standard deviation of that probability; None leaves it out
    bag_probability : name for P(positive) of the cell's bag, repeated for each of its cells; None leaves it out
    given : labels of the bags, as in ``predict_instance_proba``
    """
    condition = {} if given is None else {"given": given}
    answers = {probability: _positive(model, model.predict_instance_proba(bags, **condition))}
    if spread is not None:
        answers[spread] = model.predict_instance_spread(bags)
    if bag_probability is not None:
        answers[bag_probability] = _positive(model, model.predict_proba(bags, **condition))[bags.index]
    places = _places_of_cells(adata, bags)
    for name, values in answers.items():
        whole = np.full((adata.n_obs, *values.shape[1:]), np.nan)
        whole[places] = values
        (adata.obs if values.ndim == 1 else adata.obsm)[name] = whole


def _positive(model: Any, probability: NDArray[np.float64]) -> NDArray[np.float64]:
    return probability if model.of_classes else positive_proba(probability, model.classes_)


def _places_of_cells(adata: Any, bags: Bags) -> NDArray[np.int64]:
    """Where the instances stand in ``adata``, by the names of the cells."""
    meta = bags.meta
    if meta is None or "cell" not in meta:
        raise BagDataError("these bags do not know the names of their cells; make them with Bags.from_anndata.")
    if not adata.obs_names.is_unique:
        raise BagDataError("two cells of adata have the same name; call adata.obs_names_make_unique() before all else.")
    places = adata.obs_names.get_indexer(meta["cell"])
    lost = np.flatnonzero(places < 0)
    if len(lost):
        raise BagDataError(f"adata has no cell {shorten(meta['cell'].iloc[lost])}; give the object the bags came from.")
    found: NDArray[np.int64] = np.asarray(places, dtype=np.int64)
    return found
