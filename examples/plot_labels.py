"""
Which instances make a bag positive?
====================================

Learned from the labels of the bags alone.

Run: ``python examples/plot_labels.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from bagwise import BagGP
from bagwise.datasets import make_bags, wave

BLUE, ORANGE, GREY, DARK = "#1d5b8f", "#c8601a", "#8a8f98", "#25282d"
NO_TO_YES = LinearSegmentedColormap.from_list("no to yes", ["#3f7fb5", "#f6f6f4", "#e08a45"])
SIDE = (-3.0, 3.0)


def draw_bags(ax, bags, y):
    """Every instance in the colour of its bag's label, and one positive bag tied together."""
    positive = y[bags.index] == 1
    ax.scatter(
        *bags.X[~positive].T, s=15, color=BLUE, marker="s", linewidths=0, alpha=0.75, label="in a bag labelled no"
    )
    ax.scatter(*bags.X[positive].T, s=19, color=ORANGE, linewidths=0, alpha=0.85, label="in a bag labelled yes")
    one = bags[int(np.flatnonzero(y == 1)[3])].X
    centre = one.mean(axis=0)
    for x in one:
        ax.plot(*zip(centre, x, strict=True), color=DARK, linewidth=1.0)
    ax.scatter(*one.T, s=40, color=ORANGE, edgecolors=DARK, linewidths=1.2, label="one bag: at least one of these")
    ax.set_title("What the model saw: labels of bags", loc="left", fontsize=11)


def draw_answer(ax, model, bags, instance_y):
    """The learned probability of every place, the true positives, and the true border."""
    across = np.linspace(*SIDE, 120)
    grid = np.stack(np.meshgrid(across, across), axis=-1).reshape(-1, 2)
    probability = model.predict_instance_proba(grid)[:, 1].reshape(120, 120)
    shade = ax.contourf(across, across, probability, levels=np.linspace(0, 1, 11), cmap=NO_TO_YES)
    ax.contour(across, across, probability, levels=[0.5], colors=DARK, linewidths=1.6)
    ax.contour(
        across, across, wave(grid).reshape(120, 120), levels=[0], colors=DARK, linestyles="dotted", linewidths=1.4
    )
    truth = instance_y == 1
    ax.scatter(*bags.X[~truth].T, s=7, color=DARK, linewidths=0, alpha=0.55, label="really negative")
    ax.scatter(*bags.X[truth].T, s=30, color="white", edgecolors=DARK, linewidths=1.1, label="really positive")
    ax.plot([], [], color=DARK, linewidth=1.6, label="learned border (probability ½)")
    ax.plot([], [], color=DARK, linestyle="dotted", linewidth=1.4, label="true border")
    ax.set_title("What it learned: every single instance", loc="left", fontsize=11)
    return shade


def main(output=None):
    bags, y, instance_y = make_bags(80, bag_size=(5, 9), random_state=0)
    model = BagGP(n_inducing=50, random_state=0).fit(bags, y)

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 5.6), layout="compressed", sharex=True, sharey=True)
    draw_bags(left, bags, y)
    shade = draw_answer(right, model, bags, instance_y)
    for ax in (left, right):
        ax.set(xlim=SIDE, ylim=SIDE, aspect="equal", xlabel="first feature", xticks=range(-3, 4), yticks=range(-3, 4))
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False, fontsize=9)
    left.set_ylabel("second feature")
    figure.colorbar(shade, ax=right, ticks=[0, 0.25, 0.5, 0.75, 1], label="probability of being positive", shrink=0.8)
    if output is not None:
        figure.savefig(output, dpi=110)
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:2])
