"""From bags and names of models to a result: resumable, and safe to interrupt."""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bagwise._files import PathLike, alone_in
from bagwise._validation import check_count, check_option
from bagwise.bags import Bags, as_bags
from bagwise.bench.cells import cells_of
from bagwise.bench.description import DataSet, Floats, Model, Quick, Table
from bagwise.bench.run import Plan, measure_pending, open_store
from bagwise.compare.contestants import chosen_contestants
from bagwise.compare.folds import OwnData, OwnFolds, draw_folds, groups_of_bags
from bagwise.compare.measures import ANSWERS, METRICS, metrics_of
from bagwise.compare.result import ComparisonResult, result_of
from bagwise.evidence.candidates import candidate_sets
from bagwise.evidence.known import has_known
from bagwise.evidence.labels import label_array, read_labels
from bagwise.exceptions import BagDataError, BagDataWarning, warn_user
from bagwise.metrics import instance_truth
from bagwise.models._base.estimator import check_device

KINDS = tuple(METRICS)


def compare_models(
    bags: Any,
    y: Any,
    models: Sequence[str] | Mapping[str, Any] | None = None,
    *,
    evidence: str = "label",
    folds: int = 10,
    repeats: int = 1,
    groups: Any = None,
    instance_y: Any = None,
    metric: str | None = None,
    settings: Mapping[str, dict[str, Any]] | None = None,
    output: PathLike | None = None,
    fresh: bool = False,
    jobs: int = 1,
    device: str = "cpu",
    seed: int = 0,
    name: str = "bags",
) -> ComparisonResult:
    """Cross-validate models and baselines on the same folds, and say which is best for these bags.

    Parameters
    ----------
    bags : Bags, a list of 2-D arrays, or a 2-D array
        The bags. Those that state nothing are left out, with a warning.
    y : array, dict or Series
        What the bags state, as ``fit`` takes it.
    models : sequence of str, dict of estimators, or None
        Names as on the command line, or estimators of bagwise by names of your own, for example
        ``{"plain": BagGP(), "ard": BagGP(ard=True)}``. None compares the usual ones.
    evidence : {"label", "fraction", "count", "candidates"}
        What ``y`` holds.
    folds : int
        Number of parts; each is tested by models that learned from the others.
    repeats : int
        How often everything is cut anew. More repeats make the errors smaller, at most by the part that comes from
        the cutting.
    groups : array of length B or N, or None
        What must stay together, such as the patient of every bag: no group is learned from and tested on at once.
        None takes the groups that the bags have themselves (``bags.group``).
    instance_y : array of length N, or None
        Labels of instances, for evaluation only: instances are then measured as well.
    metric : str or None
        The measure that decides, for example "bag log_likelihood"; None takes the first of those measured.
    settings : dict of dicts, or None
        Settings of models given by name: ``{"bag-gp": {"n_inducing": 50}}``.
    output : path or None
        Folder for finished results. The same call goes on from there. None keeps nothing.
    fresh : bool
        Whether to begin anew where the folder holds results already.
    jobs : int
        Processes, one thread each.
    device : str
        What the models compute on.
    seed : int
        Of the folds.
    name : str
        What the bags are called among the results.
    """
    asked = chosen_contestants(models, check_option("evidence", evidence, KINDS), has_known(as_bags(bags)), settings)
    check_device(device)
    stated = _stated_bags(as_bags(bags), y, instance_y, groups, evidence, keyed=isinstance(bags, Bags))
    cut = draw_folds(stated.y, stated.groups, folds, repeats, seed, stratify=stated.y.ndim == 1 and evidence == "label")
    data = OwnData(stated.bags, stated.y, stated.instance_y, cut)
    metrics = metrics_of(evidence, instance_y is not None)
    chosen = check_option("metric", metric or metrics[0], metrics)
    table = _table(asked, data, DataSet(name, key=data.digest, rows=stated.rows), evidence, metrics)
    with _folder(output) as folder:
        plan = Plan((table,), Path(folder), Path(folder), jobs=check_count("jobs", jobs), fresh=fresh, device=device)
        return _run(plan, data, asked, metrics, chosen)


def _folder(output: PathLike | None) -> AbstractContextManager[Any]:
    if output is None:
        return tempfile.TemporaryDirectory()
    Path(output).mkdir(parents=True, exist_ok=True)
    return nullcontext(output)


def _table(
    models: tuple[Model, ...], data: OwnData, described: DataSet, evidence: str, metrics: tuple[str, ...]
) -> Table:
    repeats, folds = len(data.folds), int(data.folds.max()) + 1
    return Table(
        name="compare",
        title="Which model is best for these bags?",
        source="",
        protocol="",
        rule=OwnFolds(evidence, folds),
        measure=ANSWERS[evidence],
        sets=(described,),
        models=models,
        metrics=metrics,
        quick=Quick((described.name,)),
        repeats=repeats,
    )


def _run(
    plan: Plan, data: OwnData, models: tuple[Model, ...], metrics: tuple[str, ...], metric: str
) -> ComparisonResult:
    (table,) = plan.tables
    cells = cells_of(table)
    with alone_in(plan.output, "bagwise compare"):
        store = open_store(plan, table)
        pending = store.pending(cells)
        with data.lying_in(plan.output):
            measure_pending(pending, len(cells) - len(pending), {table.name: store}, plan)
    done = [record for cell in cells if (record := store.finished(cell)) is not None]
    failed = [store.records[cell.key] for cell in cells if store.finished(cell) is None]
    return result_of(models, metrics, metric, len(cells) // len(models), done, failed)


# ---------------------------------------------------------------- what the bags state


@dataclass(frozen=True, eq=False)
class _StatedBags:
    """Bags that state something, in plain numbers."""

    bags: Bags
    y: Floats
    instance_y: Floats | None
    groups: Any
    rows: tuple[str, ...]  # names of the label columns where there are several

    def of(self, chosen: Any) -> "_StatedBags":
        """Some of the bags."""
        rows = chosen[self.bags.index]
        truth = None if self.instance_y is None else self.instance_y[rows]
        groups = None if self.groups is None else self.groups[chosen]
        return replace(self, bags=self.bags[chosen], y=self.y[chosen], instance_y=truth, groups=groups)


def _stated_bags(bags: Bags, y: Any, instance_y: Any, groups: Any, evidence: str, *, keyed: bool) -> _StatedBags:
    values, classes, rows = _numbers(bags, y, evidence, keyed)
    if instance_y is not None and evidence == "candidates":
        raise BagDataError("instance labels: not measured where bags have candidate classes; leave them out.")
    truth = None if instance_y is None else instance_truth(instance_y, classes)
    kept = bags.group if groups is None else groups
    numbers = None if kept is None else groups_of_bags(kept, bags)
    stated = _StatedBags(bags, values, truth, numbers, rows)
    absent = np.isnan(values).reshape(len(bags), -1).all(axis=1)
    if absent.all():
        raise BagDataError("nothing is stated about any bag: there is nothing to compare models by.")
    if not absent.any():
        return stated
    warn_user(f"{absent.sum()} of {len(bags)} bags state nothing and are left out.", BagDataWarning)
    return stated.of(~absent)


def _numbers(bags: Bags, y: Any, evidence: str, keyed: bool) -> tuple[Floats, Any, tuple[str, ...]]:
    """What the bags state as numbers, the two classes, and the names of the label columns where there are several."""
    if evidence == "label":
        labels = read_labels(y, bags, keyed=keyed)
        if not labels.several:
            return labels.values[:, 0], labels.classes, ()
        return labels.values, np.tile(labels.classes, (len(labels.names or ()), 1)), labels.names or ()
    if evidence == "candidates":
        sets = candidate_sets(y, bags, keyed=keyed)
        return np.where(sets.observed[:, None], sets.table, np.nan), sets.classes, ()
    array = label_array(y, bags, keyed=keyed)
    values = np.where(pd.isna(array), np.nan, array).astype(np.float64)
    if evidence == "count" and values.shape[1:] != (2,):
        raise BagDataError(f"evidence='count': expected y of shape (B, 2), got shape {values.shape}.")
    return values, np.array([0, 1]), ()
