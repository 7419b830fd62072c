"""Where the time of a fit on a GPU goes: reading, copying, features, sweeps and learning, over bags in Parquet files.

A fit to a small table comes first, so that the device is ready; then there are two fits, with and without learning of
the kernel. Every part of a fit is timed where it happens, without the parts inside of it; seconds are those of the
clock. Every line is printed as soon as it is known; at the limit the run stops.
Run: python -m benchmarks.scale_gpu [rows] [device] [files] [inducing inputs] [limit in seconds]
"""

import contextlib
import multiprocessing
import signal
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import torch

from bagwise import BagGP, Bags
from bagwise.gp import features, ground
from bagwise.gp.features import chunk_slices
from bagwise.inference import engines, places
from bagwise.inference.kernel_learning import learn
from bagwise.inference.kernel_learning.by_bags import ByBags
from benchmarks.scale import generate

BEGAN = time.perf_counter()
SMALL = 20_000  # rows of the first table
PARTS = (
    ("first pass: reading, means and standard deviations", ground, "column_moments"),
    ("inducing inputs", features, "inducing_rows"),
    ("rows to learn from, put together", learn, "gather_rows"),
    ("kernels tried without a slope", ByBags, "value"),
    ("kernels judged with their slopes", ByBags, "__call__"),
    ("features of all rows, with copying them", places.ThisProcess, "chunks"),
    ("sweeps of the inference", engines, "iterate"),
)


def say(text):
    """A line, with the seconds since the start."""
    print(f"[{time.perf_counter() - BEGAN:6.1f} s] {text}", flush=True)


def clock(device):
    """The time, once the device has finished."""
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


class Stopwatch:
    """Seconds of the parts of a fit, each without the parts that it contains, and how often they came."""

    def __init__(self, device):
        self._device, self._inner = device, [0.0]
        self.spent, self.times = defaultdict(float), defaultdict(int)

    def around(self, name, function):
        def timed(*given, **named):
            self._inner.append(0.0)
            began = clock(self._device)
            try:
                return function(*given, **named)
            finally:
                took = clock(self._device) - began
                self.spent[name] += took - self._inner.pop()
                self.times[name] += 1
                self._inner[-1] += took

        return timed


@contextlib.contextmanager
def watched(device):
    """A stopwatch at every part."""
    watch, before = Stopwatch(device), [getattr(place, name) for _, place, name in PARTS]
    for (part, place, name), function in zip(PARTS, before, strict=True):
        setattr(place, name, watch.around(part, function))
    try:
        yield watch
    finally:
        for (_, place, name), function in zip(PARTS, before, strict=True):
            setattr(place, name, function)


def fitted(bags, y, device, n_inducing, **changes):
    """The flagship in single precision, with a kernel of one kind and no column of sizes; prints where time goes."""
    settings = {"kernel": "rbf", "size_effect": False, "random_state": 0, "dtype": "float32"}
    model = BagGP(**settings, n_inducing=n_inducing, device=device, **changes)
    began = clock(device)
    with watched(device) as watch:
        model.fit(bags, y)
    whole = clock(device) - began
    say(f"{changes}: {whole:.1f} s by {model.inference_}, {model.n_iter_} iterations, at most {memory(device):.1f} GiB")
    for part, _, _ in PARTS:
        print(f"| {part} | {watch.times[part]} | {watch.spent[part]:.1f} |")
    print(f"| all else | | {whole - sum(watch.spent.values()):.1f} |", flush=True)
    return model


def read_alone(bags, n_columns, device):
    """Seconds of reading all rows once, and of copying them to the device, and nothing else."""
    read = copied = 0.0
    for part in chunk_slices(bags, n_columns):
        began = clock(device)
        rows = torch.from_numpy(bags[part].in_memory().X)
        read += clock(device) - began
        began = clock(device)
        rows.to(device)
        copied += clock(device) - began
    say(f"reading all rows and nothing else {read:.1f} s, copying them to the device {copied:.1f} s")


def write_files(folder, n_rows, n_files):
    """So many files of equal size, written at once."""
    paths = [Path(folder) / f"{n_rows}-{number:03}.parquet" for number in range(n_files)]
    work = [(path, n_rows // n_files, number, number * 10**7) for number, path in enumerate(paths)]
    with multiprocessing.get_context("spawn").Pool(min(n_files, 16)) as pool:
        pool.starmap(generate, work)
    return paths


def opened(folder, n_rows, n_files):
    """A table of Parquet files."""
    bags, y = Bags.open(write_files(folder, n_rows, n_files), "bag", label="label")
    say(f"written and opened: {bags}")
    return bags, y


def measure(folder, n_rows, device, n_files, n_inducing):
    """A small table, then the large one."""
    fitted(*opened(folder, SMALL, 1), device, n_inducing)
    bags, y = opened(folder, n_rows, n_files)
    model = fitted(bags, y, device, n_inducing)
    fitted(bags, y, device, n_inducing, learn=False)
    read_alone(bags, model.features_.n_columns, device)


def memory(device):
    """GiB of the device that were used at most."""
    return 0.0 if device == "cpu" else torch.cuda.max_memory_allocated() / 2**30


def _stop(*_):
    raise TimeoutError


def main(n_rows=20_000_000, device="cuda", n_files=16, n_inducing=256, limit=0):
    """Measure within the limit, where there is one."""
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(limit)
    with tempfile.TemporaryDirectory() as folder:
        try:
            measure(folder, n_rows, device, n_files, n_inducing)
        except TimeoutError:
            say(f"stopped at the limit of {limit} s")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*(kind(value) for kind, value in zip((int, str, int, int, int), given, strict=False)))
