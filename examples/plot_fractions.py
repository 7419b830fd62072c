"""
Fractions of positives
======================

Two moons in bags of 20. Only the fraction of positives in every bag is known, and each point gets an answer.

Run: ``python examples/plot_fractions.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from sklearn.datasets import make_moons

from bagwise import BagGP, Bags

DARK, GREY = "#25282d", "#8a8f98"
NO_TO_YES = LinearSegmentedColormap.from_list("no to yes", ["#2a6da8", "#f3f2ee", "#d9761f"])
ACROSS, UP = (-1.7, 2.7), (-1.25, 1.75)


def moon_bags(n_bags, random_state, size=20):
    """Bags of two moons whose share of the second moon differs from bag to bag; bags, fractions, truth."""
    rng = np.random.default_rng(random_state)
    n_positive = rng.integers(0, size + 1, n_bags)
    drawn = [
        make_moons((size - k, k), noise=0.15, random_state=int(seed))
        for k, seed in zip(n_positive, rng.integers(2**31, size=n_bags), strict=True)
    ]
    return Bags.from_list([X for X, _ in drawn]), n_positive / size, np.concatenate([z for _, z in drawn])


def draw_bags(ax, bags, fractions):
    """Every point in the colour of its bag's fraction."""
    ax.scatter(
        *bags.X.T, c=fractions[bags.index], cmap=NO_TO_YES, vmin=0, vmax=1, s=17, edgecolors=GREY, linewidths=0.3
    )
    ax.set_title(f"What the model saw:\n{len(bags)} fractions, one per bag of 20", loc="left", fontsize=11)


def draw_answer(ax, model, bags, truth):
    """The learned probability of every place, and what the points really are."""
    x, y = np.linspace(*ACROSS, 120), np.linspace(*UP, 90)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    probability = model.predict_instance_proba(grid)[:, 1].reshape(90, 120)
    shade = ax.contourf(x, y, probability, levels=np.linspace(0, 1, 11), cmap=NO_TO_YES)
    ax.contour(x, y, probability, levels=[0.5], colors=DARK, linewidths=1.5)
    ax.scatter(*bags.X[truth == 0].T, s=7, color=DARK, linewidths=0, label="really negative")
    ax.scatter(*bags.X[truth == 1].T, s=15, color="white", edgecolors=DARK, linewidths=0.8, label="really positive")
    ax.set_title("What it learned:\na probability for every point", loc="left", fontsize=11)
    ax.legend(loc="upper right", frameon=True, framealpha=0.9, edgecolor="none", fontsize=8, handletextpad=0.2)
    return shade


def draw_new_bags(ax, model, bags, fractions):
    """Expected fraction and 90 % interval of bags the model has not seen, against what is really in them."""
    answer = model.predict_fraction(bags, level=0.9)
    order = np.argsort(fractions, kind="stable")
    place = np.arange(len(bags))
    low, high = answer.lower[order] - 0.012, answer.upper[order] + 0.012  # so that an interval of one number shows
    ax.vlines(place, low, high, color="#b4b9c1", linewidth=6, label="90 % interval")
    ax.scatter(place, answer.mean[order], s=60, marker="_", color=DARK, linewidths=1.6, zorder=3, label="expected")
    ax.scatter(place, fractions[order], s=15, color="#d9761f", zorder=4, label="really there")
    ax.set(ylim=(-0.04, 1.04), xticks=[], xlabel=f"{len(bags)} new bags, in order", yticks=[0, 0.25, 0.5, 0.75, 1])
    ax.set_title("New bags:\nhow large a fraction, how sure", loc="left", fontsize=11)
    ax.legend(loc="upper left", frameon=False, fontsize=8, handletextpad=0.4)


def main(output=None):
    bags, fractions, truth = moon_bags(30, random_state=0)
    new_bags, new_fractions, _ = moon_bags(20, random_state=1)
    model = BagGP(evidence="fraction", n_inducing=50, random_state=0).fit(bags, fractions)

    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(12.4, 3.9), layout="constrained", width_ratios=[1, 1.22, 0.8]
    )
    draw_bags(left, bags, fractions)
    shade = draw_answer(middle, model, bags, truth)
    draw_new_bags(right, model, new_bags, new_fractions)
    for ax in (left, middle):
        ax.set(xlim=ACROSS, ylim=UP, xticks=[], yticks=[])
    for ax in (left, middle, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.colorbar(
        shade, ax=middle, ticks=[0, 0.25, 0.5, 0.75, 1], label="fraction of the bag, probability of the point"
    )
    if output is not None:
        figure.savefig(output, dpi=95)
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:2])
