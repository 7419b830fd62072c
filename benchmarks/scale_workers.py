"""Workers of a cluster: seconds of an iteration on one, two and more of them, in one run.

Clusters of processes with one thread each stand side by side; they are measured in turn, several times, because the
machine may be busy with other things. The work is always the same: new messages are proposed, and what the old ones add
up to is summed, two sweeps as in every iteration. What counts is the median of the ratios of neighbouring measurements,
and the ratio of the quickest ones.

Where others use the processors too, seconds by the clock say little. So CPU seconds are printed as well: those of the
busiest worker, and those of the client and the scheduler beyond what these take at rest, as if they had to wait for
each other. That is what an iteration takes on free processors, at most.
Run: python -m benchmarks.scale_workers [workers,workers,...] [repeats] [rows] [chunks per task]
"""

import contextlib
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from distributed import Client, LocalCluster

import bagwise
from bagwise import Bags
from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.counts import CountEvidence
from bagwise.gp import kernels
from bagwise.gp.features import make_features
from bagwise.inference.expectation_propagation import ExpectationPropagation
from bagwise.inference.places import chunks_of

D, R, BAG = 16, 200, 64


def write_rows(folder, n_rows, seed=0):
    """Rows in a .npy file, in bags of 64, one in two of them positive."""
    random = np.random.default_rng(seed)
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=np.float32, shape=(n_rows, D))
    for start in range(0, n_rows, 2**16):
        X[start : start + 2**16] = random.standard_normal((min(2**16, n_rows - start), D), dtype=np.float32)
    X.flush()
    bags = Bags.open(folder / "X.npy", np.arange(n_rows) // BAG)
    return bags, random.integers(0, 2, len(bags)).astype(float)


def features_of(bags):
    """The features of some rows: inducing inputs among them, and a kernel that nobody learned."""
    kernel = kernels.trainable_kernel("rbf", D, None, 2.0, False)
    chosen = {"n_inducing": R, "inducing": "random", "standardize": True, "random": np.random.RandomState(0)}
    plain = {"lengthscale": None, "bias": 5.0, "jitter": None, "device": torch.device("cpu"), "dtype": torch.float64}
    return make_features(bags, kernel=kernel, **chosen, **plain)


class Seconds(NamedTuple):
    """Of one iteration."""

    clock: float
    busiest: float  # CPU seconds of the busiest worker
    client: float  # CPU seconds of the client and the scheduler, beyond what they take at rest


def share_at_rest(seconds=3.0):
    """CPU seconds per second of this process while it waits: schedulers look after their workers all the time."""
    start, clock = time.process_time(), time.perf_counter()
    time.sleep(seconds)
    return (time.process_time() - start) / (time.perf_counter() - clock)


class Measured:
    """Messages of the same bags on one cluster."""

    def __init__(self, stack, workers, bags, y, features, chunks_per_task):
        settings = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": None}
        self._client = stack.enter_context(Client(stack.enter_context(LocalCluster(**settings))))
        with bagwise.scale.on(self._client, chunks_per_task=chunks_per_task):
            chunks = chunks_of(features, bags, ProbitCounts(CountEvidence(y[:, None], bags.sizes)))
        self._engine = ExpectationPropagation(chunks, features.n_columns, 1, features.device)
        self._engine.step()  # features are made

    def seconds(self, rest):
        """Of the two sweeps of an iteration."""
        before, client, clock = self._client.run(time.process_time), time.process_time(), time.perf_counter()
        self._engine.finish()
        self._engine.resume()
        clock, client = time.perf_counter() - clock, time.process_time() - client
        after = self._client.run(time.process_time)
        busiest = max(after[worker] - before[worker] for worker in before)
        return Seconds(clock, busiest, max(0.0, client - rest * clock))


def measured_seconds(counts, repeats, n_rows, chunks_per_task):
    """Seconds of an iteration by number of workers, (repeats, 3) each, in the order of the measurements."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        bags, y = write_rows(Path(folder), n_rows)
        features = features_of(bags)
        clusters = {count: Measured(stack, count, bags, y, features, chunks_per_task) for count in counts}
        rest = share_at_rest()
        rounds = [{count: cluster.seconds(rest) for count, cluster in clusters.items()} for _ in range(repeats)]
    return {count: np.array([each[count] for each in rounds]) for count in counts}


def print_speed(found):
    """Medians, and how many times as fast as the first each number of workers is."""
    print("| workers | seconds | busiest worker CPU s | client CPU s | times as fast | by CPU seconds | quickest |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    first = next(iter(found.values()))
    alone = first[:, 1:].sum(1)
    for count, seconds in found.items():
        cells = [*np.median(seconds, axis=0), np.median(first[:, 0] / seconds[:, 0])]
        own = seconds[:, 1:].sum(1)
        cells += [np.median(alone / own), alone.min() / own.min()]
        print(f"| {count} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")


def main(counts="1,2", repeats=5, n_rows=2**19, chunks_per_task=4):
    counts, n_rows, chunks_per_task = [int(count) for count in counts.split(",")], int(n_rows), int(chunks_per_task)
    print(f"{n_rows:,} rows, R = {R}, {chunks_per_task} chunks per task, one thread per worker; medians\n")
    print_speed(measured_seconds(counts, int(repeats), n_rows, chunks_per_task))


if __name__ == "__main__":
    main(*sys.argv[1:])
