"""
What H, V and C do in VGPMIL and LMVGPMIL
=========================================

One feature, bags of four, and five labels that are wrong.

Run: ``python examples/plot_logistic.py [picture.png]``
"""

import math
import sys

import gpytorch
import matplotlib.pyplot as plt
import numpy as np

from bagwise import LMVGPMIL, VGPMIL, Bags

SHADES = ("#9db8d1", "#5f93c2", "#1d5b8f", "#0c2f4f")
ORANGE, DARK = "#c8601a", "#25282d"
ACROSS = np.linspace(-3, 3, 241)[:, None]


def made_up(wrong=5):
    """Instances are positive to the right of 1; five positive bags are labelled "no"."""
    rng = np.random.default_rng(3)
    bags = Bags(rng.uniform(-3, 3, size=(240, 1)), np.repeat(np.arange(60), 4))
    y = np.maximum.reduceat(bags.X[:, 0] > 1, bags.offsets[:-1]).astype(int)
    y[np.flatnonzero(y == 1)[:wrong]] = 0
    return bags, y


def settings():
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    kernel.outputscale = 16.0
    kernel.base_kernel.lengthscale = 0.6
    return {"kernel": kernel, "n_inducing": 30, "random_state": 0}


def draw(ax, title, models):
    ax.axvspan(1, 3, color=ORANGE, alpha=0.08, lw=0)
    ax.axhline(0, color=DARK, lw=0.8)
    for shade, (name, model) in zip(SHADES[-len(models) :], models.items(), strict=True):
        ax.plot(ACROSS, model.predict_latent(ACROSS)[0], color=shade, lw=2, label=name)
    ax.set(xlabel="feature", xlim=(-3, 3))
    ax.set_title(title, loc="left", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9, loc="upper left")


def main(output=None):
    bags, y = made_up()
    trusting = {"H = 3": 3.0, "H = 100": 100.0, "H = ∞": math.inf}
    doubtful = {"updates": "structured", "bias": 5.0, **settings()}
    trust = {name: VGPMIL(H=H, **doubtful).fit(bags, y) for name, H in trusting.items()}
    bags, y = made_up(wrong=0)
    widths = {"no margin": VGPMIL(bias=5.0, **settings()).fit(bags, y)}
    widths |= {f"V = {V:g}": LMVGPMIL(V=V, **settings()).fit(bags, y) for V in (1.0, 2.0, 4.0)}
    steepness = {f"C = {C:g}": LMVGPMIL(C=C, **settings()).fit(bags, y) for C in (0.3, 1.0, 4.0)}

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11.4, 3.9), layout="constrained")
    draw(left, "H: how far labels are trusted\n(5 of 60 are wrong)", trust)
    draw(middle, "V: how far from the border instances\nare to be kept", widths)
    draw(right, "C: how firmly\n(V = 2)", steepness)
    left.set_ylabel("latent mean: log odds of being positive")
    if output is not None:
        figure.savefig(output, dpi=100)
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:2])
