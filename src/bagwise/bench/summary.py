"""Means, standard errors, differences to what was published, and who beats whom. Numbers only; no formatting."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bagwise.bench.description import Published, Table
from bagwise.bench.store import Record
from bagwise.io.plain_json import number_from_json
from bagwise.metrics import bag_report, instance_report

Floats = NDArray[np.float64]
MEAN_ROW = "mean"
LEVEL = 0.05  # of the paired tests, as in Tang, Zhang & Zhang
FEWEST_FOR_WILCOXON = 6  # rows; with fewer no order of them is unusual


class Entry(NamedTuple):
    """One row, one model, one metric: mean and standard error over folds and repeats, and the figures published."""

    mean: float
    error: float
    n: int
    undefined: int
    published: tuple[Published, ...]

    @property
    def differences(self) -> tuple[float, ...]:
        """Measured minus published."""
        return tuple(self.mean - figure.value for figure in self.published)


class Comparison(NamedTuple):
    """One model against another in one metric, over the rows that both have been measured on."""

    one: str
    other: str
    metric: str
    higher: int  # rows with a higher, an equal, a lower mean
    equal: int
    lower: int
    wins: int  # rows where a paired t-test over folds and repeats at LEVEL sees a difference, and where not
    ties: int
    losses: int
    corrected_wins: int  # the same with the variance corrected for training sets that overlap
    corrected_ties: int
    corrected_losses: int
    wilcoxon: float  # p of the signed-rank test over the rows; NaN with few
    published: tuple[int, int, int] | None  # higher, equal, lower in the published figures of the same rows


class Cost(NamedTuple):
    """What a model took."""

    model: str
    n_cells: int
    fit_seconds: float
    predict_seconds: float
    n_warned: int
    n_failed: int


def summarise(
    table: Table, records: Sequence[Record], failed: Sequence[Record] = (), *, n_wanted: int, quick: bool = False
) -> "Summary":
    """Everything that a page says about a table."""
    return Summary(table, tuple(records), tuple(failed), n_wanted, quick)


@dataclass(frozen=True)
class Summary:
    """The records of a table, and what follows from them."""

    table: Table
    records: tuple[Record, ...]
    failed: tuple[Record, ...]
    n_wanted: int
    quick: bool

    @cached_property
    def rows(self) -> list[str]:
        """The rows that anything was measured on, in the order of the description."""
        seen = {row for record in self.records for row in record["metrics"]}
        return [row for data in self.table.sets for row in data.row_names if row in seen]

    @cached_property
    def models(self) -> list[str]:
        """The models that anything was measured of, in the order of the description."""
        seen = {record["model"] for record in self.records}
        return [name for name in self.table.model_names if name in seen]

    @cached_property
    def _values(self) -> dict[tuple[str, str, str], dict[tuple[int, int], float]]:
        """(row, model, metric) -> (repeat, fold) -> value."""
        found: dict[tuple[str, str, str], dict[tuple[int, int], float]] = defaultdict(dict)
        for record in self.records:
            for row, metrics in record["metrics"].items():
                for metric, value in metrics.items():
                    found[row, record["model"], metric][record["repeat"], record["fold"]] = number_from_json(value)
        return found

    def values(self, row: str, model: str, metric: str) -> Floats:
        """The values of all folds and repeats; NaN where the metric is not defined."""
        return np.array(list(self._values.get((row, model, metric), {}).values()))

    def entry(self, row: str, model: str, metric: str) -> Entry | None:
        """What was measured, or None."""
        if row == MEAN_ROW:
            return self._mean_entry(model, metric)
        return _entry(self.values(row, model, metric), self.published(row, model, metric))

    def _mean_entry(self, model: str, metric: str) -> Entry | None:
        """The mean over rows, with the error over rows, beside the published mean if it is over the same rows."""
        means = [found.mean for row in self.rows if (found := self.entry(row, model, metric)) is not None]
        everything = len(means) == sum(len(data.row_names) for data in self.table.sets)
        return _entry(np.array(means), self.published(MEAN_ROW, model, metric) if everything else ())

    def published(self, row: str, model: str, metric: str) -> tuple[Published, ...]:
        """The figures in the papers, from every place."""
        wanted = row, model, metric
        return tuple(figure for figure in self.table.published if (figure.row, figure.model, figure.metric) == wanted)

    # ------------------------------------------------------------ pooled

    def pooled(self, row: str, model: str, metric: str) -> float:
        """The metric of all folds of a repeat together, averaged over repeats; NaN unless every fold is there."""
        if row == MEAN_ROW:
            return _mean_of_known([self.pooled(other, model, metric) for other in self.rows])
        found = [values.get(metric, np.nan) for values in self.pooled_rows.get((row, model), [])]
        return float(np.mean(found)) if found else float("nan")

    @cached_property
    def pooled_rows(self) -> dict[tuple[str, str], list[dict[str, float]]]:
        """(row, model) -> the metrics of every repeat that is complete, all its folds taken together."""
        folds: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
        for record in self.records:
            for row, scores in record.get("scores", {}).items():
                folds[row, record["model"], record["repeat"]].append(scores)
        found: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
        for (row, model, _), parts in folds.items():
            if len(parts) == self.table.rule.folds:
                found[row, model].append(_pooled_metrics(parts))
        return found

    # ------------------------------------------------------------ one against the other

    def comparisons(self) -> list[Comparison]:
        """The pairs that the description names, in every metric that both have."""
        pairs = [(one, other) for one, other in self.table.comparisons if {one, other} <= set(self.models)]
        made = [self._comparison(one, other, metric) for one, other in pairs for metric in self.table.metrics]
        return [comparison for comparison in made if comparison is not None]

    def _comparison(self, one: str, other: str, metric: str) -> Comparison | None:
        differences = {row: self._differences(row, one, other, metric) for row in self.rows}
        rows = [values for values in differences.values() if len(values)]
        if not rows:
            return None
        means = np.array([values.mean() for values in rows])
        return Comparison(
            *(one, other, metric),
            *_signs(means),
            *_signs(np.array([_significant(values) for values in rows])),
            *_signs(np.array([_significant(values, self._overlap) for values in rows])),
            _wilcoxon(means),
            self._published_signs(one, other, metric),
        )

    def _published_signs(self, one: str, other: str, metric: str) -> tuple[int, int, int] | None:
        """By the first place that has figures of both models for all rows."""
        for place in dict.fromkeys(figure.place for figure in self.table.published):
            figures = {
                (f.row, f.model): f.value for f in self.table.published if (f.place, f.metric) == (place, metric)
            }
            if all((row, model) in figures for row in self.rows for model in (one, other)):
                return _signs(np.array([figures[row, one] - figures[row, other] for row in self.rows]))
        return None

    def _differences(self, row: str, one: str, other: str, metric: str) -> Floats:
        first, second = self._values.get((row, one, metric), {}), self._values.get((row, other, metric), {})
        found = np.array([first[place] - second[place] for place in first if place in second])
        known: Floats = found[~np.isnan(found)]
        return known

    @cached_property
    def _overlap(self) -> float:
        """Test bags over training bags."""
        return float(np.mean([record["sizes"]["test"] / record["sizes"]["train"] for record in self.records]))

    # ------------------------------------------------------------ costs

    def costs(self) -> list[Cost]:
        """Times, warnings and failures of every model."""
        return [self._cost(name) for name in self.table.model_names if self._of(name) or self._lost(name)]

    def _cost(self, model: str) -> Cost:
        records = self._of(model)
        times = [[record["seconds"][part] for record in records] or [np.nan] for part in ("fit", "predict")]
        warned = sum(bool(record["warnings"]) for record in records)
        return Cost(model, len(records), float(np.mean(times[0])), float(np.mean(times[1])), warned, self._lost(model))

    def _of(self, model: str) -> list[Record]:
        return [record for record in self.records if record["model"] == model]

    def _lost(self, model: str) -> int:
        return sum(record["model"] == model for record in self.failed)


def _entry(values: Floats, published: tuple[Published, ...]) -> Entry | None:
    known = values[~np.isnan(values)]
    if len(known) == 0:
        return None
    with np.errstate(invalid="ignore"):  # an infinite value has no spread
        error = error_of_mean(known)
    return Entry(float(known.mean()), error, len(known), len(values) - len(known), published)


def _mean_of_known(values: Sequence[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _pooled_metrics(parts: Sequence[dict[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for level, report in (("bag", bag_report), ("instance", instance_report)):
        if f"{level} score" in parts[0]:
            truth, score = (_joined(parts, f"{level} {what}") for what in ("truth", "score"))
            found |= {f"{level} {name}": value for name, value in report(truth, score).items()}
    if "bag called" in parts[0]:
        true, called = (np.array(_joined(parts, f"bag {what}")) for what in ("truth", "called"))
        found["bag accuracy"] = float(np.mean((called == true)[~np.isnan(true)]))
    return found


def _joined(parts: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [number_from_json(value) for part in parts for value in part[name]]


# ---------------------------------------------------------------- tests


def error_of_mean(values: Floats, overlap: float = 0.0) -> float:
    """Standard error of a mean over folds and repeats; NaN with fewer than two values.

    ``overlap`` (test over training size) corrects the variance for training sets that share bags, as Nadeau & Bengio
    do: s² (1/n + overlap) in place of s²/n.
    """
    if len(values) < 2:
        return float("nan")
    return float(np.std(values, ddof=1) * np.sqrt(1.0 / len(values) + overlap))


def paired_t_test(differences: Floats, overlap: float = 0.0) -> float:
    """Two-sided p of a mean difference of zero, by ``error_of_mean``; NaN with fewer than two differences."""
    error = error_of_mean(differences, overlap)
    if np.isnan(error):
        return error
    mean = float(np.mean(differences))
    if error == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2.0 * stats.t.sf(abs(mean) / error, len(differences) - 1))


def _significant(differences: Floats, overlap: float = 0.0) -> float:
    """The sign of the mean difference where it is significant, 0 where not."""
    return float(np.sign(differences.mean())) if paired_t_test(differences, overlap) < LEVEL else 0.0


def _signs(values: Floats) -> tuple[int, int, int]:
    """How many are above zero, zero, and below."""
    return int((values > 0).sum()), int((values == 0).sum()), int((values < 0).sum())


def _wilcoxon(differences: Floats) -> float:
    if len(differences) < FEWEST_FOR_WILCOXON or not differences.any():
        return float("nan")
    return float(stats.wilcoxon(differences).pvalue)
