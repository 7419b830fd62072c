"""Where the time of a fit on a GPU goes: reading, copying, features, sweeps and learning, over bags in Parquet files.

Every part is done once by itself over all rows, and timed; two fits, without and with learning, stand beside them.
Seconds are those of the clock.
Run: python -m benchmarks.scale_gpu [rows] [device] [files] [inducing inputs]
"""

import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

import torch

from bagwise import BagGP, Bags
from bagwise.gp.features import chunk_slices
from benchmarks.scale import generate


def clock(device):
    """The time, once the device has finished."""
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(device, work):
    """Seconds, and what came out."""
    began = clock(device)
    found = work()
    return clock(device) - began, found


def fitted(bags, y, device, n_inducing, **changes):
    """The flagship in single precision, with a kernel of one kind and no column of sizes."""
    settings = {"kernel": "rbf", "size_effect": False, "random_state": 0, "dtype": "float32"}
    return BagGP(**settings, n_inducing=n_inducing, device=device, **changes).fit(bags, y)


def parts(bags, features, device):
    """Seconds of reading, copying and features over all rows, each by itself."""
    spent = dict.fromkeys(("read", "copy", "features"), 0.0)
    for part in chunk_slices(bags):
        seconds, some = timed(device, lambda part=part: bags[part].in_memory())
        spent["read"] += seconds
        seconds, _ = timed(device, lambda some=some: torch.tensor(some.X).to(device))
        spent["copy"] += seconds
        seconds, _ = timed(device, lambda some=some: features.design(some))
        spent["features"] += seconds
    spent["features"] -= spent["copy"]
    return spent


def write_files(folder, n_rows, n_files):
    """So many files of equal size, written at once."""
    paths = [Path(folder) / f"part-{number:03}.parquet" for number in range(n_files)]
    work = [(path, n_rows // n_files, number, number * 10**7) for number, path in enumerate(paths)]
    with multiprocessing.get_context("spawn").Pool(min(n_files, 16)) as pool:
        pool.starmap(generate, work)
    return paths


def main(n_rows=20_000_000, device="cuda", n_files=16, n_inducing=256):
    """The table."""
    with tempfile.TemporaryDirectory() as folder:
        seconds, paths = timed("cpu", lambda: write_files(folder, n_rows, n_files))
        print(f"{n_rows:,} rows written in {seconds:.0f} s", flush=True)
        opened, (bags, y) = timed(device, lambda: Bags.open(paths, "bag", label="label"))
        print(f"opened in {opened:.1f} s: {bags}", flush=True)
        plain, model = timed(device, lambda: fitted(bags, y, device, n_inducing, learn=False))
        print(f"fit without learning {plain:.1f} s, {model.n_iter_} iterations by {model.inference_}", flush=True)
        learned, model = timed(device, lambda: fitted(bags, y, device, n_inducing))
        print(f"fit with learning {learned:.1f} s, {model.n_iter_} iterations by {model.inference_}", flush=True)
        for name, seconds in parts(bags, model.features_, device).items():
            print(f"| {name}, once over all rows | {seconds:.1f} s |", flush=True)
        if device != "cpu":
            print(f"most memory of the device {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*(kind(value) for kind, value in zip((int, str, int, int), given, strict=False)))
