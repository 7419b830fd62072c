"""
Slides of two hospitals
=======================

From a folder of h5 files to a map of the tumour, and which tiles to look at next.

The slides are made of handwritten digits, and the digit 0 is the tumour. The 24 patients of the hospital in the north
are labelled; those of the south are not, and its stain is paler.

Run: ``python examples/plot_slides.py [picture.png]``
"""

import sys
import tempfile

import h5py
import matplotlib.pyplot as plt
import numpy as np

from bagwise import BagGP, Bags
from bagwise.active import suggest
from bagwise.datasets import write_digit_slides
from bagwise.plots import HeatmapDisplay, open_frame


def truth_of(folder, bags):
    """Which tiles are tumour: in these files, and only to be compared with."""
    parts = []
    for slide in bags.by_part().ids:
        with h5py.File(f"{folder}/{slide}.h5") as file:
            parts.append(file["truth"][()])
    return np.concatenate(parts)


def look_at_tiles(model, labelled, y, asked, truth, n=12):
    """Ask a pathologist about the n most informative tiles, and fit again with the answers; the kernel stays."""
    chosen = suggest(model, asked, what="instances", n=n)
    known = np.full(asked.n_instances, np.nan)
    known[chosen.indices] = truth[chosen.indices]
    together = Bags.concat([labelled, asked.with_known(known)])
    fixed = BagGP(kernel=model.kernel_, learn=False, n_inducing=50, random_state=0)
    return fixed.fit(together, np.concatenate([y, np.full(len(asked), np.nan)])), chosen


def draw_digits(ax, slide, truth):
    """The slide itself: a digit in every tile, and a frame around those of the tumour."""
    places = slide.meta[["x", "y"]].to_numpy()
    for row, place, sick in zip(slide.X, places, truth, strict=True):
        extent = (place[0], place[0] + 256, place[1] + 256, place[1])
        ax.imshow(row.reshape(8, 8), cmap="gray_r", extent=extent, vmin=0, vmax=19)
        if sick:
            ax.add_patch(plt.Rectangle(place, 256, 256, fill=False, edgecolor="#b0461c", linewidth=1.8, zorder=3))
    ax.set(xlim=(places[:, 0].min(), places[:, 0].max() + 256), ylim=(places[:, 1].max() + 256, places[:, 1].min()))
    ax.set(xlabel="px", ylabel="px")
    ax.set_title(f"slide {slide.ids[0]} (frames: tumour)", loc="left", fontsize=10)
    open_frame(ax, keep=("left", "bottom"))


def main(output=None):
    with tempfile.TemporaryDirectory() as folder:
        north, south = f"{folder}/north", f"{folder}/south"
        table = write_digit_slides(north, 24, random_state=0)
        write_digit_slides(south, 12, hospital="south", random_state=1)
        columns = {"bag": "patient", "part": "slide_id"}
        labelled, y = Bags.from_folder(north, table, label="tumour", **columns)
        asked, hidden = Bags.from_folder(south, f"{south}/slides.csv", label="tumour", **columns)
        truth = truth_of(south, asked)
    model = BagGP(n_inducing=50, learn_rows=400, random_state=0).fit(labelled, y)
    better, chosen = look_at_tiles(model, labelled, y, asked, truth)
    patients, slides = model.predict_proba(asked)[:, 1], model.predict_part_proba(asked)[:, 1]
    print(f"patients of the south with a tumour: P = {patients[hidden == 1].mean():.2f} on average, without one "
          f"{patients[hidden == 0].mean():.2f}; the surest slide has {slides.max():.2f}")  # fmt: skip
    print("look at these tiles first:")
    print(chosen.to_frame()[["bag", "x", "y", "utility"]].head(4).to_string(index=False))

    parts = asked.by_part()
    number = int(np.argmax(np.add.reduceat(truth, parts.offsets[:-1])))
    figure, axes = plt.subplots(2, 3, figsize=(12.4, 7.0), layout="constrained")
    draw_digits(axes[0, 0], parts[number], truth[parts.offsets[number] : parts.offsets[number + 1]])
    for (first, second), given, judge, title in (
        (axes[0, 1:], None, model, "from labels of northern patients"),
        (axes[1, 1:], None, better, f"after a look at {len(chosen)} tiles"),
        ((axes[1, 0], None), 1, model, "given that this slide has a tumour"),
    ):
        pair = first if second is None else [first, second]
        display = HeatmapDisplay.from_estimator(judge, parts, number, given=given, ax=pair)
        display.ax_.set_title(title, loc="left", fontsize=10)
    if output is not None:
        figure.savefig(output, dpi=80)
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:2])
