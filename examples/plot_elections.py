"""
An election
===========

From the results of forty districts to how people of a given age and education vote. The election is generated.

Run: ``python examples/plot_elections.py [picture.png]``
"""

import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np

from bagwise import BagGP, ConvergenceWarning, GroupKernelMachine
from bagwise.datasets import make_election, vote_chance
from bagwise.plots import BLUE, GREY, ORANGE, DecisionMapDisplay, open_frame

DARK = "#25282d"


def learn(bags, shares):
    """Two models of the same districts. Chains this short have not mixed, and the sampler says so; we know."""
    process = BagGP(evidence="fraction", n_inducing=30, learn_rows=400, random_state=0).fit(bags, shares)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine = GroupKernelMachine(lengthscale=1.5, n_centres=60, n_samples=150, n_burn_in=150, random_state=0)
        machine.fit(bags, shares)
    return process, machine


def draw_districts(ax, bags, shares):
    """Where the districts lie, and how they voted."""
    means = np.add.reduceat(bags.X, bags.offsets[:-1]) / bags.sizes[:, None]
    dots = ax.scatter(means[:, 0], means[:, 2], c=shares, cmap="Oranges", vmin=0, vmax=1, s=70, edgecolors=GREY)
    ax.set(xlabel="mean age of the district", ylabel="mean years of education")
    ax.set_title("what is published:\nthe orange share of every district", loc="left", fontsize=10)
    open_frame(ax, keep=("left", "bottom"))
    ax.figure.colorbar(dots, ax=ax, label="orange share")


def draw_truth(ax, display):
    """The true line of one half, in the plane of a map."""
    age, education = np.meshgrid(display.across, display.up)
    people = np.column_stack([age.ravel(), np.full(age.size, 38.0), education.ravel()])
    truth = vote_chance(people).reshape(age.shape)
    ax.contour(display.across, display.up, truth, levels=[0.5], colors=[DARK], linestyles="dashed", linewidths=1.8)


def legend():
    """What the marks on the maps mean; the shade is the probability of an orange vote."""
    marks = [
        plt.Line2D([], [], linestyle="", marker=mark, color=colour) for mark, colour in (("^", ORANGE), ("o", BLUE))
    ]
    return marks, ["voted orange", "voted otherwise"]


def main(output=None):
    bags, shares, votes = make_election(40, 20, random_state=0)
    figure, axes = plt.subplots(1, 3, figsize=(12.6, 3.9), layout="constrained", width_ratios=[1.15, 1, 1])
    draw_districts(axes[0], bags, shares)
    at = np.array([47.0, 38.0, 13.0])  # an income in the middle
    for ax, model in zip(axes[1:], learn(bags, shares), strict=True):
        display = DecisionMapDisplay.from_estimator(
            model, bags, features=("age", "education"), at=at, instance_y=votes, ax=ax
        )
        draw_truth(ax, display)
        right = np.mean(model.predict_instances(bags) == votes)
        title = f"{type(model).__name__}: {right:.0%} of the votes right\n(dashed: the truth)"
        ax.set_title(title, loc="left", fontsize=10)
    axes[-1].legend(*legend(), loc="lower right", fontsize=8, framealpha=0.9)
    if output is not None:
        figure.savefig(output, dpi=80)
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:2])
