"""Other packages on the same bags, where they are installed: scikit-learn alone, torchmil, llp-learn.

Labels: bags of 6 to 12 handwritten digits, is there a 9? 100 bags to learn from, 50 to be judged on. Measured are the
AUC of bags and of instances. A network of torchmil says how much attention each instance gets, which is used as its
score.

Fractions: 1,000 handwritten digits in random groups of 20, of which the share of even ones is known. Measured is the
accuracy on 700 other digits, one by one.

Every method runs as its documentation shows it, or with the settings that stand below; nothing is tuned. One thread;
seconds are processor time of one fit. Mean over seeds ± standard error. About a minute per seed.

Run: python -m benchmarks.other_packages [seeds] [part of a name]
(pip install torchmil llp-learn, best with --no-deps: their pins are old)
"""

import importlib.metadata
import importlib.util
import sys
import time
import warnings

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch.nn.functional import binary_cross_entropy_with_logits

from bagwise import VGPMIL, BagGP, Bags
from bagwise.datasets import load_digit_bags
from benchmarks.fractions import random_groups, shares

TRAIN, TEST, EPOCHS = 100, 50, 50
LEARNED, GROUP = 1000, 20


# ---------------------------------------------------------------- labels: each returns scores of bags and of instances


def by_bagwise(model):
    def run(train, y, test):
        return model.fit(train, y), lambda: (model.predict_proba(test)[:, 1], model.predict_instance_proba(test)[:, 1])

    return run


def rows_with_the_label_of_their_bag(train, y, test):
    """The usual first try without a package for bags: every row gets the label of its bag; a bag is its best row."""
    machine = make_pipeline(StandardScaler(), SVC()).fit(train.X, y[train.index])

    def scores():
        rows = machine.decision_function(test.X)
        return np.maximum.reduceat(rows, test.offsets[:-1]), rows

    return machine, scores


def summary(bags):
    parts = [np.stack([rows.mean(0), rows.min(0), rows.max(0)]).ravel() for _, rows in bags]
    return np.array(parts)


def mean_least_and_largest(train, y, test):
    """One row per bag: mean, minimum and maximum of every feature. It says nothing about instances."""
    machine = make_pipeline(StandardScaler(), SVC()).fit(summary(train), y)
    return machine, lambda: (machine.decision_function(summary(test)), None)


def attention_network_of_torchmil(train, y, test):
    """A layer of 64 units before the attention, Adam, one bag at a time.

    CLAM_SB is the same network with a loss of instances beside; that fails on bags as small as these (torchmil 1.0.2).
    """
    from torchmil.models import ABMIL

    torch.manual_seed(0)
    embed = torch.nn.Sequential(torch.nn.Linear(train.n_features, 64), torch.nn.ReLU())
    model = ABMIL(in_shape=(train.n_features,), feat_ext=embed)
    scaler = StandardScaler().fit(train.X)
    rows = [torch.tensor(scaler.transform(X), dtype=torch.float32)[None] for _, X in train]
    optimiser, order = torch.optim.Adam(model.parameters(), lr=1e-3), np.random.default_rng(0)
    for _ in range(EPOCHS):
        for number in order.permutation(len(train)):
            optimiser.zero_grad()
            binary_cross_entropy_with_logits(model(rows[number]), torch.tensor([float(y[number])])).backward()
            optimiser.step()
    return model, lambda: judged(model.eval(), scaler, test)


@torch.no_grad()
def judged(model, scaler, test):
    made = [model(torch.tensor(scaler.transform(X), dtype=torch.float32)[None], return_att=True) for _, X in test]
    return np.array([score.item() for score, _ in made]), np.concatenate(
        [weights.numpy().ravel() for _, weights in made]
    )


LABELS = {
    "bagwise: BagGP": (None, by_bagwise(BagGP(random_state=0))),
    "bagwise: VGPMIL": (None, by_bagwise(VGPMIL(random_state=0))),
    "scikit-learn: rows with the label of their bag, SVC": (None, rows_with_the_label_of_their_bag),
    "scikit-learn: mean, minimum, maximum of a bag, SVC": (None, mean_least_and_largest),
    "torchmil: ABMIL (attention)": ("torchmil", attention_network_of_torchmil),
}


def judge_labels(run, seed):
    bags, y, instance_y = load_digit_bags(9, TRAIN + TEST, random_state=seed)
    train, test = bags[:TRAIN], bags[TRAIN:]
    seconds, (_, scores) = timed(lambda: run(train, y[:TRAIN], test))
    of_bags, of_rows = scores()
    truth = instance_y[bags.index >= TRAIN]
    return seconds, roc_auc_score(y[TRAIN:], of_bags), np.nan if of_rows is None else roc_auc_score(truth, of_rows)


# ---------------------------------------------------------------- fractions: each returns a predictor of rows


def fractions_by_bagwise(train, stated):
    model = BagGP(evidence="fraction", random_state=0).fit(train, stated)
    return model.predict_instances


def fraction_as_target_of_every_row(train, stated):
    machine = make_pipeline(StandardScaler(), KernelRidge(kernel="rbf", gamma=0.01)).fit(train.X, stated[train.index])
    return lambda X: machine.predict(X) > 0.5


def machine_of_llp_learn(name):
    def run(train, stated):
        from llp_learn.alter import alterSVMRBF
        from llp_learn.em import EM

        scaler = StandardScaler().fit(train.X)
        machine = {"em": lambda: EM(SVC(), random_state=0), "alter": lambda: alterSVMRBF(random_state=0)}[name]()
        machine.fit(scaler.transform(train.X), train.index, stated)
        return lambda X: machine.predict(scaler.transform(X)) > 0

    return run


FRACTIONS = {
    "bagwise: BagGP": (None, fractions_by_bagwise),
    "scikit-learn: fraction as the target of every row, KernelRidge": (None, fraction_as_target_of_every_row),
    "llp-learn: EM": ("llp-learn", machine_of_llp_learn("em")),
    "llp-learn: alterSVMRBF": ("llp-learn", machine_of_llp_learn("alter")),
}


def judge_fractions(run, seed):
    random, digits = np.random.default_rng(seed), load_digits()
    order = random.permutation(len(digits.target))
    X, even = digits.data[order], (digits.target[order] % 2 == 0).astype(int)
    train = Bags(X[:LEARNED], random_groups(LEARNED, GROUP, random))
    stated = shares(train, even[:LEARNED])
    seconds, predict = timed(lambda: run(train, stated))
    return seconds, np.mean(predict(X[LEARNED:1700]) == even[LEARNED:1700])


# ---------------------------------------------------------------- the tables


def timed(work):
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


def installed(package):
    return package is None or importlib.util.find_spec(package.replace("-", "_")) is not None


def line(name, package, judge, run, seeds, n_measures):
    if not installed(package):
        return f"| {name} | not installed |" + " |" * n_measures
    found = np.array([judge(run, seed) for seed in range(seeds)])
    seconds, *measures = found.T
    error = [column.std(ddof=1) / np.sqrt(seeds) for column in measures]
    cells = ["–" if np.isnan(m).any() else f"{m.mean():.3f} ± {e:.3f}" for m, e in zip(measures, error, strict=True)]
    return f"| {name} | {seconds.mean():.1f} | {' | '.join(cells)} |"


def main(seeds=3, part=""):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of convergence, and of old packages
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("torchmil", "llp-learn") if installed(name)]
    print(f"{seeds} seeds; {', '.join(versions) or 'no other package is installed'}\n")
    tables = ((LABELS, judge_labels, ("AUC of bags", "AUC of instances")), (FRACTIONS, judge_fractions, ("accuracy",)))
    for methods, judge, measures in tables:
        print(f"| method | fit s | {' | '.join(measures)} |\n|---|--:|{'--:|' * len(measures)}")
        for name, (package, run) in ((name, how) for name, how in methods.items() if part in name):
            print(line(name, package, judge, run, seeds, len(measures)), flush=True)
        print()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:3])
