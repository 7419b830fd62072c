"""Mean field and expectation propagation against long chains: how far are they off, and does it matter?

Generated problems: N = 1,500 training and 1,500 test instances in two dimensions, lengthscale 1. Newsgroups: half of
the bags for training, RBF kernel PCA to 100 dimensions, lengthscale 10. Variance 1 (as published), R = 50 inducing
points and bias 5 throughout; the last rows have one generated problem again with the kernel that EP's evidence chooses.
Metrics are of test instances, times are processor seconds on one thread. Run:
python -m benchmarks.inference_comparison [folder of data sets]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.decomposition import KernelPCA
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import train_test_split

from bagwise import BagGP, ConvergenceWarning, MILGPProbit, PerInstance
from bagwise.datasets import make_bags, read_npz

DATA = Path(__file__).parents[2] / "shared" / "data"
GENERATED = {  # bag size and share of positive bags
    "bags of 10, 77 %": (10, 0.77),
    "bags of 10, 47 %": (10, 0.47),
    "bags of 5, 58 %": (5, 0.58),
    "bags of 30, 64 %": (30, 0.64),
    "bags of 20, 65 %": (20, 0.65),
    "bags of 30, 68 %": (30, 0.68),
}
NEWSGROUPS = ("alt_atheism", "comp_graphics")
SWEEPS, BURN_IN = 10_000, 1000


def inferences(settings):
    """Every inference with the same features and kernel."""
    exact = BagGP(inference="gibbs", learn=False, n_samples=SWEEPS, n_burn_in=BURN_IN, **settings)
    return {
        "Gibbs": exact,
        "VI (1.6)": MILGPProbit("vi", max_iter=None, **settings),
        "VI (1.8)": BagGP(inference="vi", learn=False, **settings),
        "EP": BagGP(inference="ep", learn=False, **settings),
    }


def generated(size, rate, seed, learn=False):
    n_bags = 1500 // size
    train, test = (make_bags(n_bags, size, 2, positive_rate=rate, random_state=2 * seed + part) for part in range(2))
    settings = {"n_inducing": 50, "bias": 5.0, "random_state": 0}
    if learn:
        settings["kernel"] = BagGP(inference="ep", **settings).fit(*train[:2]).kernel_
    else:
        settings["lengthscale"] = 1.0
    return train[:2], (test[0], test[2]), settings


def newsgroups(folder, name):
    bags, y, truth = read_npz(Path(folder) / f"newsgroups_{name}.npz")
    train, test = train_test_split(np.arange(len(bags)), test_size=0.5, stratify=y, random_state=0)
    reduce = PerInstance(KernelPCA(100, kernel="rbf", gamma=0.5 / bags.n_features)).fit(bags[train])
    settings = {"lengthscale": 10.0, "standardize": False, "n_inducing": 50, "bias": 5.0, "random_state": 0}
    answers = np.concatenate([truth[bags.offsets[b] : bags.offsets[b + 1]] for b in test])
    return (reduce.transform(bags[train]), y[train]), (reduce.transform(bags[test]), answers), settings


def compare(name, train, test, settings):
    bags, truth = test
    reference = None
    for label, model in inferences(settings).items():
        start = time.process_time()
        model.fit(*train)
        seconds = time.process_time() - start
        p = model.predict_instance_proba(bags)[:, 1]
        if reference is None:
            reference, table = p, model.diagnostics_
            distance = f"± {model.predict_error(bags).instances.mean():.4f}"
            health = f"R-hat {table['r_hat'].max():.2f}, ESS {table['ess_bulk'].min():.0f}"
        else:
            distance, health = f"{np.abs(p - reference).mean():.4f}", ""
        likelihood = np.log(np.where(truth == 1, p, 1.0 - p)).mean()
        scores = f"{likelihood:.3f} | {roc_auc_score(truth, p):.3f} | {average_precision_score(truth, p):.3f}"
        print(f"| {name} | {label} | {distance} | {scores} | {seconds:.1f} | {health} |", flush=True)
        name = ""


def main(folder=DATA):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    metrics = "log-likelihood | AUC | average precision"
    print(f"| problem | inference | mean abs. difference from Gibbs | {metrics} | s | chains |")
    print("|---|---|---:|---:|---:|---:|---:|---|")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for seed, (name, (size, rate)) in enumerate(GENERATED.items()):
            compare(name, *generated(size, rate, seed))
        for name in NEWSGROUPS:
            compare(f"newsgroups {name}", *newsgroups(folder, name))
        name, (size, rate) = next(iter(GENERATED.items()))
        compare(f"{name}, learned kernel", *generated(size, rate, 0, learn=True))
    torch.set_num_threads(threads)


if __name__ == "__main__":
    main(*sys.argv[1:])
