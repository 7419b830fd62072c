"""
Relevant measurements and the shape that fits
=============================================

Which of 60 measurements matter, and which shape of a molecule fits? Both are learned from "active" and "inactive"
alone.

Run: ``python examples/plot_bag_scores.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from bagwise import GPMIL
from bagwise.datasets import make_molecule_bags
from bagwise.plots import BLUE, ORANGE, RelevanceDisplay, open_frame, plain_legend


def draw_relevances(ax, model, relevant):
    RelevanceDisplay.from_estimator(model, relevant=relevant, ax=ax)
    found = np.argsort(-model.relevance_)[: relevant.sum()]
    title = f"Which features matter:\n{relevant[found].sum()} of the {relevant.sum()} ranked highest really do"
    ax.set_title(title, loc="left", fontsize=11)


def draw_shapes(ax, model, bags, instance_y):
    """How probable the shapes of unseen molecules are, by what they really are."""
    probability = model.predict_instance_proba(bags)[:, 1]
    edges = np.linspace(0, 1, 21)
    for truth, color, label in ((0, BLUE, "other shapes"), (1, ORANGE, "the shape that fits")):
        ax.hist(probability[instance_y == truth], edges, color=color, alpha=0.8, label=label)
    ax.set(yscale="log", xlabel="probability of a shape", ylabel="number of shapes", xlim=(0, 1))
    ax.set_title("Single shapes of new molecules,\nwhose labels nobody ever gave", loc="left", fontsize=11)
    open_frame(ax, keep=("left", "bottom"))
    plain_legend(ax, "best")


def main(output=None):
    bags, y, instance_y, relevant = make_molecule_bags(360, n_features=60, n_relevant=10, tightness=0.7, random_state=0)
    train, test = bags[:180], bags[180:]
    model = GPMIL(ard=True, n_restarts=1, random_state=0).fit(train, y[:180])
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 3.9), layout="constrained")
    draw_relevances(left, model, relevant)
    draw_shapes(right, model, test, instance_y[train.n_instances :])
    if output is not None:
        figure.savefig(output, dpi=110)
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:2])
