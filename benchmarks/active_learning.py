"""How many bag labels are needed when the model may choose them? Bags of handwritten digits: is there a 9 among them?

A model starts with a few labelled bags and asks for more, two at a time, by each strategy of ``bagwise.active``; its
AUC is measured on bags it never sees. Every seed deals its own bags, and the strategies share them and the first
labels. The kernel is learned when the number of labels has doubled, and kept in between. One thread, a few minutes.

Run: python -m benchmarks.active_learning [seeds] [picture]
"""

import sys
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from bagwise import BagGP
from bagwise.active import STRATEGIES, suggest
from bagwise.datasets import load_digit_bags
from bagwise.exceptions import ConvergenceWarning

POOL, HELD_OUT = 140, 100
FIRST, LAST, STEP = 10, 70, 2
TARGET = 0.95
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "active_learning.png"
NAMES = {"bald": "most informative (BALD)", "entropy": "most uncertain (entropy)", "random": "at random"}
COLOURS = {"bald": "#0b6e4f", "entropy": "#c8742c", "random": "#7a7a7a"}


def deal(seed):
    """A pool to choose from, bags to be judged on, their labels, and the first bags to be labelled (of both kinds)."""
    bags, y, _ = load_digit_bags(9, POOL + HELD_OUT, (4, 8), (1, 2), positive_rate=0.4, random_state=seed)
    random = np.random.default_rng(seed)
    first = random.permutation(POOL)
    kinds = [first[y[first] == kind] for kind in (0, 1)]
    start = np.concatenate([kinds[0][: FIRST // 2], kinds[1][: FIRST - FIRST // 2]])
    return bags[:POOL], y[:POOL], bags[POOL:], y[POOL:], start


class Learner:
    """BagGP on the labels known so far; the unlabelled bags of the pool serve to choose scale and inducing inputs."""

    def __init__(self, bags, y, seed):
        self.bags, self.y, self.seed = bags, y, seed
        self.learned_at, self.kernel = 0, None

    def fit(self, labelled):
        shown = np.full(len(self.y), np.nan)
        shown[labelled] = self.y[labelled]
        fresh = len(labelled) >= 2 * self.learned_at
        kernel = {"learn": True} if fresh else {"learn": False, "kernel": self.kernel}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = BagGP(random_state=self.seed, **kernel).fit(self.bags, shown)
        if fresh:
            self.learned_at, self.kernel = len(labelled), model.kernel_
        return model


def curve(strategy, seed):
    """AUC on the held-out bags for every number of labels."""
    bags, y, others, truth, start = deal(seed)
    learner, labelled, found = Learner(bags, y, seed), list(start), []
    random = np.random.RandomState(seed)
    while True:
        model = learner.fit(labelled)
        found.append(roc_auc_score(truth, model.predict_proba(others)[:, 1]))
        if len(labelled) >= LAST:
            return found
        unlabelled = np.setdiff1d(np.arange(POOL), labelled)
        asked = suggest(model, bags[unlabelled], n=STEP, strategy=strategy, random_state=random)
        labelled += list(unlabelled[asked.indices])


def first_reached(labels, auc):
    """The first number of labels with the target reached; beyond the last where it never is."""
    reached = np.flatnonzero(np.asarray(auc) >= TARGET)
    return labels[reached[0]] if len(reached) else np.inf


def draw(labels, curves, path):
    figure, axes = plt.subplots(figsize=(7.4, 4.5), dpi=160, layout="constrained")
    axes.axhline(TARGET, color="black", lw=0.8, ls=(0, (4, 3)))
    for strategy, found in curves.items():
        mean, error = found.mean(0), found.std(0, ddof=1) / np.sqrt(len(found))
        needed = first_reached(labels, mean)
        name = f"{NAMES[strategy]}: {needed:.0f} labels"
        axes.plot(labels, mean, color=COLOURS[strategy], lw=2.2, label=name)
        axes.fill_between(labels, mean - error, mean + error, color=COLOURS[strategy], alpha=0.15, lw=0)
        axes.plot([needed], [TARGET], "o", color=COLOURS[strategy], ms=7, mec="white", mew=1.2, zorder=5)
    axes.set(xlabel="labelled bags", ylabel="AUC on held-out bags", xlim=(labels[0], labels[-1]), ylim=(None, 1.0))
    axes.set_title("Which bags hold a 9? Choosing the labels saves labels", loc="left", fontsize=12)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    note = f"to AUC {TARGET} (mean of {len(found)} seeds, bands ± 1 standard error)"
    legend = axes.legend(frameon=False, loc="lower right", title=note, alignment="left")
    legend.get_title().set_fontsize(9)
    figure.savefig(path)
    plt.close(figure)


def main(seeds=10, picture=PICTURE):
    torch.set_num_threads(1)
    started = time.perf_counter()
    labels = np.arange(FIRST, LAST + 1, STEP)
    curves = {name: np.array([curve(name, seed) for seed in range(seeds)]) for name in STRATEGIES}
    print(f"bags of digits, {POOL} to choose from, {HELD_OUT} held out, {seeds} seeds; labels to AUC {TARGET}\n")
    print("| strategy | mean curve reaches it at | median over seeds | seeds that never do | AUC at 20 | 40 | 70 |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name, found in curves.items():
        each = np.array([first_reached(labels, auc) for auc in found])
        at = " | ".join(f"{found[:, list(labels).index(n)].mean():.3f}" for n in (20, 40, 70))
        print(
            f"| {NAMES[name]} | {first_reached(labels, found.mean(0)):.0f} | {np.median(each):.0f} "
            f"| {np.isinf(each).sum()} of {seeds} | {at} |"
        )
    draw(labels, curves, picture)
    print(f"\npicture: {picture}; {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]), *(Path(argument) for argument in sys.argv[2:3]))
