"""
Rough counts
============

Each bag of 12 was graded "0 to 2", "3 to 5" or "6 or more". Nothing else is known.

Run: ``python examples/plot_counts.py [picture.png]``
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
SIZE = 12


def graded_bags(n_bags, random_state):
    """Bags of 12 with anything from 0 to 10 positives; bags, true numbers, truth of the instances."""
    bags, _, instance_y = make_bags(
        n_bags, bag_size=SIZE, positives=(1, 10), positive_rate=0.8, random_state=random_state
    )
    return bags, np.add.reduceat(instance_y, bags.offsets[:-1]), instance_y


def grades(numbers):
    """What is written down: the lowest and the highest number that the grade allows."""
    lowest = np.select([numbers <= 2, numbers <= 5], [0, 3], default=6)
    highest = np.select([numbers <= 2, numbers <= 5], [2, 5], default=SIZE)
    return np.column_stack([lowest, highest])


def draw_ranges(ax, ranges, numbers):
    """A bar from the lowest to the highest number of every bag, and the true number."""
    order = np.lexsort([numbers, ranges[:, 0]])
    place = np.arange(len(order))
    low, high = ranges[order].T
    ax.bar(place, high - low + 0.7, bottom=low - 0.35, width=0.62, color="#b9c7d6", label="range given")
    ax.scatter(place, numbers[order], s=11, color=DARK, zorder=3, label="true number, not given")
    ax.set(xticks=[], yticks=range(0, SIZE + 1, 2), ylim=(-0.8, SIZE + 3.2))
    ax.set(xlabel=f"{len(order)} bags of {SIZE}", ylabel="number of positives")
    ax.set_title("What the model saw:\na range for every bag", loc="left", fontsize=11)
    ax.legend(loc="upper left", frameon=False, fontsize=9)


def draw_answer(ax, model, bags, instance_y):
    """The learned probability of every place, what the instances really are, and the true border."""
    across = np.linspace(*SIDE, 120)
    grid = np.stack(np.meshgrid(across, across), axis=-1).reshape(-1, 2)
    probability = model.predict_instance_proba(grid)[:, 1].reshape(120, 120)
    shade = ax.contourf(across, across, probability, levels=np.linspace(0, 1, 11), cmap=NO_TO_YES)
    ax.contour(across, across, probability, levels=[0.5], colors=DARK, linewidths=1.6)
    border = wave(grid).reshape(120, 120)
    ax.contour(across, across, border, levels=[0], colors=DARK, linestyles="dotted", linewidths=1.4)
    truth = instance_y == 1
    ax.scatter(*bags.X[~truth].T, s=8, color=DARK, linewidths=0, label="really negative")
    ax.scatter(*bags.X[truth].T, s=17, color="white", edgecolors=DARK, linewidths=0.8, label="really positive")
    ax.set(xlim=SIDE, ylim=SIDE, xticks=[], yticks=[])
    ax.set_title("What it learned (solid border)\nand the truth (dotted)", loc="left", fontsize=11)
    ax.legend(loc="lower left", framealpha=0.9, edgecolor="none", fontsize=8, handletextpad=0.2)
    return shade


def draw_new_bag(ax, model, bag, number):
    """How probable every number of positives is in one bag, and the chance of a range."""
    each = [model.predict_count_proba(bag, k, k)[0] for k in range(SIZE + 1)]
    chance = model.predict_count_proba(bag, 3, 5)[0]
    colours = [ORANGE if 3 <= k <= 5 else "#b9c7d6" for k in range(SIZE + 1)]
    ax.bar(range(SIZE + 1), each, color=colours, width=0.75)
    ax.set(xticks=range(0, SIZE + 1, 2), xlabel="number of positives", ylim=(0, 1.3 * max(each)))
    ax.text(0.98, 0.96, f"P(3 to 5) = {chance:.2f}", transform=ax.transAxes, ha="right", va="top", color=ORANGE)
    ax.annotate(
        "really there", (number, each[number]), (0, 16), textcoords="offset points", ha="center", fontsize=9,
        arrowprops={"arrowstyle": "-|>", "color": DARK},
    )  # fmt: skip
    ax.set_title("A new bag:\nprobability of each number", loc="left", fontsize=11)


def main(output=None):
    bags, numbers, instance_y = graded_bags(40, random_state=2)
    model = BagGP(evidence="count", n_inducing=50, random_state=0).fit(bags, grades(numbers))
    new_bags, new_numbers, _ = graded_bags(20, random_state=3)
    shown = int(np.flatnonzero(new_numbers == 3)[0])

    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(12.4, 4.2), layout="constrained", width_ratios=[0.95, 1.2, 0.8]
    )
    draw_ranges(left, grades(numbers), numbers)
    shade = draw_answer(middle, model, bags, instance_y)
    draw_new_bag(right, model, new_bags[shown], new_numbers[shown])
    for ax in (left, middle, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.colorbar(shade, ax=middle, ticks=[0, 0.25, 0.5, 0.75, 1], label="probability of being positive")
    if output is not None:
        figure.savefig(output, dpi=100)
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:2])
