"""
Several kinds of evidence together
==================================

On these slides tumour cells always come with companion cells. Labels alone cannot tell the two apart; other evidence
can.

Run: ``python examples/plot_mixtures.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from bagwise import BagGP, Bags, Evidence, count, fraction, label

BLUE, ORANGE, GREY, DARK = "#1d5b8f", "#c8601a", "#8a8f98", "#25282d"
NO_TO_YES = LinearSegmentedColormap.from_list("no to yes", ["#3f7fb5", "#f6f6f4", "#e08a45"])
ORDINARY, COMPANION, TUMOUR = range(3)
CENTRE = np.array([[0.0, -1.0], [-1.9, 1.6], [1.9, 1.6]])
SPREAD = np.array([[1.0, 0.8], [0.55, 0.55], [0.55, 0.55]])
ACROSS, UP, SIZE = (-4.0, 4.0), (-3.7, 4.2), 12


def slides(n_bags, random_state):
    """Every second slide holds 1 to 4 tumour cells and 1 to 4 companions, the others neither; bags, kinds of cells."""
    rng = np.random.default_rng(random_state)
    cells, kinds = [], []
    for number in range(n_bags):
        tumour, companions = rng.integers(1, 5, 2) if number % 2 else (0, 0)
        kind = np.repeat([TUMOUR, COMPANION, ORDINARY], [tumour, companions, SIZE - tumour - companions])
        cells.append(CENTRE[kind] + SPREAD[kind] * rng.normal(size=(SIZE, 2)))
        kinds.append(kind)
    return Bags.from_list(cells), np.concatenate(kinds)


def mixed_evidence(numbers):
    """Most slides have a label; one in eight was estimated by eye, one in eight was counted roughly."""
    statements = []
    for place, number in enumerate(numbers):
        if place % 8 == 5:
            statements.append(fraction(round(number / SIZE, 1), confidence=20))
        elif place % 8 == 3:
            statements.append(count(max(number - 1, 1), number + 1))
        else:
            statements.append(label(int(number > 0)))
    return Evidence.concat(statements)


def five_known(kinds):
    """Two tumour cells and three companions that somebody looked at."""
    known = np.full(len(kinds), np.nan)
    known[np.flatnonzero(kinds == TUMOUR)[[0, 10]]] = 1
    known[np.flatnonzero(kinds == COMPANION)[[0, 10, 20]]] = 0
    return known


def draw_evidence(ax, numbers):
    """What every slide says about its number of tumour cells."""
    for place, number in enumerate(numbers):
        if place % 8 == 5:
            share = SIZE * round(number / SIZE, 1)
            ax.errorbar(place, share, 1.2, color=ORANGE, fmt="s", markersize=4.5, linewidth=1.6, capsize=2.5)
        elif place % 8 == 3:
            ax.bar(place, min(number + 1, SIZE) - max(number - 1, 1) + 0.6, 0.7, max(number - 1, 1) - 0.3, color=BLUE)
        else:
            ax.bar(place, SIZE - 0.4 if number else 0.6, 0.7, 0.7 if number else -0.3, color="#cdd3da")
    ax.bar(0, 0, color="#cdd3da", label="label: none, or at least one")
    ax.errorbar([], [], [], color=ORANGE, fmt="s", markersize=4.5, capsize=2.5, label="fraction, estimated by eye")
    ax.bar(0, 0, color=BLUE, label="range, counted roughly")
    ax.set(xlabel=f"{len(numbers)} slides", ylabel="tumour cells among 12", xticks=[], ylim=(-0.6, 17.5))
    ax.set_yticks(range(0, 13, 3))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="upper left", frameon=False, fontsize=9)


def draw_map(ax, model, bags, kinds):
    """The learned probability of being a tumour cell, and the cells as they really are."""
    x, y = np.linspace(*ACROSS, 110), np.linspace(*UP, 90)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    probability = model.predict_instance_proba(grid)[:, 1].reshape(90, 110)
    shade = ax.contourf(x, y, probability, levels=np.linspace(0, 1, 11), cmap=NO_TO_YES)
    ax.contour(x, y, probability, levels=[0.5], colors=DARK, linewidths=1.4)
    ax.scatter(*bags.X[kinds == ORDINARY].T, s=6, color=DARK, linewidths=0, alpha=0.7)
    ax.scatter(*bags.X[kinds == COMPANION].T, s=17, marker="^", color="white", edgecolors=DARK, linewidths=0.8)
    ax.scatter(*bags.X[kinds == TUMOUR].T, s=17, color="white", edgecolors=DARK, linewidths=0.8)
    if bags.known is not None:
        seen = ~np.isnan(bags.known)
        ax.scatter(*bags.X[seen].T, s=120, color="none", edgecolors="black", linewidths=2.2)
    ax.text(-1.9, 3.85, "companions", ha="center", va="center", fontsize=9)
    ax.text(1.9, 3.85, "tumour cells", ha="center", va="center", fontsize=9)
    ax.text(0, -3.4, "ordinary cells", ha="center", va="center", fontsize=9)
    ax.set(xlim=ACROSS, ylim=UP, xticks=[], yticks=[])
    return shade


def main(output=None):
    bags, kinds = slides(40, random_state=33)
    numbers = np.add.reduceat((kinds == TUMOUR).astype(int), bags.offsets[:-1])
    labels, mixture = label(numbers > 0), mixed_evidence(numbers)
    looked_at = bags.with_known(five_known(kinds))

    figure, ((ranges, by_labels), (by_known, by_mixture)) = plt.subplots(
        2, 2, figsize=(10.4, 8.2), layout="constrained"
    )
    draw_evidence(ranges, numbers)
    ranges.set_title("What the slides state, in the mixture", loc="left", fontsize=11)
    plain = BagGP(random_state=0)
    draw_map(by_labels, plain.fit(bags, labels), bags, kinds)
    by_labels.set_title("From labels alone: one of two groups, but which?", loc="left", fontsize=11)
    draw_map(by_known, plain.fit(looked_at, labels), looked_at, kinds)
    by_known.set_title("From labels and five known cells (rings)", loc="left", fontsize=11)
    shade = draw_map(by_mixture, plain.fit(bags, mixture), bags, kinds)
    by_mixture.set_title("From the mixture, no cell known", loc="left", fontsize=11)
    figure.colorbar(
        shade, ax=[by_labels, by_mixture], ticks=[0, 0.25, 0.5, 0.75, 1], label="probability of being a tumour cell",
        shrink=0.6,
    )  # fmt: skip
    if output is not None:
        figure.savefig(output, dpi=100)
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:2])
