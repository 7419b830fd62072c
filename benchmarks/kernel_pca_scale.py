"""Why the log-likelihoods of the newsgroups are not the published ones: the scale of the components decides them.

The table ``newsgroups`` on two data sets with other lengthscales, and with standardised components; with --inductive
the components are those of the training bags, on which test bags are projected.
Run: python -m benchmarks.kernel_pca_scale [folder] [--sets rec_sport_hockey,sci_electronics] [--jobs 2] [--inductive]
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from bagwise.bench.cells import Choice
from bagwise.bench.description import Model
from bagwise.bench.protocols import KernelPCAFolds
from bagwise.bench.run import Plan, run
from bagwise.bench.tables import TABLES

DATA = Path(__file__).parents[2] / "shared" / "data"
SCALES = {f"l={scale:g}": {"lengthscale": scale} for scale in (10.0, 1.0, 0.2, 0.05)}
SCALES["standardised"] = {"standardize": True}  # then lengthscale √100 means something


def variants(inductive):
    """The table with every scale for the probit and the logistic model."""
    models = [
        Model(f"{name}-{label}", name, settings, published=True)
        for name in ("MILGPProbit", "VGPMIL")
        for label, settings in SCALES.items()
    ]
    changes = {"name": "kernel_pca_scale", "rule": KernelPCAFolds(inductive=inductive), "published": ()}
    return replace(TABLES["newsgroups"], models=tuple(models), comparisons=(), **changes)


def main(arguments=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--sets", default="rec_sport_hockey,sci_electronics")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--inductive", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("bench"))
    options = parser.parse_args(arguments)
    choice = Choice(only=tuple(options.sets.split(",")))
    written = run(Plan((variants(options.inductive),), options.folder, options.output, choice, options.jobs))
    print(next(path for path in written if path.suffix == ".md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(sys.argv[1:])
