"""Instance accuracy learned from fractions alone: digits even/odd, two moons, and adult incomes by group.

Run: python -m benchmarks.fractions [folder of data sets] [--jobs 2]
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import gpytorch
import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.datasets import load_digits, make_moons
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import BagGP, Bags

DATA = Path(__file__).parents[2] / "shared" / "data"
SEEDS = 3


def random_groups(n, size, rng):
    """Groups of one size, in random order; what is left over makes a smaller last group."""
    return rng.permutation(np.arange(n) // size)


def shares(bags, truth):
    """Fraction of positives of every bag, from labels in the order of the original table."""
    ordered = truth[bags.rows]
    return np.add.reduceat(ordered, bags.offsets[:-1]) / bags.sizes


def fit(X, groups, truth, **settings):
    bags = Bags(X, groups)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BagGP(evidence="fraction", random_state=0, **settings).fit(bags, shares(bags, truth))
    return model, time.perf_counter() - start


def em_svm(bags, fractions, iterations=40):
    """Alternate between ranking the instances inside every bag by an SVM and fitting it to the best-ranked shares."""
    counts = np.round(fractions * bags.sizes).astype(int)
    X = StandardScaler(with_std=False).fit_transform(bags.X) / bags.X.std()
    scores = KernelRidge(alpha=1.0, kernel="rbf", gamma=0.1 / X.shape[1]).fit(X, fractions[bags.index]).predict(X)
    labels = top_ranked(scores, bags, counts)
    for _ in range(iterations):
        machine = SVC(C=1.0, gamma="scale").fit(X, labels)
        before, labels = labels, top_ranked(machine.decision_function(X), bags, counts)
        if (before == labels).all():
            break
    return machine.predict(X)


def top_ranked(scores, bags, counts):
    """1 for the given number of highest scores in every bag."""
    rank = np.empty(len(scores), dtype=int)
    rank[np.lexsort((-scores, bags.index))] = np.arange(len(scores))
    return (rank - bags.offsets[:-1][bags.index] < counts[bags.index]).astype(int)


def pixel_kernel():
    """For pixels, which share one unit: RBF in grey levels, to begin the search with."""
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 8.0, 30.0
    return kernel


def accuracy_table(jobs):
    """Accuracy on the individuals in the bags, whose own labels nobody has seen."""
    print("| data | bags | instance accuracy: BagGP | BagGP, pixels as they are, R = 400 | EM-SVM | s per fit |")
    print("|---|---|---|---|---|---|")
    rows = [("digits", 10, 1), ("digits", 50, 1), ("digits", 50, 5), ("moons", 10, 1), ("moons", 50, 1)]
    cells = [(*row, seed) for row in rows for seed in range(SEEDS)]
    found = np.array(Parallel(jobs)(delayed(accuracies)(*cell) for cell in cells)).reshape(len(rows), SEEDS, 4)
    for (name, size, copies), values in zip(rows, found, strict=True):
        mean, least = values.mean(0), values.min(0)
        shown = [f"{mean[i]:.3f} (worst {least[i]:.3f})" if np.isfinite(mean[i]) else "–" for i in range(3)]
        times = f", everyone in {copies} bags" if copies > 1 else ""
        print(f"| {name} | of {size}{times} | " + " | ".join(shown) + f" | {mean[3]:.1f} |", flush=True)


def individuals(name, seed):
    """Features and classes."""
    if name == "moons":
        return make_moons(1800, noise=0.15, random_state=int(np.random.default_rng(seed).integers(2**31)))
    digits = load_digits()
    return digits.data, digits.target % 2


def accuracies(name, size, copies, seed):
    """Of BagGP at its defaults, on pixels, of the EM-SVM; and the time of the first."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    X, y = individuals(name, seed)
    rows = np.concatenate([np.arange(len(X)) for _ in range(copies)])
    groups = np.concatenate([random_groups(len(X), size, rng) + 10_000 * copy for copy in range(copies)])
    truth = y[rows].astype(float)
    model, seconds = fit(X[rows], groups, truth)
    raw = np.nan
    if name == "digits":
        other, _ = fit(X[rows], groups, truth, kernel=pixel_kernel(), standardize=False, n_inducing=400)
        raw = np.mean(other.predict_instances(X) == y)
    bags = Bags(X[rows], groups)
    machine = np.mean(em_svm(bags, shares(bags, truth)) == truth[bags.rows])
    return np.mean(model.predict_instances(X) == y), raw, machine, seconds


def adult_table(folder, jobs):
    with np.load(Path(folder) / "adult.npz", allow_pickle=False) as file:
        data = {key: file[key] for key in file.files}
    columns, test = [str(c) for c in data["columns"]], data["test"].astype(bool)
    y = data["instance_y"].astype(float)
    X = one_hot(data["X"], columns, [c.removeprefix("cat_") for c in data if c.startswith("cat_")])
    supervised = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(X[~test], y[~test])
    print("\nadult, AUC on the test part\n\n| model | known | AUC | s |\n|---|---|---|---|")
    print(
        f"| logistic regression | every label | {roc_auc_score(y[test], supervised.decision_function(X[test])):.3f} | |"
    )
    rng = np.random.default_rng(0)
    groups = {
        "fractions of 15 occupations": data["X"][~test][:, columns.index("occupation")].astype(int),
        "fractions of random groups of 50": random_groups((~test).sum(), 50, rng),
    }
    found = Parallel(jobs)(delayed(adult_row)(X, y, test, keys) for keys in groups.values())
    for label, (inference, auc, seconds) in zip(groups, found, strict=True):
        print(f"| BagGP ({inference}) | {label} | {auc:.3f} | {seconds:.0f} |", flush=True)


def adult_row(X, y, test, keys):
    torch.set_num_threads(1)
    model, seconds = fit(X[~test], keys, y[~test])
    return model.inference_, roc_auc_score(y[test], model.predict_instance_proba(X[test])[:, 1]), seconds


def one_hot(X, columns, categorical):
    parts = []
    for number, name in enumerate(columns):
        values = X[:, [number]].astype(float)
        parts.append((values == np.unique(values)).astype(float) if name in categorical else values)
    return np.column_stack(parts)


def main(arguments=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default=DATA)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    accuracy_table(options.jobs)
    adult_table(options.folder, options.jobs)


if __name__ == "__main__":
    main(sys.argv[1:])
