"""
Cells of donors
===============

Which cells make the difference between the sick and the healthy?

Donors and their cells are generated: the sick have a few cells of a kind that the healthy lack, and every donor is a
little different from the others. The cells are given as an AnnData object, and the answers go back into it. (Without
the package anndata the same bags are made from a table.)

Run: ``python examples/plot_cells.py [picture.png]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap

from bagwise import BagGP, Bags
from bagwise.plots import BLUE, ORANGE, PALE, open_frame

KINDS = np.array([[0.0, 0.0], [4.0, 1.0], [1.5, 4.0], [-2.5, 2.5]])  # centres; the last is the kind of the sick


def make_donors(n_donors=36, n_cells=40, random_state=0):
    """Cells in a plane of two features, their donors and kinds; every other donor is sick."""
    rng = np.random.default_rng(random_state)
    donor = np.repeat(np.arange(n_donors), n_cells)
    sick = donor % 2 == 1
    kind = np.where(sick & (rng.random(len(donor)) < 0.08), 3, rng.integers(0, 3, len(donor)))
    drift = rng.normal(scale=0.25, size=(n_donors, 2))
    X = KINDS[kind] + drift[donor] + 0.6 * rng.normal(size=(len(donor), 2))
    names = [f"cell {number}" for number in range(len(donor))]
    obs = pd.DataFrame({"donor": [f"D{number:02d}" for number in donor], "disease": sick.astype(int)}, index=names)
    return X, obs, kind == 3


def bags_of(X, obs):
    """Bags of cells, from AnnData where it is installed; the object comes along to be written to."""
    try:
        from anndata import AnnData
    except ImportError:
        table = obs.assign(X_pca_0=X[:, 0], X_pca_1=X[:, 1])
        return None, *Bags.from_frame(table, "donor", label="disease")
    adata = AnnData(obs=obs, obsm={"X_pca": X})
    return adata, *Bags.from_anndata(adata, "donor", features="X_pca", label="disease")


def draw(ax, X, values, title, **how):
    dots = ax.scatter(X[:, 0], X[:, 1], c=values, s=9, linewidths=0, **how)
    ax.set(xlabel="X_pca 0", ylabel="X_pca 1")
    ax.set_title(title, loc="left", fontsize=10)
    open_frame(ax, keep=("left", "bottom"))
    return dots


def main(output=None):
    X, obs, special = make_donors()
    adata, bags, y = bags_of(X, obs)
    model = BagGP(n_inducing=40, learn_rows=400, random_state=0).fit(bags[:24], y[:24])
    new, truth = bags[24:], y[24:]
    right = np.mean(model.predict(new) == truth)
    given = model.predict_instance_proba(bags, given=y)[:, 1]
    if adata is not None:
        from bagwise.io import add_to_anndata

        add_to_anndata(adata, model, bags, probability="p_special", bag_probability="p_donor")
    figure, axes = plt.subplots(1, 3, figsize=(12.4, 3.9), layout="constrained", width_ratios=[0.9, 1, 1])
    sick = obs["disease"].to_numpy() == 1
    draw(axes[0], X, np.where(sick, ORANGE, BLUE), "known: sick (orange) or healthy donor", alpha=0.5)
    plain = model.predict_instance_proba(bags)[:, 1]
    colours = LinearSegmentedColormap.from_list("cells", [PALE, ORANGE, "#4f1208"])
    shades = {"cmap": colours, "vmin": 0, "vmax": 1}
    draw(axes[1], bags.X, plain, f"P(cell is special); {right:.0%} of new donors right", **shades)
    dots = draw(axes[2], bags.X, given, "the same, given the label of its own donor", **shades)
    figure.colorbar(dots, ax=axes[2], label="probability")
    axes[1].scatter(*X[special].T, s=34, facecolors="none", edgecolors=BLUE, linewidths=0.5, label="truly special")
    axes[1].legend(loc="lower right", frameon=False, fontsize=9)
    if output is not None:
        figure.savefig(output, dpi=80)
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:2])
