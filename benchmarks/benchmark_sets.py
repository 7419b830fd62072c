"""How many inducing inputs BagGP needs: the table ``benchmarks`` of ``bagwise bench``, with several of their numbers.

Run: python -m benchmarks.benchmark_sets [folder] [--sets musk1,tiger] [--inducing 50,100,200,all] [--kernel rbf]
[--ard] [--repeats 5] [--jobs 2]
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from bagwise.bench.cells import Choice
from bagwise.bench.description import Model
from bagwise.bench.run import Plan, run
from bagwise.bench.tables import TABLES

DATA = Path(__file__).parents[2] / "shared" / "data"


def variants(options):
    """The table with one BagGP per number of inducing inputs, beside the SVM."""
    table = TABLES["benchmarks"]
    sizes = {size: None if size == "all" else int(size) for size in options.inducing.split(",")}
    fixed = {"kernel": options.kernel, "ard": options.ard}
    models = [Model(f"BagGP-{name}", "BagGP", {**fixed, "n_inducing": size}) for name, size in sizes.items()]
    svm = [model for model in table.models if model.name == "SVM"]
    return replace(table, name="inducing", models=(*models, *svm), comparisons=())


def main(arguments=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--sets", default="musk1,tiger,elephant,fox")
    parser.add_argument("--inducing", default="200")
    parser.add_argument("--kernel", default="rbf")
    parser.add_argument("--ard", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("bench"))
    options = parser.parse_args(arguments)
    choice = Choice(only=tuple(options.sets.split(",")), rounds=options.repeats)
    written = run(Plan((variants(options),), options.folder, options.output, choice, options.jobs))
    print(next(path for path in written if path.suffix == ".md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(sys.argv[1:])
