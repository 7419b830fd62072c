"""Why mi-SVM, MI-SVM and the annealed machines are below their published figures on MUSK 1: penalty, width, scaling?

For every setting the accuracy of the methods' own decisions over the folds that come with the data. Then two ways to
choose a setting: the one that is best on the test folds, and the one that is best in an inner five-fold
cross-validation over the training bags of each fold (what a user could do).

Run: python -m benchmarks.musk_settings [--data DIR] [--set musk1] [--models MiSVM,MISVM] [--repeats 1] [--common]
"""

import argparse
import itertools
import sys
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold

from bagwise import Bags, baselines

DATA = Path(__file__).parents[2] / "shared" / "data"
USUAL = {"C": (1.0, 10.0, 100.0, 1000.0), "gamma": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)}  # gamma times 1 / D
SMALLER = {"C": (1.0, 10.0, 100.0), "gamma": (1.0, 3.0, 10.0)}  # for machines that take long
GRID = {"ALSVM": SMALLER, "ALPSVM": SMALLER, "AWSVM": SMALLER}
OWN = {"ALPSVM": {"positive_share": (0.3, 0.5, 0.8)}}


def parsed(text):
    """A grid from "C=1,10;gamma=3"."""
    pairs = (part.split("=") for part in text.split(";"))
    return {name: tuple(float(value) for value in values.split(",")) for name, values in pairs}


def settings_of(name, n_features, grid=None):
    grid = grid or {**GRID.get(name, USUAL), **OWN.get(name, {})}
    for values in itertools.product(*grid.values()):
        one = dict(zip(grid, values, strict=True))
        yield {**one, "gamma": one["gamma"] / n_features}


def called(kind, settings, train, y, test):
    """The method's own decisions about test bags, without calibration."""
    model = kind(random_state=0, **settings)
    rows = model._training_bags(train, y)
    model.machines_ = (model._learn(rows, y.astype(float), np.random.RandomState(0)),)
    return model.machines_[0].scores(model._scaled(model._check_bags(test))) > 0


def right(kind, settings, bags, y, fold):
    """(B,) whether each bag was called rightly when it was tested."""
    found = np.empty(len(y), dtype=bool)
    for number in np.unique(fold):
        train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        found[test] = called(kind, settings, bags[train], y[train], bags[test]) == y[test]
    return found


def inner_folds(y, seed):
    fold = np.empty(len(y), dtype=int)
    for number, (_, test) in enumerate(StratifiedKFold(5, shuffle=True, random_state=seed).split(y, y)):
        fold[test] = number
    return fold


def chosen_inside(kind, grid, bags, y, fold):
    """Accuracy where every test fold gets the setting that was best inside its training bags."""
    found = np.empty(len(y), dtype=bool)
    for number in np.unique(fold):
        train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        inner = inner_folds(y[train], int(number))
        best = max(grid, key=lambda settings: right(kind, settings, bags[train], y[train], inner).mean())
        found[test] = called(kind, best, bags[train], y[train], bags[test]) == y[test]
    return found.mean()


def main(arguments=()):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--set", default="musk1")
    parser.add_argument("--models", default="MiSVM,MISVM")
    parser.add_argument("--grid", type=parsed, metavar="NAME=VALUE,...;...", help="another grid; gamma times 1 / D")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--common", action="store_true", help="one factor for all features instead of standardising")
    parser.add_argument("--inside", action="store_true", help="choose inside the training bags as well: takes long")
    options = parser.parse_args(arguments)
    with np.load(options.data / f"{options.set}.npz", allow_pickle=False) as arrays:
        bags, y, folds = Bags(arrays["X"], arrays["bag"]), arrays["y"].astype(int), arrays["folds"][: options.repeats]
    if options.common:
        bags = bags.with_features(bags.X / bags.X.std())
    for name in options.models.split(","):
        grid = [{**one, "standardize": not options.common} for one in settings_of(name, bags.n_features, options.grid)]
        report(name, grid, bags, y, folds, options.inside)


def report(name, grid, bags, y, folds, inside):
    kind = getattr(baselines, name)
    accuracy = [np.mean([right(kind, settings, bags, y, fold).mean() for fold in folds]) for settings in grid]
    for settings, value in zip(grid, accuracy, strict=True):
        words = ", ".join(f"{key} {number:.4g}" for key, number in settings.items())
        print(f"{name}: {words}: {value:.3f}", flush=True)
    print(f"{name}: best on the test folds {max(accuracy):.3f}", flush=True)
    if inside:
        found = [chosen_inside(kind, grid, bags, y, fold) for fold in folds]
        print(f"{name}: chosen inside the training bags {np.mean(found):.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
