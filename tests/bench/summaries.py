"""Made-up results."""

from tests.bench.tiny_table import tiny_table

from bagwise.bench.summary import summarise


def made(values, models=("probit", "small"), scores=None):
    """Records of (row, model) -> one value per fold."""
    found = []
    for (row, model), folds in values.items():
        for fold, value in enumerate(folds):
            found.append(
                {
                    "key": f"tiny/{row}/{model}/0/{fold}",
                    "set": row,
                    "model": model,
                    "repeat": 0,
                    "fold": fold,
                    "error": None,
                    "metrics": {row: {"instance auc": value}},
                    "seconds": {"fit": 2.0, "predict": 0.5},
                    "sizes": {"train": 12, "test": 6},
                    "warnings": ["ConvergenceWarning: not settled"] if model == "small" else [],
                    "versions": {"bagwise": "0"},
                }
                | ({} if scores is None else {"scores": {row: scores[row, model][fold]}})
            )
    return found


def summary_of(values, **changes):
    return summarise(tiny_table(**changes), made(values), n_wanted=18)
