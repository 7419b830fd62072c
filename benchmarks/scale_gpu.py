"""Where the time of a fit on a GPU goes: reading, copying, features, sweeps and learning, over bags in Parquet files.

There are two fits, without and with learning of the kernel, and every part of a pass over the rows is done once by
itself. Seconds are those of the clock. Every line is printed as soon as it is known; at the limit the run stops.
Run: python -m benchmarks.scale_gpu [rows] [device] [files] [inducing inputs] [limit in seconds]
"""

import contextlib
import multiprocessing
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch

from bagwise import BagGP, Bags
from bagwise.gp.features import chunk_slices
from bagwise.inference.kernel_learning.by_bags import ByBags
from benchmarks.scale import generate

BEGAN = time.perf_counter()


def say(text):
    """A line, with the seconds since the start."""
    print(f"[{time.perf_counter() - BEGAN:6.1f} s] {text}", flush=True)


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


class _Iterations:
    """When every iteration of the inference ended."""

    def __init__(self, device):
        self._device, self.ends = device, []

    def __call__(self, number, value):
        self.ends.append(clock(self._device))
        if number % 10 == 0:
            say(f"  iteration {number}, log evidence {value:.3f}")

    def seconds(self):
        """Of all of them, the first being taken for as long as the others."""
        n = len(self.ends)
        return (self.ends[-1] - self.ends[0]) * n / max(1, n - 1)


def fitted(bags, y, device, n_inducing, **changes):
    """The flagship in single precision, with a kernel of one kind and no column of sizes; seconds of all and sweeps."""
    watch = _Iterations(device)
    settings = {"kernel": "rbf", "size_effect": False, "random_state": 0, "dtype": "float32", "callback": watch}
    model = BagGP(**settings, n_inducing=n_inducing, device=device, **changes)
    seconds, _ = timed(device, lambda: model.fit(bags, y))
    return model, seconds, watch.seconds()


def parts(bags, features, device):
    """Seconds of reading, copying and features over all rows, each by itself."""
    spent = dict.fromkeys(("read", "copy", "features"), 0.0)
    for part in chunk_slices(bags, features.n_columns):
        seconds, some = timed(device, lambda part=part: bags[part].in_memory())
        spent["read"] += seconds
        seconds, _ = timed(device, lambda some=some: torch.tensor(some.X).to(device))
        spent["copy"] += seconds
        seconds, _ = timed(device, lambda some=some: features.design(some))
        spent["features"] += seconds
    spent["features"] -= spent["copy"]
    return spent


@contextlib.contextmanager
def evaluations(device):
    """Every evaluation of a kernel is printed, with the number of its rows; yields the seconds of each."""
    judge, spent = ByBags.__call__, []

    def watched(self):
        seconds, value = timed(device, lambda: judge(self))
        spent.append(seconds)
        say(f"  a kernel judged by {self._rows._n_rows:,} rows in {seconds:.1f} s")
        return value

    ByBags.__call__ = watched
    try:
        yield spent
    finally:
        ByBags.__call__ = judge


def write_files(folder, n_rows, n_files):
    """So many files of equal size, written at once."""
    paths = [Path(folder) / f"part-{number:03}.parquet" for number in range(n_files)]
    work = [(path, n_rows // n_files, number, number * 10**7) for number, path in enumerate(paths)]
    with multiprocessing.get_context("spawn").Pool(min(n_files, 16)) as pool:
        pool.starmap(generate, work)
    return paths


def measure(folder, n_rows, device, n_files, n_inducing):
    """The table, line by line."""
    seconds, paths = timed("cpu", lambda: write_files(folder, n_rows, n_files))
    say(f"{n_rows:,} rows written in {seconds:.1f} s")
    opened, (bags, y) = timed(device, lambda: Bags.open(paths, "bag", label="label"))
    say(f"opened in {opened:.1f} s: {bags}")
    with evaluations(device) as judged:
        model, learned, sweeps = fitted(bags, y, device, n_inducing)
    say(f"fit with learning {learned:.1f} s by {model.inference_}; at most {memory(device):.1f} GiB of the device")
    say("| part | seconds |\n|---|---:|")
    for name, spent in parts(bags, model.features_, device).items():
        say(f"| {name}, once over all rows | {spent:.1f} |")
    say(f"| sweeps: {model.n_iter_} iterations | {sweeps:.1f} |")
    say(f"| learning: {len(judged)} kernels judged with their slopes | {sum(judged):.1f} |")
    rest = learned - sweeps - sum(judged)
    say(f"| the rest of the fit: moments, inducing inputs, features, other kernels | {rest:.1f} |")
    model, plain, sweeps = fitted(bags, y, device, n_inducing, learn=False)
    say(f"fit without learning {plain:.1f} s, of which {model.n_iter_} iterations {sweeps:.1f} s")


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
