"""Individuals from fractions, beside llp-learn: digits even or odd, and incomes, in random and in varied bags.

mnist: 3,000 images, their first 50 principal components, is the digit even? adult: 5,000 people, is the income above
50,000? Random bags are dealt at random, so that their fractions differ by luck only. Varied bags are dealt so that
their fractions differ: rows are sorted by twice their class plus a normal number, and neighbours make a bag.

Judged are the rows of the bags, whose own classes nobody has seen, and as many other rows (``new``): AUC and mean log
probability of what was true (probabilities are kept within 1e-6 of 0 and 1).

Run: python -m benchmarks.proportions [folder of data sets] [--set mnist] [--kind random] [--size 50] [--repeat 0]
     [--method BagGP] [--jobs 2] [--out FILE.jsonl]
     python -m benchmarks.proportions --table FILE.jsonl

Every cell (set, kind, size, repeat, method) prints one line of JSON. With ``--out`` the lines are also added to a file,
and cells that stand in it already are left out, so a run that was stopped can go on. (pip install --no-deps llp-learn
tqdm; without torchvision, which llp-learn imports for a network that is not used here, an empty stand-in is put in its
place.)
"""

import argparse
import contextlib
import importlib.util
import io
import json
import sys
import time
import types
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from bagwise import BagGP, Bags
from bagwise.metrics import log_likelihood
from benchmarks.fractions import DATA, one_hot, random_groups, shares

KEYS = ("set", "kind", "size", "repeat", "method")
MEASURES = ("auc", "log_likelihood", "new_auc", "new_log_likelihood")
COMPONENTS, EDGE = 50, 1e-6
EPOCHS, RATE = 200, 1e-3  # of DLLP: llp-learn has no defaults; its README tries rates of .1 to .0001

# ---------------------------------------------------------------- problems


def rows_of(name, folder, repeat):
    """Features and classes of the rows to learn from, then of as many others; random rows of the file."""
    with np.load(Path(folder) / f"{'mnist_20k' if name == 'mnist' else name}.npz", allow_pickle=False) as file:
        stored = {key: file[key] for key in file.files}
    n = 3_000 if name == "mnist" else 5_000
    chosen = np.random.default_rng(repeat).permutation(len(stored["X"]))[: 2 * n]
    if name == "mnist":
        X, y = stored["X"][chosen] / 255.0, stored["instance_y"][chosen] % 2 == 0
        X = PCA(COMPONENTS, random_state=0).fit(X[:n]).transform(X)
    else:
        columns = [str(column) for column in stored["columns"]]
        categorical = [key.removeprefix("cat_") for key in stored if key.startswith("cat_")]
        X, y = one_hot(stored["X"], columns, categorical)[chosen], stored["instance_y"][chosen] == 1
    return X[:n], y[:n].astype(int), X[n:], y[n:].astype(int)


def dealt(kind, y, size, rng):
    """The bag of every row."""
    if kind == "random":
        return random_groups(len(y), size, rng)
    groups = np.empty(len(y), dtype=int)
    groups[np.argsort(2.0 * y + rng.standard_normal(len(y)))] = np.arange(len(y)) // size
    return groups


# ---------------------------------------------------------------- methods: each returns a function P(positive) of rows


def by_bagwise(conditioned=False, **settings):
    """BagGP at its defaults, or with settings; ``conditioned``: rows of the bags are judged with their fractions."""

    def run(bags, fractions):
        model = BagGP(evidence="fraction", random_state=0, **settings).fit(bags, fractions)

        def probability(X):
            inside = conditioned and X is bags.X
            return model.predict_instance_proba(bags if inside else X, given=fractions if inside else None)[:, 1]

        return probability

    return run


def soft_labels(bags, fractions):
    """Logistic regression; every row counts as positive and as negative, with the shares of its bag as weights."""
    scaler, share = StandardScaler().fit(bags.X), fractions[bags.index]
    X, y = np.tile(scaler.transform(bags.X), (2, 1)), np.repeat([1, 0], len(share))
    machine = LogisticRegression(max_iter=2000).fit(X, y, sample_weight=np.concatenate([share, 1.0 - share]))
    return lambda X: machine.predict_proba(scaler.transform(X))[:, 1]


def em_of_llp_learn(start):
    """llp-learn's EM around logistic regression, from random labels (its default) or from the majority of the bag."""

    def run(bags, fractions):
        from llp_learn.em import EM

        scaler = StandardScaler().fit(bags.X)
        machine = EM(LogisticRegression(max_iter=2000), init_y=start, random_state=0)
        machine.fit(scaler.transform(bags.X), bags.index, fractions)
        return lambda X: machine.model.predict_proba(scaler.transform(X))[:, 1]

    return run


def dllp_of_llp_learn(bags, fractions):
    """llp-learn's DLLP with the network of its README: two hidden layers of 100."""
    if "torchvision" not in sys.modules and importlib.util.find_spec("torchvision") is None:
        sys.modules["torchvision"] = types.ModuleType("torchvision")
        sys.modules["torchvision.models"] = types.ModuleType("torchvision.models")
        sys.modules["torchvision.models"].resnet18 = None
    from llp_learn.dllp import DLLP

    scaler = StandardScaler().fit(bags.X)
    machine = DLLP(RATE, EPOCHS, "simple-mlp", hidden_layer_sizes=(100, 100), device="cpu", n_jobs=0, random_state=0)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        machine.fit(scaler.transform(bags.X).astype("float32"), bags.index, fractions.astype("float32"))
    network = machine.model.eval()

    @torch.no_grad()
    def probability(X):
        rows = torch.tensor(scaler.transform(X), dtype=torch.float32)
        return torch.softmax(network(rows).double(), dim=1)[:, 1].numpy()

    return probability


METHODS = {
    "BagGP": by_bagwise(),
    "BagGP, with the fractions of the bags": by_bagwise(conditioned=True),
    "BagGP, kernel not learned": by_bagwise(learn=False),
    "llp-learn DLLP": dllp_of_llp_learn,
    "llp-learn EM": em_of_llp_learn("random"),
    "llp-learn EM from majorities": em_of_llp_learn("majority"),
    "logistic regression on soft labels": soft_labels,
}

# ---------------------------------------------------------------- cells


def measured(folder, cell):
    """One cell with what came out: measures, processor seconds of the fit, and how much the fractions vary."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of convergence, and of old packages
    name, kind, size, repeat, method = cell
    X, y, new_X, new_y = rows_of(name, folder, repeat)
    groups = dealt(kind, y, size, np.random.default_rng([repeat, size]))
    order = np.argsort(groups, kind="stable")
    bags, y = Bags(X[order], groups[order]), y[order]
    fractions = shares(bags, y.astype(float))
    began, about = time.process_time(), dict(zip(KEYS, cell, strict=True))
    try:
        probability = METHODS[method](bags, fractions)
    except ValueError as error:  # EM from majorities, where every bag has the same
        return about | {"failed": str(error)}
    seconds = time.process_time() - began
    judged = [*judge(probability, bags.X, y), *judge(probability, new_X, new_y)]
    found = dict(zip(MEASURES, (round(float(value), 4) for value in judged), strict=True))
    return about | found | {"seconds": round(seconds, 1), "sd_of_fractions": round(float(fractions.std()), 3)}


def judge(probability, X, y):
    """AUC and mean log-likelihood."""
    p = np.clip(probability(X), EDGE, 1.0 - EDGE)
    return roc_auc_score(y, p), log_likelihood(y, p)


def lines_of(path):
    """What stands in a file of results; nothing if there is none."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []


def run(cells, folder, jobs, out):
    """Print a line for every cell as it comes, and add it to the file."""
    done = {tuple(line[key] for key in KEYS) for line in lines_of(out)}
    open_cells = [cell for cell in cells if cell not in done]
    for found in Parallel(jobs, return_as="generator_unordered")(delayed(measured)(folder, c) for c in open_cells):
        line = json.dumps(found)
        print(line, flush=True)
        if out:
            with out.open("a") as file:
                file.write(line + "\n")


def table(lines):
    """Means over repeats: AUC / log-likelihood of the rows in the bags, then of new rows."""
    print("| set | bags | method | repeats | AUC | log-likelihood | new rows: AUC | log-likelihood | fit s |")
    print("|---|---|---|---|---|---|---|---|---|")
    grouped = {}
    for line in (line for line in lines if "failed" not in line):
        grouped.setdefault((line["set"], line["kind"], line["size"], line["method"]), []).append(line)
    for (name, kind, size, method), own in sorted(grouped.items()):
        means = [f"{np.mean([line[key] for line in own]):.3f}" for key in MEASURES]
        seconds = np.mean([line["seconds"] for line in own])
        print(f"| {name} | {kind}, of {size} | {method} | {len(own)} | {' | '.join(means)} | {seconds:.0f} |")


def main(arguments=()):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--set", nargs="+", choices=("mnist", "adult"), default=["mnist", "adult"])
    parser.add_argument("--kind", nargs="+", choices=("random", "varied"), default=["random", "varied"])
    parser.add_argument("--size", nargs="+", type=int, default=[10, 50])
    parser.add_argument("--repeat", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--method", nargs="+", choices=tuple(METHODS), default=list(METHODS))
    parser.add_argument("--jobs", type=int, default=2, help="processes of one thread each")
    parser.add_argument("--out", type=Path, help="file of results to go on with")
    parser.add_argument("--table", type=Path, help="print the table of a file of results, and run nothing")
    given = parser.parse_args(arguments)
    if given.table:
        table(lines_of(given.table))
    else:
        cells = list(product(given.set, given.kind, given.size, given.repeat, given.method))
        run(cells, given.folder, given.jobs, given.out)


if __name__ == "__main__":
    main(sys.argv[1:])
