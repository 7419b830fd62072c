"""A sweep over features in a file against the bare reads and products of the same file, and nothing else.

The table is that of ``benchmarks.scale``, the features are those of a kernel that was not learned.
Run with nothing beside it: python -m benchmarks.scale_sweep [rows] [threads]
"""

import sys
import tempfile
from pathlib import Path

import torch

import bagwise
from bagwise import BagGP, Bags
from benchmarks.scale import R, generate, sweep_ratio


def main(rows=1_000_000, threads=1):
    """Print CPU seconds of both and their ratio."""
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        generate(path, rows)
        bags, y = Bags.open(path, "bag", label="label")
        with bagwise.scale.within(memory=0, threads=threads):
            settings = {"kernel": "rbf", "size_effect": False, "learn": False, "random_state": 0}
            model = BagGP(n_inducing=R, **settings).fit(bags[:200], y[:200])
        sweep, bare = sweep_ratio(model, bags, y)
    print(f"{bags.n_instances:,} rows, {threads} threads")
    print(f"sweep {sweep:.2f} s, bare {bare:.2f} s, ratio {sweep / bare:.2f}")


if __name__ == "__main__":
    main(*(int(value) for value in sys.argv[1:]))
