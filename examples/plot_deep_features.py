"""
A small network before the kernel
=================================

Two features of handwritten digits are learned from bag labels: is there a nine in the bag?

A small network from 64 pixels to 2 features is trained together with the kernel, by the evidence of the bag labels
alone. Nobody says which images are nines. The plain kernel on all pixels stands beside it.

Run: ``python examples/plot_deep_features.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from sklearn.decomposition import PCA

from bagwise import BagGP
from bagwise.datasets import load_digit_bags
from bagwise.gp.feature_maps import MLP
from bagwise.metrics import instance_report

BLUE, ORANGE, DARK = "#1d5b8f", "#c8601a", "#25282d"
N_TRAINING, N_IMAGES = 100, 22


def learned_features(model, bags):
    """What the trained network makes of every instance, turned and scaled so that both directions can be seen."""
    network = model.kernel_.feature_map
    with torch.no_grad():
        features = network(model.features_.standardised(bags.X)).numpy()
    return PCA(2, whiten=True).fit_transform(features)


def far_apart(points, n):
    """Rows of points that lie as far from each other as possible, one after the other."""
    chosen = [0]
    distance = np.linalg.norm(points - points[0], axis=1)
    while len(chosen) < n:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return chosen


def draw_points(ax, points, truth, title):
    """Every held-out instance, nines in orange; the model never saw these colours."""
    ax.scatter(*points[truth == 0].T, s=14, color=BLUE, linewidths=0, alpha=0.7, label="other digits")
    ax.scatter(*points[truth == 1].T, s=26, color=ORANGE, edgecolors="white", linewidths=0.6, label="nines")
    ax.set_title(title, loc="left", fontsize=11)
    ax.set(xticks=[], yticks=[])
    ax.spines[["top", "right"]].set_visible(False)


def draw_images(ax, points, images, truth):
    """Some of the instances as they look, framed in the colour of what they are."""
    for row in far_apart(points, N_IMAGES):
        picture = OffsetImage(images[row].reshape(8, 8), zoom=1.7, cmap="gray_r")
        frame = {"edgecolor": ORANGE if truth[row] else BLUE, "linewidth": 1.4}
        ax.add_artist(AnnotationBbox(picture, points[row], pad=0.12, bboxprops=frame))


def described(model, bags, y, truth):
    """Accuracy over bags and area under the curve over instances."""
    auc = instance_report(truth, model.predict_instance_proba(bags)[:, 1])["auc"]
    return f"{model.score(bags, y):.0%} of the bags right, instance AUC {auc:.2f}"


def main(output=None):
    bags, y, instance_y = load_digit_bags(9, n_bags=N_TRAINING + 50, bag_size=(4, 8), random_state=0)
    training, test = bags[:N_TRAINING], bags[N_TRAINING:]
    truth, y_test = instance_y[bags.offsets[N_TRAINING] :], y[N_TRAINING:]

    plain = BagGP(n_inducing=25, random_state=0).fit(training, y[:N_TRAINING])
    network = MLP(n_in=64, hidden=(16,), n_out=2)
    deep = BagGP(feature_map=network, n_inducing=25, random_state=0).fit(training, y[:N_TRAINING])

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 5.4), layout="compressed")
    pixels = PCA(2).fit(training.X).transform(test.X)
    draw_points(left, pixels, truth, "64 pixels, their two main directions\n" + described(plain, test, y_test, truth))
    points = learned_features(deep, test)
    draw_points(
        right, points, truth, "2 learned features, from labels of bags\n" + described(deep, test, y_test, truth)
    )
    draw_images(right, points, test.X, truth)
    left.legend(loc="lower right", frameon=False, fontsize=9)
    figure.text(0.5, -0.03, "held-out instances; no label states which of them are nines", ha="center", color=DARK)
    if output is not None:
        figure.savefig(output, dpi=110, bbox_inches="tight")
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:2])
