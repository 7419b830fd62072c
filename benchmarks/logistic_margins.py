"""What C and V do in LM-VGPMIL, as in figures 3 and 4 of the supplement of Haussmann, Hamprecht & Kandemir.

Figure 3 is the curve σ(C(f − V)) by which the margin is asked for. Figure 4 was measured on images of Barrett's cancer,
which are not to be had; here it is a newsgroups set: average precision of held-out instances for every pair of C and V,
folds as in ``bagwise bench newsgroups``, ``LMVGPMIL.published()`` with a constant (bias 5). All seeds are fixed.
``--starts`` compares the two starts instead: margins from the first iteration on, or after a VGPMIL has settled; its
average precision, and the objective that was reached.

Run: python -m benchmarks.logistic_margins [folder] [--sets sci_med,...|all] [--folds 3] [--starts] [--picture FILE]
"""

import argparse
import itertools
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.special import expit
from sklearn.metrics import average_precision_score

from bagwise import LMVGPMIL
from bagwise.bench.description import Place
from bagwise.bench.tables.newsgroups import TABLE

DATA = Path(__file__).parents[2] / "shared" / "data"
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "logistic_margins.png"
FIRMNESS = (0.5, 1.0, 2.0, 4.0, 8.0)
MARGINS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)  # those of the paper's figure 3
SHADES = plt.get_cmap("viridis")


def on_fold(folder, name, fold, models):
    """Average precision of the instances of one fold and the objective, for every model."""
    data = next(one for one in TABLE.sets if one.name == name)
    split = TABLE.rule.split(Place(Path(folder), data, 0, fold, 0, 0))
    (seen, y), part = split.evidence["label"], split.parts[0]
    found = []
    for model in models:
        scores = model.fit(seen, y).predict_latent(part.bags)[0]
        found.append((average_precision_score(part.instance_truth, scores), model.log_evidence_))
    return found


def over_folds(options, models):
    """(models, 2): mean over sets and folds of average precision and objective."""
    names = [one.name for one in TABLE.sets] if options.sets == "all" else options.sets.split(",")
    cells = itertools.product(names, range(options.folds))
    return np.mean([on_fold(options.folder, name, fold, models) for name, fold in cells], axis=0)


def compare_starts(options):
    starts = ("published", "plain")
    settled = [LMVGPMIL.published(start=start, max_iter=None, tol=1e-6, random_state=0) for start in starts]
    print("| start | average precision of instances | objective |\n|---|---|---|")
    for start, (precision, objective) in zip(starts, over_folds(options, settled), strict=True):
        print(f"| {start} | {precision:.3f} | {objective:.0f} |")


def compare_margins(options):
    pairs = itertools.product(FIRMNESS, MARGINS)
    models = [LMVGPMIL.published(C=firmness, V=margin, bias=5.0, random_state=0) for firmness, margin in pairs]
    found = over_folds(options, models)[:, 0].reshape(len(FIRMNESS), len(MARGINS))
    table(found)
    draw(options.sets, found, options.folds, options.picture)
    print(f"\npicture: {options.picture}")


def table(found):
    print("| C | " + " | ".join(f"V = {margin:g}" for margin in MARGINS) + " |")
    print("|---:|" + "---|" * len(MARGINS))
    for firmness, row in zip(FIRMNESS, found, strict=True):
        print(f"| {firmness:g} | " + " | ".join(f"{value:.3f}".lstrip("0") for value in row) + " |")


def curves(panel, title, settings):
    f = np.linspace(-4.0, 6.0, 400)
    for number, (label, firmness, margin) in enumerate(settings):
        panel.plot(f, expit(firmness * (f - margin)), color=SHADES(0.9 * number / len(settings)), label=label)
    panel.set_title(title, loc="left", fontsize=11)
    panel.set(xlabel="latent value f, on the right side")
    panel.legend(frameon=False, fontsize=8)
    panel.spines[["top", "right"]].set_visible(False)


def draw(name, found, folds, picture):
    figure, (by_firmness, by_margin, grid) = plt.subplots(1, 3, figsize=(12, 3.8), dpi=100, layout="constrained")
    curves(by_firmness, "σ(C(f − V)), V = 2", [(f"C = {firmness:g}", firmness, 2.0) for firmness in FIRMNESS])
    curves(by_margin, "σ(C(f − V)), C = 2", [(f"V = {margin:g}", 2.0, margin) for margin in MARGINS])
    grid.imshow(found, cmap="viridis", aspect="auto")
    for (row, column), value in np.ndenumerate(found):
        dark = value < found.min() + 0.6 * np.ptp(found)
        grid.text(column, row, f"{value:.2f}", ha="center", va="center", color="white" if dark else "black", fontsize=9)
    grid.set_xticks(range(len(MARGINS)), [f"{margin:g}" for margin in MARGINS])
    grid.set_yticks(range(len(FIRMNESS)), [f"{firmness:g}" for firmness in FIRMNESS])
    grid.set(xlabel="V", ylabel="C")
    grid.set_title(f"{name.replace('_', '.')}, {folds} folds: average precision", loc="left", fontsize=11)
    figure.savefig(picture)
    plt.close(figure)


def main(arguments=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default=DATA)
    parser.add_argument("--sets", default="sci_med")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--starts", action="store_true", help="compare the two starts instead")
    parser.add_argument("--picture", default=PICTURE)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # 25 iterations are the published number, settled or not
    (compare_starts if options.starts else compare_margins)(options)


if __name__ == "__main__":
    main(sys.argv[1:])
