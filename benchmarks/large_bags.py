"""Labels of large bags: digits with few witnesses, bags of ten thousand rows, and where which inference settles.

digits    images of MNIST (50 principal components, which share one unit and are not standardised), bags of 40 to 1,000;
          a bag is positive where it holds a certain digit, which is 3 % of the images of a positive bag; 120 bags of
          training images, 120 of test images; beside it a logistic regression on 200 Nyström features of single images,
          which is told the label of the bag for each of them, or what it shows itself
rows      60 bags of 10,000 rows with 50 features, 1 % witnesses, and 60 such bags to predict
settling  the engine, its sweeps and the processor seconds of one fit to each data set, with the defaults (corel2000:
          its first class against the others; hja: each class in turn, or all of them in one fit with --together)

Run: python -m benchmarks.large_bags [digits|rows|settling] [--seeds 3] [--witness 0] [--threads 1]
     [--sets hja ...] [--together] [--inference auto]
"""

import argparse
import resource
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from bagwise import BagGP, Bags
from bagwise.bench.description import DataSet
from bagwise.bench.protocols import read
from bagwise.bench.tables import TABLES

DATA = Path(__file__).parents[2] / "shared" / "data"
SETTINGS = {"digits": {"standardize": False}, "rows": {}}


def images():
    """50 principal components of the images of MNIST, which digit each shows, and which images are for tests."""
    with np.load(DATA / "mnist_20k.npz") as file:
        X, digit, test = file["X"] / 255.0, file["instance_y"], file["test"].astype(bool)
    return PCA(50, random_state=0).fit(X[~test]).transform(X), digit, test


def digit_bags(rows, is_witness, sizes, share, rng):
    """Bags of images drawn without repetition inside a bag; every second one holds this share of witnesses, or one."""
    others, witnesses = np.flatnonzero(~is_witness), np.flatnonzero(is_witness)
    chosen = []
    for b, size in enumerate(sizes):
        own = max(1, round(share * size)) if b % 2 else 0
        chosen += [rng.choice(others, size - own, replace=False), rng.choice(witnesses, own, replace=False)]
    order = np.concatenate(chosen)
    bags = Bags(rows[order], np.repeat(np.arange(len(sizes)), sizes))
    return bags, np.arange(len(sizes)) % 2, is_witness[order]


def digits(seed, witness):
    X, digit, test = images()
    rng = np.random.default_rng(seed)
    return tuple(
        digit_bags(X[part], digit[part] == witness, rng.integers(40, 1001, 120), 0.03, rng) for part in (~test, test)
    )


def witness_rows(seed, n_bags=60, size=10_000, width=50):
    """Witnesses are shifted by 2 in four of the features."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    truth = (rng.random((n_bags, size)) < 0.01) & (y[:, None] == 1)
    X = rng.standard_normal((n_bags * size, width))
    X[truth.ravel(), :4] += 2.0
    return Bags(X, np.repeat(np.arange(n_bags), size)), y, truth.ravel()


def rows(seed, witness):
    return witness_rows(2 * seed), witness_rows(2 * seed + 1)


def told_single_instances(train, held_out, told):
    """Instance AUC of a logistic regression that is told something about every instance, rightly or not."""
    (bags, _, _), (new, _, truth) = train, held_out
    some = Nystroem(n_components=200, gamma=0.01, random_state=0).fit(bags.X[::20])
    machine = LogisticRegression(max_iter=1000).fit(some.transform(bags.X), told)
    return roc_auc_score(truth, machine.decision_function(some.transform(new.X)))


def row(*cells):
    return f"| {' | '.join(map(str, cells))} |"


def measured(make, seed, witness):
    train, held_out = make(seed, witness)
    (bags, y, shown), (new, new_y, truth) = train, held_out
    began = time.process_time()
    model = BagGP(random_state=seed, **SETTINGS[make.__name__]).fit(bags, y)
    fitted = time.process_time() - began
    on_bags = roc_auc_score(new_y, model.predict_proba(new)[:, 1])
    on_instances = roc_auc_score(truth, model.predict_instance_proba(new)[:, 1])
    effect = model.size_effect_
    told = (told_single_instances(train, held_out, each) for each in (y[bags.index], shown))
    others = [f"{auc:.3f}" for auc in told] if make is digits else ["–", "–"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    cells = (
        make.__name__,
        seed,
        f"{on_bags:.3f}",
        f"{on_instances:.3f}",
        *others,
        "–" if effect is None else f"{effect.mean:.2f} ± {effect.sd:.2f}",
        model.inference_,
        f"{fitted:.0f}",
        f"{memory:.1f}",
    )
    print(row(*cells), flush=True)


def labelled_sets():
    """Name, file and array of labels of every data set with labels of bags."""
    known = {(data.name, data.file, "y") for name in ("benchmarks", "text", "newsgroups") for data in TABLES[name].sets}
    known |= {(data.name, data.file, "y_bin") for data in TABLES["drug"].sets}
    known |= {(path.stem, path.stem, "y") for path in DATA.glob("uci_*.npz")}
    return sorted(known | {("corel2000", "corel2000", "y"), ("hja", "hja_birdsong", "y")})


def asked_of(name, y, together=False):
    """The questions with two answers that the labels of a data set make, by name; several at once if together."""
    if name == "corel2000":
        return {name: (y == 0).astype(int)}
    if y.ndim == 1 or together:
        return {name: y}
    return {f"{name}, class {number}": column for number, column in enumerate(y.T)}


def settling(chosen, inference, together):
    """One fit to each data set, or to those that were chosen."""
    print("| data | bags | instances | largest bag | engine | sweeps | settled | instead of | s |\n|" + "---|" * 9)
    for name, file, key in labelled_sets():
        if chosen and name not in chosen:
            continue
        found = read(DATA, DataSet(name, file), key)
        for question, y in asked_of(name, found.y, together).items():
            print(row(question, *settled(found.bags, y, inference)), flush=True)


def settled(bags, y, inference):
    """The sizes of the bags, and how a fit to them went."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        model = BagGP(inference=inference, random_state=0).fit(bags, y)
    seconds = f"{time.process_time() - began:.1f}"
    how = model.inference_, len(model.trace_), model.converged_, model.fallback_ or "–"
    return len(bags), bags.n_instances, bags.sizes.max(), *how, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=("digits", "rows", "settling"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--witness", type=int, default=0, help="the digit that makes a bag positive")
    parser.add_argument("--sets", nargs="+", help="data sets of the part settling; all of them if none are named")
    parser.add_argument("--inference", default="auto", help="of the part settling")
    parser.add_argument("--together", action="store_true", help="of the part settling: all classes of hja in one fit")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.part != "settling":
        columns = ("problem", "seed", "bag AUC", "instance AUC", "told labels of bags", "told all", "effect of size")
        print(row(*columns, "inference", "CPU s of the fit", "GB") + "\n|" + "---|" * 10)
    for make in (digits, rows):
        for seed in range(given.seeds) if given.part in (None, make.__name__) else ():
            measured(make, seed, given.witness)
    if given.part in (None, "settling"):
        settling(given.sets, given.inference, given.together)


if __name__ == "__main__":
    main()
