"""Instance accuracy learned from fractions alone: digits even/odd, two moons, and adult incomes by group.

Run: python -m benchmarks.fractions [folder of data sets]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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


def accuracy_table():
    print("| data | bag size | instance accuracy, training | test | inference | s per fit |\n|---|---|---|---|---|---|")
    digits = load_digits()
    sets = {
        "digits even/odd": lambda rng: (digits.data, (digits.target % 2).astype(float)),
        "two moons": lambda rng: make_moons(2000, noise=0.15, random_state=int(rng.integers(2**31))),
    }
    for name, make in sets.items():
        for size in (10, 50):
            rows = []
            for seed in range(SEEDS):
                rng = np.random.default_rng(seed)
                X, y = make(rng)
                train = rng.permutation(len(X)) < int(0.7 * len(X))
                model, seconds = fit(X[train], random_groups(train.sum(), size, rng), y[train].astype(float))
                inside = np.mean(model.predict_instances(X[train]) == y[train])
                rows.append([inside, np.mean(model.predict_instances(X[~train]) == y[~train]), seconds])
            mean = np.mean(rows, axis=0)
            print(
                f"| {name} | {size} | {mean[0]:.3f} | {mean[1]:.3f} | {model.inference_} | {mean[2]:.1f} |", flush=True
            )


def adult_table(folder):
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
    for label, keys in groups.items():
        model, seconds = fit(X[~test], keys, y[~test])
        auc = roc_auc_score(y[test], model.predict_instance_proba(X[test])[:, 1])
        print(f"| BagGP ({model.inference_}) | {label} | {auc:.3f} | {seconds:.0f} |", flush=True)


def one_hot(X, columns, categorical):
    parts = []
    for number, name in enumerate(columns):
        values = X[:, [number]].astype(float)
        parts.append((values == np.unique(values)).astype(float) if name in categorical else values)
    return np.column_stack(parts)


def main(folder=DATA):
    torch.set_num_threads(1)
    accuracy_table()
    adult_table(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
