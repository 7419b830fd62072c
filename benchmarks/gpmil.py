"""GPMIL beyond the papers' tables (those: ``bagwise bench benchmarks``, ``text``, ``drug``, ``recovery``).

modes      the soft maximum, decided by its probability and by the mode (27), on MUSK 1, tiger and MUSK 2: --repeats ×
           10 folds, those that come with the data where there are any; accuracy pooled over the folds of a repeat, mean
           and standard deviation over repeats
corel2000  20 positive and 24 negative bags for training, the rest ranked, 20 categories × --repeats splits
features   180 molecules, 40 of 283 features matter, 200 new ones for testing

Run: python -m benchmarks.gpmil [NAME ...] [--data DIR] [--repeats 5] [--jobs 2] [--approximation witness,softmax]
     [--picture relevances.png] [--set name=value ...]
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from bagwise import GPMIL, Bags
from bagwise.cli.options import parse_settings
from bagwise.datasets import make_molecule_bags
from bagwise.model_selection import RetrievalSplit
from bagwise.plots import RelevanceDisplay

DATA = Path(__file__).parents[2] / "shared" / "data"


def fit(bags, y, settings):
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GPMIL(random_state=0, **settings).fit(bags, y)


# ---------------------------------------------------------------- the soft maximum and its mode


def drawn_folds(y, repeats):
    """(repeats, B) the fold in which each bag is tested."""
    folds = np.empty((repeats, len(y)), dtype=int)
    for repeat, row in enumerate(folds):
        for number, (_, test) in enumerate(StratifiedKFold(10, shuffle=True, random_state=repeat).split(y, y)):
            row[test] = number
    return folds


def fold_cell(bags, y, fold, number, settings):
    train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
    model = fit(bags[train], y[train], settings)
    return (model.predict_proba(bags[test])[:, 1] > 0.5) == y[test], model.predict(bags[test]) == y[test]


def modes(_, options):
    print("\n| soft maximum | accuracy by the probability | by the mode | published |\n|---|---|---|---|")
    for name, published in (("musk1", 0.885), ("tiger", 0.871), ("musk2", 0.879)):
        with np.load(Path(options.data) / f"{name}.npz", allow_pickle=False) as file:
            bags, y, folds = Bags(file["X"], file["bag"]), file["y"].astype(int), file.get("folds")
        folds = drawn_folds(y, options.repeats) if folds is None else folds[: options.repeats]
        settings = {"approximation": "softmax", "decision": "mode"} | options.settings
        cells = [(row, number) for row in folds for number in np.unique(row)]
        right = Parallel(options.jobs)(delayed(fold_cell)(bags, y, row, number, settings) for row, number in cells)
        ways = (np.concatenate(way).reshape(len(folds), -1).mean(axis=1) for way in zip(*right, strict=True))
        words = " | ".join(f"{way.mean():.3f} ± {way.std():.3f}" for way in ways)
        print(f"| {name} | {words} | {published:.3f} |", flush=True)


# ---------------------------------------------------------------- retrieval


def retrieval_cell(bags, category, wanted, split, settings):
    y = (category == wanted).astype(int)
    splitter = RetrievalSplit(split + 1, random_state=100 * wanted)
    train, test = list(splitter.split(bags, y, category))[split]
    model = fit(bags[train], y[train], settings)
    return roc_auc_score(y[test], model.predict_proba(bags[test])[:, 1])


def retrieval(approximations, options):
    with np.load(Path(options.data) / "corel2000.npz", allow_pickle=False) as file:
        bags, category = Bags(file["X"], file["bag"]), file["y"].astype(int)
    cells = [(c, s) for c in np.unique(category) for s in range(options.repeats)]
    print("\n| corel2000, category | " + " | ".join(f"{name}, AUROC" for name in approximations) + " |")
    print("|---|" + "---|" * len(approximations))
    columns = []
    for name in approximations:
        settings = {"approximation": name} | options.settings
        found = Parallel(options.jobs)(delayed(retrieval_cell)(bags, category, c, s, settings) for c, s in cells)
        columns.append(np.reshape(found, (-1, options.repeats)))
    for number, rows in enumerate(zip(*columns, strict=True)):
        print(f"| {number} | " + " | ".join(f"{row.mean():.3f} ± {row.std():.3f}" for row in rows) + " |")
    print("| mean | " + " | ".join(f"{column.mean():.3f}" for column in columns) + " |", flush=True)


# ---------------------------------------------------------------- features that matter


def feature_cell(seed, ard, settings):
    bags, y, _, relevant = make_molecule_bags(380, random_state=seed)
    train, test = np.arange(180), np.arange(180, 380)
    model = fit(bags[train], y[train], {"ard": ard, "n_restarts": 1} | settings)
    separation = roc_auc_score(relevant, model.relevance_) if ard else np.nan
    return model.score(bags[test], y[test]), separation


def draw_features(path):
    """The relevances of all 283 features, one lengthscale for each."""
    bags, y, _, relevant = make_molecule_bags(180, random_state=0)
    model = fit(bags, y, {"ard": True, "n_restarts": 1})
    display = RelevanceDisplay.from_estimator(model, relevant=relevant)
    display.ax_.set_title("40 of 283 features matter: learned from 180 bag labels", loc="left", fontsize=11)
    display.figure_.savefig(path, dpi=110)


def features(approximations, options):
    print("\n| 40 of 283 features | kernel | accuracy | AUC of the relevances |\n|---|---|---|---|")
    for name in approximations:
        for ard in (False, True):
            settings = {"approximation": name} | options.settings
            found = Parallel(options.jobs)(delayed(feature_cell)(s, ard, settings) for s in range(options.repeats))
            accuracy, separation = np.transpose(found)
            word = f"{separation.mean():.4f} (lowest {separation.min():.4f})" if ard else "–"
            kernel = "ARD" if ard else "isotropic"
            print(f"| {name} | {kernel} | {accuracy.mean():.3f} ± {accuracy.std():.3f} | {word} |", flush=True)
    if options.picture is not None:
        draw_features(options.picture)


PARTS = {"modes": modes, "corel2000": retrieval, "features": features}


def main(arguments=()):
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PARTS))
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--approximation", default="witness,softmax")
    parser.add_argument("--picture", help="where to draw the relevances of the 283 features")
    parser.add_argument("--set", action="append", default=[], help="a setting of GPMIL, name=value")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    options.settings = parse_settings(options.set, GPMIL)
    for name in options.names or PARTS:
        PARTS[name](options.approximation.split(","), options)


if __name__ == "__main__":
    main(sys.argv[1:])
