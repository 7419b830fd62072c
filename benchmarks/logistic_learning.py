"""How VGPMIL and LM-VGPMIL learn, iteration by iteration, on one newsgroups set: one after the other, or all at once?

As in figure 2 of the supplement of Haussmann, Hamprecht & Kandemir; as in ``bagwise bench newsgroups``, but with a
constant (bias 5), without which every bag of 30 posts is called positive: average precision of held-out instances and
accuracy on held-out bags after every number of iterations, and the bound.

Run: python -m benchmarks.logistic_learning [folder] [--set sci_med] [--folds 10] [--jobs 2] [--picture FILE]
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.metrics import average_precision_score
from threadpoolctl import threadpool_limits

from bagwise import LMVGPMIL, VGPMIL
from bagwise.bench.description import Place
from bagwise.bench.tables.newsgroups import TABLE

DATA = Path(__file__).parents[2] / "shared" / "data"
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "logistic_learning.png"
ITERATIONS = (*range(1, 31), 40, 41, 50, 51, 60, 61, 75, 76, 99, 100)  # odd and even ones, to see circles
SHOWN = (2, 5, 24, 25, 100)
PROTOCOL = {"bias": 5.0, "random_state": 0}
RULES = {
    "VGPMIL, one after the other": (VGPMIL.published(**PROTOCOL), {"color": "#1d5b8f", "lw": 2.2}),
    "VGPMIL, structured": (
        VGPMIL.published(updates="structured", **PROTOCOL),
        {"color": "#1d5b8f", "lw": 1.5, "ls": (0, (4, 2))},
    ),
    "VGPMIL, all at once (parallel)": (
        VGPMIL.published(H=1e12, updates="parallel", **PROTOCOL),
        {"color": "#c8601a", "lw": 1.4},
    ),
    "LM-VGPMIL, published start": (LMVGPMIL.published(**PROTOCOL), {"color": "#0b6e4f", "lw": 2.2}),
}


def stopped_at(model, steps, bags, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # circles are what is to be seen
        return model.set_params(max_iter=steps).fit(bags, y)


def curves_of(folder, name, fold):
    """(rules, 3, iterations): average precision of instances, accuracy on bags, bound; one thread."""
    torch.set_num_threads(1)
    with threadpool_limits(1):
        return _curves_of(folder, name, fold)


def _curves_of(folder, name, fold):
    data = next(one for one in TABLE.sets if one.name == name)
    split = TABLE.rule.split(Place(Path(folder), data, 0, fold, 0, 0))
    (seen, y), part = split.evidence["label"], split.parts[0]
    found = []
    for model, _ in RULES.values():
        rows = []
        for steps in ITERATIONS:
            done = stopped_at(model, steps, seen, y)
            precision = average_precision_score(part.instance_truth, done.predict_latent(part.bags)[0])
            rows.append([precision, np.mean(done.predict(part.bags) == part.bag_truth), done.log_evidence_])
        found.append(np.transpose(rows))
    return found


def table(name, found):
    print(f"{name}, {len(found)} folds: average precision of instances / accuracy on bags after so many iterations\n")
    print("| updates | " + " | ".join(map(str, SHOWN)) + " | of iterations 2–30 lower the bound |")
    print("|---|" + "---|" * (len(SHOWN) + 1))
    for rule, (precision, accuracy, _), each in zip(RULES, found.mean(0), found.swapaxes(0, 1), strict=True):
        places = [ITERATIONS.index(steps) for steps in SHOWN]
        cells = " | ".join(f"{precision[i]:.3f} / {accuracy[i]:.3f}" for i in places)
        print(f"| {rule} | {cells} | {np.mean([(np.diff(fold[2][:30]) < -1e-6).sum() for fold in each]):.1f} |")


def draw(name, found, picture):
    figure, panels = plt.subplots(1, 3, figsize=(11.4, 3.9), dpi=100, layout="constrained")
    for (rule, (_, style)), values in zip(RULES.items(), found.mean(0), strict=True):
        for panel, value in zip(panels, values, strict=True):
            if panel is not panels[2] or not rule.startswith("LM"):
                panel.plot(ITERATIONS, value, label=rule, **style)
    panels[2].set_ylim(np.min(found.mean(0)[:3, 2, 2:]) - 10, None)
    labels = ("instances: average precision", "bags: accuracy", "bound (VGPMIL)")
    for panel, label in zip(panels, labels, strict=True):
        panel.set(xlabel="iterations", xscale="log")
        panel.set_title(label, loc="left", fontsize=11)
        panel.set_xticks([1, 2, 5, 10, 25, 50, 100], ["1", "2", "5", "10", "25", "50", "100"])
        panel.minorticks_off()
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(f"{name.replace('_', '.')}, held out, mean of {len(found)} folds", x=0.01, ha="left", fontsize=11)
    figure.savefig(picture)
    plt.close(figure)


def main(arguments=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default=DATA)
    parser.add_argument("--set", default="sci_med")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--picture", default=PICTURE)
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    cells = (delayed(curves_of)(options.folder, options.set, fold) for fold in range(options.folds))
    found = np.array(Parallel(options.jobs)(cells))
    table(options.set, found)
    draw(options.set, found, options.picture)
    print(f"\npicture: {options.picture}; {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
