"""The baselines beside their published figures: the table ``benchmarks`` of ``bagwise bench`` with these columns only.

Run: python -m benchmarks.baselines [folder] [--sets musk1,tiger,elephant,fox] [--models mi-SVM,NSK]
[--set kernel=linear ...] [--repeats 1] [--jobs 1] [--output bench]
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from bagwise import baselines
from bagwise.bench.cells import Choice
from bagwise.bench.run import Plan, run
from bagwise.bench.tables import TABLES
from bagwise.cli.options import parse_value

DATA = Path(__file__).parents[2] / "shared" / "data"


def chosen(names, pairs):
    """The table with the wanted baselines, all with these settings."""
    table = TABLES["benchmarks"]
    settings = {name: parse_value(value) for name, value in (pair.split("=") for pair in pairs)}
    ours = [model for model in table.models if model.estimator in baselines.__all__]
    wanted = [model for model in ours if names is None or model.name in names.split(",")]
    models = tuple(replace(model, settings={**model.settings, **settings}) for model in wanted)
    return replace(table, name="baselines", models=models, comparisons=())


def main(arguments=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--sets", default="musk1,tiger,elephant,fox")
    parser.add_argument("--models")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("bench"))
    options = parser.parse_args(arguments)
    choice = Choice(only=tuple(options.sets.split(",")), rounds=options.repeats)
    table = chosen(options.models, options.set)
    written = run(Plan((table,), options.folder, options.output, choice, options.jobs))
    print(next(path for path in written if path.suffix == ".md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(sys.argv[1:])
