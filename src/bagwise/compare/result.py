"""What came of a comparison: means with standard errors, paired differences, who is best. Numbers only."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from bagwise.bench.description import Floats, Model
from bagwise.bench.measure import build
from bagwise.bench.store import Record
from bagwise.bench.summary import LEVEL, error_of_mean, paired_t_test
from bagwise.compare.measures import sign_of
from bagwise.exceptions import BagDataError
from bagwise.io.plain_json import number_from_json


class MeanOverFolds(NamedTuple):
    """A measure of one model: mean, standard error and number of folds in which it is defined."""

    mean: float
    error: float
    n: int


class Difference(NamedTuple):
    """The best model minus another one, fold by fold: mean, standard error, 95 % interval, p of no difference."""

    other: str
    mean: float
    error: float
    lower: float
    upper: float
    p: float


@dataclass(frozen=True)
class ComparisonResult:
    """Models measured on the same folds of one's own bags.

    Standard errors are corrected for training sets that overlap (Nadeau & Bengio, 2003, equation 9 in their notation:
    the variance over folds times 1/n + n_test/n_train instead of 1/n). Where bags have several label columns, the
    value of a fold is the mean over the columns.
    """

    models: tuple[Model, ...]
    metrics: tuple[str, ...]
    metric: str  # the one that decides
    n_folds: int  # folds times repeats
    records: tuple[Record, ...]
    failed: tuple[Record, ...] = ()

    @property
    def names(self) -> list[str]:
        """The models, in the order they were named in."""
        return [model.name for model in self.models]

    @cached_property
    def _values(self) -> pd.DataFrame:
        """Rows (repeat, fold), columns (model, metric)."""
        found = [
            (record["model"], metric, record["repeat"], record["fold"], number_from_json(value))
            for record in self.records
            for metrics in record["metrics"].values()
            for metric, value in metrics.items()
        ]
        table = pd.DataFrame(found, columns=["model", "metric", "repeat", "fold", "value"])
        return table.pivot_table("value", ["repeat", "fold"], ["model", "metric"], aggfunc="mean")

    @cached_property
    def overlap(self) -> float:
        """Test bags over training bags."""
        return float(np.mean([record["sizes"]["test"] / record["sizes"]["train"] for record in self.records]))

    def values(self, model: str, metric: str | None = None) -> "pd.Series[float]":
        """One value per repeat and fold; empty where the model has no such measure."""
        place = model, metric or self.metric
        return self._values[place].dropna() if place in self._values else pd.Series(dtype=float)

    def mean(self, model: str, metric: str | None = None) -> MeanOverFolds:
        """The mean over folds and repeats with its corrected standard error."""
        values: Floats = np.asarray(self.values(model, metric), dtype=np.float64)
        if len(values) == 0:
            return MeanOverFolds(np.nan, np.nan, 0)
        return MeanOverFolds(float(values.mean()), error_of_mean(values, self.overlap), len(values))

    # ------------------------------------------------------------ who is best

    @cached_property
    def best(self) -> str:
        """The model with the best mean among those measured in most folds."""
        measured = {name: self.mean(name) for name in self.names}
        most = max(entry.n for entry in measured.values())
        if most == 0:
            raise BagDataError(f"no model could be measured by {self.metric}{self._first_error()}.")
        complete = {name: entry.mean for name, entry in measured.items() if entry.n == most}
        return max(complete, key=lambda name: sign_of(self.metric) * complete[name])

    def _first_error(self) -> str:
        return f"; the first error was: {self.failed[0]['error']}" if self.failed else ""

    def difference(self, one: str, other: str, metric: str | None = None) -> Difference:
        """One model minus another, over the folds that both were measured in."""
        pairs = pd.concat([self.values(one, metric), self.values(other, metric)], axis=1, join="inner")
        found: Floats = (pairs.iloc[:, 0] - pairs.iloc[:, 1]).to_numpy()
        mean, error = float(found.mean()), error_of_mean(found, self.overlap)
        half = error * float(stats.t.isf(LEVEL / 2, max(len(found) - 1, 1)))
        return Difference(other, mean, error, mean - half, mean + half, paired_t_test(found, self.overlap))

    def differences(self, metric: str | None = None) -> list[Difference]:
        """The best model against every other one."""
        return [
            self.difference(self.best, name, metric)
            for name in self.names
            if name != self.best and len(self.values(name, metric))
        ]

    def not_told_apart(self) -> list[str]:
        """Models from which the best one is not significantly different at 5 %."""
        return [found.other for found in self.differences() if not found.p < LEVEL]

    def estimator(self, name: str | None = None) -> Any:
        """The model of this name (the best one without), ready for ``fit``."""
        chosen = next(model for model in self.models if model.name == (name or self.best))
        return build(chosen, seed=0)

    # ------------------------------------------------------------ tables

    def to_frame(self) -> pd.DataFrame:
        """One row per model: mean and error of every measure, seconds per fit, folds measured and failed."""
        return pd.DataFrame([self._row(name) for name in self.names])

    def _row(self, name: str) -> dict[str, Any]:
        entries = {metric: self.mean(name, metric) for metric in self.metrics}
        columns: dict[str, float] = {}
        for metric, entry in entries.items():
            columns |= {metric: entry.mean, f"{metric} error": entry.error}
        mine = [record for record in self.records if record["model"] == name]
        seconds = float(np.mean([record["seconds"]["fit"] for record in mine])) if mine else np.nan
        failed = sum(record["model"] == name for record in self.failed)
        warned = sum(bool(record["warnings"]) for record in mine)
        counts = {"folds": len(mine), "failed": failed, "warned": warned}
        return {"model": name} | columns | {"fit seconds": seconds} | counts

    @property
    def is_complete(self) -> bool:
        """Whether every model was measured in every fold."""
        return len(self.records) == self.n_folds * len(self.models)


def result_of(
    models: tuple[Model, ...],
    metrics: tuple[str, ...],
    metric: str,
    n_folds: int,
    records: Sequence[Record],
    failed: Sequence[Record],
) -> ComparisonResult:
    """The result; of the measures only those that some model has."""
    there = {name for record in records for found in record["metrics"].values() for name in found}
    kept = tuple(name for name in metrics if name in there)
    return ComparisonResult(models, kept, metric, n_folds, tuple(records), tuple(failed))
