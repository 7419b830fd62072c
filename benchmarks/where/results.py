"""What the lines of a run say: means, standard errors, ranks, times."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from bagwise.bench.store import Store
from bagwise.bench.summary import error_of_mean
from bagwise.io.plain_json import number_from_json
from benchmarks.where.ranks import ranking
from benchmarks.where.table import METRICS


@dataclass(frozen=True)
class Results:
    """Records by (data set, model), of the folds that all models have been through."""

    records: dict
    sets: list
    models: list

    @classmethod
    def read(cls, path):
        found = defaultdict(dict)
        for key, record in Store(path).records.items():
            _, name, model, repeat, fold = key.split("/")
            found[name, model][int(repeat), int(fold)] = record
        sets, models = (sorted({key[place] for key in found}) for place in (0, 1))
        places = {name: common_places(found, name, models) for name in sets}
        records = {(name, model): [of[place] for place in places[name]] for (name, model), of in found.items()}
        return cls(records, [name for name in sets if places[name]], models)

    def values(self, name, model, metric):
        """The values of all folds and repeats; none where a fold failed, so that means are over the same folds."""
        records = self.records.get((name, model), [])
        if not records or any(record["error"] is not None for record in records):
            return np.array([])
        found = [number_from_json(record["metrics"][name][f"bag {metric}"]) for record in records]
        return np.array([value for value in found if not np.isnan(value)])

    def mean(self, name, model, metric):
        values = self.values(name, model, metric)
        return float(values.mean()) if len(values) else np.nan

    def error(self, name, model, metric):
        """Standard error: over folds, or, where there is one, over the bags that it holds out."""
        values, records = self.values(name, model, metric), self.records.get((name, model), [])
        if len(records) == 1 and len(values) == 1:
            return number_from_json(records[0]["metrics"][name].get(f"bag {metric} error"))
        return error_of_mean(values) if np.isfinite(values).all() else np.nan

    def means(self, metric, sets=None):
        """(sets, models)."""
        return np.array([[self.mean(name, model, metric) for model in self.models] for name in sets or self.sets])

    def seconds(self, model, name=None):
        """Processor seconds of fit and predictions of one cell, on average; those that failed count as well."""
        chosen = self.sets if name is None else [name]
        found = [record.get("processor_seconds") for one in chosen for record in self.records.get((one, model), [])]
        known = [value for value in found if value is not None]
        return float(np.mean(known)) if known else np.nan

    def iterations(self, name, model):
        """Iterations of one fit, on average; NaN for models that have none."""
        found = [record.get("iterations") for record in self.records.get((name, model), [])]
        known = [value for value in found if value is not None]
        return float(np.mean(known)) if known else np.nan

    def n_warnings(self, name, model):
        return sum(len(record.get("warnings", ())) for record in self.records.get((name, model), []))

    def unfinished(self, model):
        """Number of sets on which a fold failed or took too long."""
        return sum(not len(self.values(name, model, "accuracy")) for name in self.sets)

    def rankings(self, sets=None):
        """By metric."""
        return {metric: ranking(self.models, self.means(metric, sets)) for metric in METRICS}

    def complaints(self):
        """How often each kind of failure occurred, by model."""
        found = defaultdict(int)
        for (_, model), records in self.records.items():
            for record in records:
                if record["error"] is not None:
                    found[model, record["error"].split(":")[-1].strip()[:90]] += 1
        return dict(found)


def common_places(found, name, models):
    """(repeat, fold) that every model was measured on, or failed on: only these are compared."""
    return sorted(set.intersection(*(set(found[name, model]) for model in models)))
