"""
Candidate classes
=================

Each bag of digits comes with two candidate classes; one of them is wrong. Three ways of dealing with the candidates
are compared.

Run: ``python examples/plot_candidates.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from bagwise import MIPLGP
from bagwise.datasets import make_candidate_bags
from bagwise.plots import BLUE, GREY, ORANGE, open_frame, plain_legend

DIGITS = (0, 2, 4, 6, 8)
RULES = ("uniform", "dirichlet", "consistent")
N_TRAIN, N_SHOWN, WIDTH = 70, 4, 8


def learn(train, candidates):
    return {
        rule: MIPLGP(rule, solver="sparse", n_inducing=120, n_rounds=15, random_state=0).fit(train, candidates)
        for rule in RULES
    }


def called(klass):
    return "none" if klass == len(DIGITS) else str(DIGITS[klass])


def draw_bags(axes, model, bags, y, truth):
    """Some new bags, what every image is taken for, and in orange where it was taken for the class of a bag."""
    found, classes = model.predict_instances(bags), model.predict(bags)
    for row, bag in zip(axes, range(N_SHOWN), strict=True):
        row[0].set_ylabel(f"bag: {called(classes[bag])}\n(true: {called(y[bag])})", fontsize=9, rotation=0, labelpad=32)
        row[0].yaxis.label.set_verticalalignment("center")
        for ax, instance in zip(row, range(bags.offsets[bag], bags.offsets[bag + 1]), strict=False):
            draw_digit(ax, bags.X[instance], found[instance], truth[instance])


def draw_digit(ax, pixels, found, truth):
    ax.imshow(np.asarray(pixels).reshape(8, 8), cmap="Greys")
    ax.set_visible(True)
    named = found < len(DIGITS)
    wrong = "" if found == truth else f" ({called(truth)})"
    ax.set_xlabel(called(found) + wrong, fontsize=8, color=ORANGE if named else GREY, labelpad=2)
    for side in ax.spines.values():
        side.set(color=ORANGE if named else GREY, linewidth=2.2 if named else 0.5)


def draw_shares(ax, models, bags, y, truth):
    own = truth < len(DIGITS)
    shares = {
        "bags of the right class": (BLUE, [model.score(bags, y) for model in models.values()]),
        "target digits found": (ORANGE, [np.mean((m.predict_instances(bags) == truth)[own]) for m in models.values()]),
    }
    for shift, (label, (color, heights)) in zip((-0.2, 0.2), shares.items(), strict=True):
        bars = ax.bar(np.arange(len(RULES)) + shift, heights, 0.38, color=color, label=label)
        ax.bar_label(bars, [f"{height:.0%}" for height in heights], fontsize=9)
    ax.set_xticks(range(len(RULES)), RULES)
    ax.set(ylim=(0, 1.25), xlabel="disambiguation", yticks=[0, 0.5, 1])
    ax.set_title("New bags, by the way the\ncandidates were settled", loc="left", fontsize=11)
    open_frame(ax, keep=("left", "bottom"))
    plain_legend(ax, "upper left")


def main(output=None):
    bags, candidates, y, truth = make_candidate_bags(
        targets=DIGITS, n_bags=120, bag_size=(5, WIDTH), n_false=1, random_state=0
    )
    train, test = bags[:N_TRAIN], bags[N_TRAIN:]
    y, truth = y[N_TRAIN:], truth[train.n_instances :]
    models = learn(train, candidates[:N_TRAIN])
    figure = plt.figure(figsize=(11.4, 4.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.75, 1])
    left.suptitle("What single images of new bags are taken for (in brackets: what they are)", fontsize=11)
    axes = left.subplots(N_SHOWN, WIDTH)
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[], visible=False)
    draw_bags(axes, models["consistent"], test, y, truth)
    draw_shares(right.subplots(), models, test, y, truth)
    if output is not None:
        figure.savefig(output, dpi=90)
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:2])
