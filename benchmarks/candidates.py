"""The concentration of excluded classes by the number of false candidates, figure 4 of Tang, Zhang & Zhang, drawn.

MIPLGP as in ``bagwise bench candidates``, with ε = 0.0001, 0.001 and 0.01 and 1 to 5 false candidates (images: to 3,
there are five classes). Every finished cell is kept in --output; the same command goes on from there.

Run: python -m benchmarks.candidates [folder] [--splits 3] [--jobs 2] [--output bench] [--picture FILE.png]
"""

import argparse
import json
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

from bagwise.bench.cells import Choice
from bagwise.bench.run import Plan, run
from bagwise.bench.tables import TABLES
from bagwise.bench.tables.candidates import FILES, miplgp, sets_with

DATA = Path(__file__).parents[2] / "shared" / "data"
EPSILONS = (1e-4, 1e-3, 1e-2)
MOST_FALSE = {"mnist": 3, "fmnist": 3, "newsgroups": 5, "birdsong": 5}
COLOURS, MARKERS = ("#1d5b8f", "#c8601a", "#3d8168"), "os^"


def concentration_table():
    """The table ``candidates`` with a column for every ε."""
    sets = tuple(data for name, most in MOST_FALSE.items() for data in sets_with(range(1, most + 1), (name,)))
    models = tuple(model for eps in EPSILONS for model in miplgp(f"ε = {eps:g}", sets, alpha_eps=eps))
    changes = {"name": "concentration", "title": "Candidate sets: how much an exclusion counts", "published": ()}
    return replace(TABLES["candidates"], sets=sets, models=models, comparisons=(), **changes)


def accuracies(path):
    """By data set, ε and number of false candidates: accuracy over bags, one per split."""
    found = defaultdict(dict)
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        name, r = record["set"].rsplit("-", 1)
        accuracy = record["metrics"][record["set"]]["bag accuracy"]
        found[name, record["model"], int(r)][record["repeat"]] = accuracy
    return {key: list(values.values()) for key, values in found.items()}


def draw(found, picture):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(FILES), figsize=(12, 3.0), layout="constrained", sharey=True)
    for ax, name in zip(axes, FILES, strict=True):
        numbers = range(1, MOST_FALSE[name] + 1)
        for eps, colour, marker in zip(EPSILONS, COLOURS, MARKERS, strict=True):
            values = [found[name, f"ε = {eps:g}", r] for r in numbers]
            mean, spread = ([how(some) for some in values] for how in (np.mean, np.std))
            ax.errorbar(numbers, mean, spread, color=colour, marker=marker, capsize=2, label=f"ε = {eps:g}")
        ax.set_title(name, loc="left", fontsize=11)
        ax.set(xlabel="false candidates", xticks=range(1, 6), xlim=(0.7, 5.3), ylim=(0, 1.02))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("accuracy over test bags")
    axes[-1].legend(frameon=False, fontsize=9, loc="lower left")
    figure.savefig(picture, dpi=100)


def main(arguments=()):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--output", type=Path, default=Path("bench"))
    parser.add_argument("--picture", type=Path, default=Path("candidates_concentration.png"))
    options = parser.parse_args(arguments)
    choice = Choice(rounds=options.splits)
    plan = Plan((concentration_table(),), options.folder, options.output, choice, options.jobs, device=options.device)
    written = run(plan)
    print(next(path for path in written if path.suffix == ".md").read_text(encoding="utf-8"))
    draw(accuracies(options.output / "concentration.jsonl"), options.picture)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main(sys.argv[1:])
