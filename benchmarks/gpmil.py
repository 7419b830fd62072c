"""GPMIL beside its published figures: accuracy, text, retrieval, the recovery of a lengthscale, choosing features.

Run: python -m benchmarks.gpmil [NAME ...] [--data DIR] [--repeats 5] [--jobs 2] [--approximation witness,softmax]
     [--picture relevances.png] [--set name=value ...]

musk1, tiger, elephant, fox: --repeats × 10 folds that come with the data; musk2, TREC9 (tst1 … tst7): own stratified
folds; accuracy at one half and AUC pooled over the folds of a repeat, mean and standard deviation over repeats.
corel2000: 20 positive and 24 negative bags for training, the rest ranked, 20 categories × --repeats splits.
lengthscale: 100 bags of a function with lengthscale 3, search from 1, four times --repeats trials.
features: 180 molecules, 40 of 283 features matter, 200 new ones for testing. drug: the artificial molecules
drug_lj_160_166_1, label at 0.5, all but 20 bags for training, four times --repeats splits.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import gpytorch
import numpy as np
import scipy.sparse
import torch
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.preprocessing import normalize

from bagwise import GPMIL, Bags
from bagwise.cli_options import parse_settings
from bagwise.datasets import make_molecule_bags
from bagwise.metrics import log_likelihood
from bagwise.model_selection import RetrievalSplit
from bagwise.plots import RelevanceDisplay

DATA = Path(__file__).parents[2] / "shared" / "data"
FOLDED = ("musk1", "tiger", "elephant", "fox", "musk2")
TEXTS = ("tst1", "tst2", "tst3", "tst4", "tst7")
PUBLISHED = {  # Kim & De la Torre, tables 1 and 2: accuracy in per cent
    "musk1": {"softmax": 88.5, "witness": 89.5},
    "musk2": {"softmax": 87.9, "witness": 87.2},
    "tiger": {"softmax": 87.1, "witness": 87.4},
    "elephant": {"softmax": 82.9, "witness": 83.8},
    "fox": {"softmax": 63.2, "witness": 65.7},
    "tst1": {"witness": 94.4},
    "tst2": {"witness": 85.3},
    "tst3": {"witness": 86.1},
    "tst4": {"witness": 85.3},
    "tst7": {"witness": 80.3},
}
PUBLISHED_LENGTHSCALE = {"softmax": "3.20 ± 0.27", "witness": "3.05 ± 0.21"}


def fit(bags, y, settings):
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GPMIL(random_state=0, **settings).fit(bags, y)


# ---------------------------------------------------------------- cross-validation


def load(folder, name):
    """Bags, labels, and the folds that come with the data, if any."""
    with np.load(Path(folder) / (f"trec9_{name}.npz" if name in TEXTS else f"{name}.npz"), allow_pickle=False) as file:
        X, y = file["X"], file["y"].astype(int)
        if name in TEXTS:
            X = scipy.sparse.csr_array(normalize(scipy.sparse.csr_array(X.astype(np.float64))))
        return Bags(X, file["bag"]), y, file.get("folds")


def folds_of(y, folds, repeats):
    if folds is not None:
        return folds[:repeats]
    made = np.empty((repeats, len(y)), dtype=int)
    for repeat in range(repeats):
        cuts = StratifiedKFold(10, shuffle=True, random_state=repeat).split(y, y)
        for number, (_, test) in enumerate(cuts):
            made[repeat, test] = number
    return made


def mode_score(model, bags):
    """The soft maximum of the posterior means: above 0, (27) of the paper calls the bag positive."""
    sums = np.logaddexp.reduceat(model.sharpness * model.predict_latent(bags)[0], bags.offsets[:-1])
    return (sums - (np.log(bags.sizes) if model.pooling == "mean" else 0.0)) / model.sharpness


def fold_cell(bags, y, fold, number, settings):
    start = time.perf_counter()
    train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
    model = fit(bags[train], y[train], settings)
    return model.predict_proba(bags[test])[:, 1], mode_score(model, bags[test]), time.perf_counter() - start


def cross_validated(name, approximation, options):
    bags, y, folds = load(options.data, name)
    folds = folds_of(y, folds, options.repeats)
    text = {"kernel": "linear", "standardize": False, "lengthscale": 1.0} if name in TEXTS else {}
    settings = {"approximation": approximation} | text | options.settings
    cells = [(r, k) for r in range(len(folds)) for k in np.unique(folds[r])]
    done = Parallel(options.jobs)(delayed(fold_cell)(bags, y, folds[r], k, settings) for r, k in cells)
    p, mode = np.empty(folds.shape), np.empty(folds.shape)
    for (r, k), (values, scores, _) in zip(cells, done, strict=True):
        p[r, folds[r] == k], mode[r, folds[r] == k] = values, scores
    rows = np.array([[np.mean((q > 0.5) == y), roc_auc_score(y, q), log_likelihood(y, q)] for q in p])
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    by_mode = f"{np.mean((mode > 0) == y):.3f}" if approximation == "softmax" else "–"
    published = PUBLISHED[name].get(approximation)
    print(
        f"| {name} | {approximation} | {mean[0]:.3f} ± {spread[0]:.3f} | {by_mode} | "
        f"{'–' if published is None else f'{published / 100:.3f}'} | {mean[1]:.3f} | {mean[2]:.3f} | "
        f"{np.mean([cell[-1] for cell in done]):.1f} |",
        flush=True,
    )


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


# ---------------------------------------------------------------- recovering a lengthscale


def recovery_bags(seed, function_seed, lengthscale=3.0, n_bags=100, n_points=1000):
    """Section 6.1 of the paper: signs of a random function on a line, grouped into bags."""
    random = np.random.default_rng(function_seed)
    x = random.uniform(-30, 30, n_points)
    K = np.exp(-0.5 * (x[:, None] - x) ** 2 / lengthscale**2)
    values, vectors = np.linalg.eigh(K)
    f = vectors @ (np.sqrt(values.clip(0)) * random.standard_normal(n_points))
    random = np.random.default_rng([seed, 1])
    inside, outside = np.flatnonzero(f > 0), np.flatnonzero(f <= 0)
    arrays, y = [], []
    for _ in range(n_bags):
        label, size = int(random.integers(2)), int(random.integers(1, 11))
        count = int(np.ceil(random.integers(1, 11) / 10 * size)) if label else 0
        chosen = [random.choice(inside, count), random.choice(outside, size - count)]
        arrays.append(x[np.concatenate(chosen)][:, None])
        y.append(label)
    return Bags.from_list(arrays), np.array(y)


def recovery_cell(trial, fresh, approximation, settings):
    kernel = gpytorch.kernels.RBFKernel().double()
    kernel.lengthscale = 1.0
    bags, y = recovery_bags(trial, trial if fresh else 0)
    fixed = {"kernel": kernel, "standardize": False, "bias": 0.0, "n_restarts": 1, "n_inducing": 300}
    model = fit(bags, y, fixed | {"approximation": approximation} | settings)
    return model.kernel_.lengthscale.item()


def recovery(approximations, options):
    print("\n| lengthscale 3 | published | fresh function in every trial: mean ± sd, median | one function |")
    print("|---|---|---|---|")
    for name in approximations:
        cells = [(trial, fresh) for fresh in (True, False) for trial in range(4 * options.repeats)]
        found = Parallel(options.jobs)(delayed(recovery_cell)(t, fresh, name, options.settings) for t, fresh in cells)
        fresh, one = np.reshape(found, (2, -1))
        words = [f"{part.mean():.2f} ± {part.std():.2f}, {np.median(part):.2f}" for part in (fresh, one)]
        print(f"| {name} | {PUBLISHED_LENGTHSCALE[name]} | {words[0]} | {words[1]} |", flush=True)


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


def drug_cell(bags, y, split, settings):
    train, test = list(StratifiedShuffleSplit(split + 1, test_size=20, random_state=0).split(y, y))[split]
    model = fit(bags[train], y[train], settings)
    return model.score(bags[test], y[test]), model.log_evidence_


def drug(approximations, options):
    """The features are distances, in one unit: standardising gives the constant ones as much weight as the others."""
    with np.load(Path(options.data) / "drug_lj_160_166_1.npz", allow_pickle=False) as file:
        bags, y = Bags(file["X"], file["bag"]), file["y_bin"].astype(int)
    print(
        "\n| drug_lj_160_166_1 | kernel | features | accuracy | log evidence | published |\n|---|---|---|---|---|---|"
    )
    cases = [(name, ard, scale) for name in approximations for ard in (False, True) for scale in (False, True)]
    for name, ard, scale in cases:
        settings = {"approximation": name, "ard": ard, "standardize": scale, "n_restarts": 1} | options.settings
        splits = range(4 * options.repeats)
        found = Parallel(options.jobs)(delayed(drug_cell)(bags, y, split, settings) for split in splits)
        accuracy, evidence = np.transpose(found)
        words = ["ARD" if ard else "isotropic", "standardised" if scale else "as they are"]
        print(
            f"| {name} | {' | '.join(words)} | {accuracy.mean():.3f} ± {accuracy.std():.3f} | {evidence.mean():.1f} | "
            f"{'1.000' if ard else '.978 ± .050'} |",
            flush=True,
        )


OTHERS = {"corel2000": retrieval, "lengthscale": recovery, "features": features, "drug": drug}


def main(arguments=()):
    names = (*FOLDED, *TEXTS, *OTHERS)
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--approximation", default="witness,softmax")
    parser.add_argument("--picture", help="where to draw the relevances of the 283 features")
    parser.add_argument("--set", action="append", default=[], help="a setting of GPMIL, name=value")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    options.settings = parse_settings(options.set, GPMIL)
    wanted, approximations = options.names or names, options.approximation.split(",")
    if any(name in FOLDED + TEXTS for name in wanted):
        print("| data | approximation | accuracy | by the mode (27) | published | AUC | log-likelihood | s per fold |")
        print("|---|---|---|---|---|---|---|---|")
    for name in (name for name in wanted if name in FOLDED + TEXTS):
        for approximation in ["witness"] if name in TEXTS else approximations:
            cross_validated(name, approximation, options)
    for name in (name for name in wanted if name in OTHERS):
        OTHERS[name](approximations, options)


if __name__ == "__main__":
    main(sys.argv[1:])
