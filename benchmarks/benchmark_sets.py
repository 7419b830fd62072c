"""BagGP at its defaults on MUSK 1, tiger, elephant and fox, beside an SVM on per-bag mean, minimum and maximum.

Protocol: 5 × 10-fold over bags with the folds that come with the data; accuracy at 0.5, AUC, log-likelihood and
calibration error pooled over the folds of a repeat, then averaged over repeats, with the standard deviation over them.
Run: python -m benchmarks.benchmark_sets [folder] [--repeats 5] [--sets musk1,tiger] [--inducing 50,100,200,all]
"""

import argparse
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import BagGP, Bags
from bagwise.metrics import calibration_error, log_likelihood

DATA = Path(__file__).parents[2] / "shared" / "data"
BEST_PUBLISHED = {
    "musk1": 0.895,
    "tiger": 0.874,
    "elephant": 0.838,
    "fox": 0.657,
}  # Kim & De la Torre, table 1: accuracy


def load(folder, name):
    with np.load(Path(folder) / f"{name}.npz", allow_pickle=False) as file:
        return Bags(file["X"], file["bag"]), file["y"].astype(int), file["folds"]


def summaries(bags):
    """Mean, minimum and maximum of every feature over each bag."""
    starts = bags.offsets[:-1]
    mean = np.add.reduceat(bags.X, starts) / bags.sizes[:, None]
    return np.column_stack([mean, np.minimum.reduceat(bags.X, starts), np.maximum.reduceat(bags.X, starts)])


def svm_fold(bags, y, train, test):
    machine = make_pipeline(StandardScaler(), SVC(probability=False))
    grid = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": [1e-4, 1e-3, 1e-2]}
    search = GridSearchCV(machine, grid, cv=5).fit(summaries(bags[train]), y[train])
    score = search.decision_function(summaries(bags[test]))
    return 1 / (1 + np.exp(-score)), 0.0  # only the ranking and the sign are used


def gp_fold(bags, y, train, test, settings):
    torch.set_num_threads(1)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BagGP(random_state=0, **settings).fit(bags[train], y[train])
    return model.predict_proba(bags[test])[:, 1], time.perf_counter() - start


def run(bags, y, folds, fit, jobs):
    """Metrics of every repeat, and the mean time of a fit."""
    cells = [(r, f) for r in range(len(folds)) for f in np.unique(folds[r])]
    done = Parallel(jobs)(
        delayed(fit)(bags, y, np.flatnonzero(folds[r] != f), np.flatnonzero(folds[r] == f)) for r, f in cells
    )
    p = np.empty(folds.shape)
    for (r, f), (values, _) in zip(cells, done, strict=True):
        p[r, folds[r] == f] = values
    rows = [
        [np.mean((p[r] > 0.5) == y), roc_auc_score(y, p[r]), log_likelihood(y, p[r]), calibration_error(y, p[r])]
        for r in range(len(folds))
    ]
    return np.array(rows), np.mean([seconds for _, seconds in done])


def show(label, rows, seconds, probabilities=True):
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    cells = [f"{mean[i]:.3f} ± {spread[i]:.3f}" if i < 2 or probabilities else "–" for i in range(4)]
    print(f"| {label} | " + " | ".join([*cells, f"{seconds:.2f}" if seconds else "–"]) + " |", flush=True)


def main(arguments=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default=DATA)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sets", default="musk1,tiger,elephant,fox")
    parser.add_argument("--inducing", default="200")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--ard", action="store_true")
    parser.add_argument("--kernel", default="rbf")
    parser.add_argument("--no-svm", action="store_true")
    options = parser.parse_args(arguments)
    for name in options.sets.split(","):
        bags, y, folds = load(options.folder, name)
        folds = folds[: options.repeats]
        print(f"\n{name} ({options.repeats} × 10 folds; best published accuracy {BEST_PUBLISHED[name]})\n")
        print("| model | accuracy | AUC | log-likelihood | calibration error | s per fit |\n|---|---|---|---|---|---|")
        if not options.no_svm:
            show("SVM on mean, min, max", *run(bags, y, folds, svm_fold, options.jobs), probabilities=False)
        for size in options.inducing.split(","):
            n_inducing = None if size == "all" else int(size)
            settings = {"n_inducing": n_inducing, "ard": options.ard, "kernel": options.kernel}
            label = f"BagGP, {options.kernel}, R = {size}" + (", ARD" if options.ard else "")
            show(label, *run(bags, y, folds, partial(gp_fold, settings=settings), options.jobs))


if __name__ == "__main__":
    main(sys.argv[1:])
