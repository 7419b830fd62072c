"""From which size of bags on is one site per bag better than a message to every instance?

digits    images of MNIST (50 principal components, which share one unit), bags of n/2 to 3n/2 images; a bag is positive
          where it holds a zero, as 5 % of the images of a positive bag do, and one at least; 100 bags to learn from,
          200 test bags
sets      data sets of bags of various sizes, five folds; hja: some of its classes, each against the others

Log-likelihoods are means over bags that were left out. "not settled" counts fits in which the inference asked for gave
way to another one; a fit ends after the limit of processor seconds at the latest and then counts as not ended.

Run: python -m benchmarks.which_inference [digits|sets] [--limit 120] [--classes 0 1 2 3]
"""

import argparse
import itertools
import signal
import time
import warnings

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from bagwise import BagGP
from bagwise.bench.description import DataSet
from bagwise.bench.protocols import read
from bagwise.inference.engines import size_of_own_bag
from benchmarks.large_bags import DATA, asked_of, digit_bags, images, row

INFERENCES = ("ep", "bag-ep")
SETS = {"musk1": "musk1", "uci_spam_210": "uci_spam_210", "hockey": "newsgroups_rec_sport_hockey"}


class TooLong(Exception):
    """The fit took more processor seconds than it was allowed."""


def digit_problems():
    X, digit, test = images()
    for size in (5, 10, 15, 20, 30, 45):
        rng = np.random.default_rng(size)
        sizes = (rng.integers(size // 2, 3 * size // 2 + 1, n_bags) for n_bags in (100, 200))
        train, new = (
            digit_bags(X[part], digit[part] == 0, own, 0.05, rng)[:2]
            for part, own in zip((~test, test), sizes, strict=True)
        )
        yield f"digits, about {size}", [(*train, *new)], {"standardize": False}


def folds(bags, y):
    for inside, outside in StratifiedKFold(5, shuffle=True, random_state=0).split(np.zeros(len(y)), y):
        yield bags[inside], y[inside], bags[outside], y[outside]


def set_problems(classes):
    for name, file in SETS.items():
        found = read(DATA, DataSet(name, file), "y")
        yield name, folds(found.bags, found.y), {}
    found = read(DATA, DataSet("hja", "hja_birdsong"), "y")
    questions = list(asked_of("hja", found.y.astype(int)).items())
    for name, y in (questions[column] for column in classes):
        yield name, folds(found.bags, y), {}


def give_up(*_):
    raise TooLong


def fitted(bags, y, inference, settings, limit):
    """The model and the processor seconds of its fit, which ends with an error where they are too many."""
    model = BagGP(inference=inference, random_state=0, **settings)
    signal.signal(signal.SIGPROF, give_up)
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(bags, y)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return model, time.process_time() - began


def measured(problem, inference, settings, limit):
    """Log-likelihood, AUC, processor seconds and whether another inference answered, for every fold."""
    figures = []
    for bags, y, new, new_y in problem:
        model, seconds = fitted(bags, y, inference, settings, limit)
        p = model.predict_proba(new)[:, 1]
        log_likelihood = np.log(np.where(new_y == 1, p, 1 - p).clip(1e-12)).mean()
        figures.append((log_likelihood, roc_auc_score(new_y, p), seconds, bool(model.fallback_)))
    return np.array(figures, dtype=float)


def report(name, problem, settings, limit):
    """One row of the table for each inference."""
    problem = list(problem)
    own = np.mean([size_of_own_bag(fold[0].sizes) for fold in problem])
    for inference in INFERENCES:
        try:
            log_likelihood, auc, seconds, fell_back = measured(problem, inference, settings, limit).mean(axis=0)
            cells = f"{log_likelihood:.3f}", f"{auc:.3f}", f"{seconds:.1f}", round(fell_back * len(problem))
        except TooLong:
            cells = "–", "–", f"more than {limit:.0f}", "not ended"
        print(row(name, f"{own:.1f}", inference, *cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=("digits", "sets"))
    parser.add_argument("--limit", type=float, default=120.0, help="processor seconds of a fit")
    parser.add_argument("--classes", type=int, nargs="+", default=[0, 1, 2, 3], help="classes of hja")
    given = parser.parse_args()
    torch.set_num_threads(1)
    columns = ("problem", "size of an instance's bag", "inference", "log-likelihood", "AUC", "CPU s", "not settled")
    print(row(*columns) + "\n|" + "---|" * len(columns))
    problems = [] if given.part == "sets" else digit_problems()
    sets = [] if given.part == "digits" else set_problems(given.classes)
    for name, folds_of_it, settings in itertools.chain(problems, sets):
        report(name, folds_of_it, settings, given.limit)


if __name__ == "__main__":
    main()
