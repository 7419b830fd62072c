"""A sweep over very many rows on very many workers, on paper: what it costs, what travels, what is in the way.

Work per row is measured here, in CPU seconds of one thread; the rest are assumptions, which are printed. With "check"
an iteration is predicted from bare products, bare reads and bare tasks, and measured on 1, 2 and 4 processes.
Run: python -m benchmarks.scale_on_paper [check]
"""

import math
import sys
import time

import numpy as np
import torch
from distributed import Client, LocalCluster

from bagwise.bag_models.counts import ChunkEvidence
from bagwise.gp.features import CHUNK_ROWS, Design, chunk_rows
from bagwise.inference.belief import Belief
from bagwise.inference.chunks import Chunk, InMemory
from bagwise.inference.expectation_propagation import move_step, propose_step
from bagwise.inference.mean_field import pull_step
from bagwise.numerics.segments import Segments
from benchmarks import scale_workers

D, R, BAG = 64, 100, 64
TASK = 1e-3  # seconds of the scheduler per task
BANDWIDTH = 1e9  # bytes per second between two machines
LATENCY = 1e-3  # seconds of a message
FAN_IN = 8
TASKS_PER_WORKER = 4  # in a sweep; fewer would leave workers idle at its end
SWEEPS = {"mean field": 1, "messages": 2}  # of an iteration
PRODUCTS, PASSES = 2, 6  # of messages: φ by (R, R) matrices, and everything else that reads or writes all of φ
BARE_TASKS = 300


def seconds_per_row(repeats=5):
    """Of one iteration of the mean field and of one of expectation propagation."""
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(0)
    phi = 0.1 * torch.randn(CHUNK_ROWS, R, dtype=torch.float64, generator=random)
    design = Design(
        phi, torch.full((CHUNK_ROWS,), 0.1, dtype=torch.float64), Segments(torch.arange(0, CHUNK_ROWS + 1, BAG))
    )
    labels = torch.ones(CHUNK_ROWS // BAG, 1, dtype=torch.float64)
    chunks = InMemory([Chunk(design, ChunkEvidence(labels, (None,)))])
    belief = Belief.prior(R, 1, phi.device)
    steps = {"mean field": [(pull_step, belief.mean)], "messages": [(propose_step, belief), (move_step, 0.5)]}
    found = {}
    for name, listed in steps.items():
        times = []
        for _ in range(repeats):
            chunks.remembered = [None]
            start = time.process_time()
            for step in listed:
                chunks.sweep(*step)
            times.append(time.process_time() - start)
        found[name] = min(times) / CHUNK_ROWS
    return found


def iteration(n_rows, workers, per_row, engine):
    """Seconds of the parts of one iteration, and the bytes that travel."""
    sums = 8 * (R + 1 if engine == "mean field" else R * R + R + 3)
    known = 8 * (R if engine == "mean field" else R * R + R)
    shards = max(1, min(TASKS_PER_WORKER * workers, math.ceil(n_rows / chunk_rows(n_rows, D, R))))
    tasks = SWEEPS[engine] * math.ceil(shards * (1 + FAN_IN / (FAN_IN - 1)))
    depth = SWEEPS[engine] * math.ceil(math.log(max(2, shards), FAN_IN))
    return {
        "work": n_rows * per_row / min(workers, shards),
        "scheduler": tasks * TASK,
        "sums": depth * (LATENCY + FAN_IN * sums / BANDWIDTH),
        "belief": SWEEPS[engine] * math.ceil(math.log2(workers + 1)) * (LATENCY + known / BANDWIDTH),
        "bytes": SWEEPS[engine] * (workers * known + shards * sums),
    }


def bare_seconds_per_row(columns, repeats=5):
    """What no program can avoid in an iteration of messages: its products, and its passes over the features."""
    torch.set_num_threads(1)
    phi = torch.randn(CHUNK_ROWS, columns, dtype=torch.float64)
    square, weight = torch.randn(columns, columns, dtype=torch.float64), torch.rand(CHUNK_ROWS, 1).double()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        phi @ square
        product = time.process_time()
        phi * weight
        times.append(PRODUCTS * (product - start) + PASSES * (time.process_time() - product))
    return min(times) / CHUNK_ROWS


def bare_seconds_per_task():
    """CPU seconds of a client and a scheduler in one process for a task that does nothing."""
    settings = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        client.submit(int, 0).result()
        start = time.process_time()
        client.gather([client.submit(int, number, pure=False) for number in range(BARE_TASKS)])
        return (time.process_time() - start) / BARE_TASKS


def check(n_rows=2**19, chunks_per_task=4, repeats=8):
    """Predicted and measured CPU seconds of an iteration of messages."""
    columns = scale_workers.R + 1  # with the constant
    per_row, per_task = bare_seconds_per_row(columns), bare_seconds_per_task()
    print(f"bare: {1e6 * per_row:.2f} µs per row with R = {scale_workers.R}, {1e3 * per_task:.2f} ms per task\n")
    found = scale_workers.measured_seconds([1, 2, 4], repeats, n_rows, chunks_per_task)
    scale_workers.print_speed(found)
    print("\n| processes | busiest, predicted s | measured s | client, predicted s | measured s |")
    print("|---:|---:|---:|---:|---:|")
    shards = math.ceil(n_rows / (CHUNK_ROWS * chunks_per_task))
    tasks = SWEEPS["messages"] * (1 + 2 * shards + math.ceil(shards / FAN_IN))
    for count, seconds in found.items():
        _, busiest, client = np.median(seconds, axis=0)
        work = math.ceil(shards / count) * chunks_per_task * CHUNK_ROWS * per_row
        print(f"| {count} | {work:.2f} | {busiest:.2f} | {tasks * per_task:.3f} | {client:.3f} |")


def main():
    measured = seconds_per_row()
    print(
        f"R = {R}; measured: " + ", ".join(f"{name} {1e6 * value:.2f} µs per row" for name, value in measured.items())
    )
    print(
        f"assumed: {1e3 * TASK:g} ms of the scheduler per task, {BANDWIDTH / 1e9:g} GB/s, {1e3 * LATENCY:g} ms latency"
    )
    print()
    print("| engine | rows | workers | work s | scheduler s | sums s | belief s | in all s | efficiency | travels MB |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for engine, per_row in measured.items():
        for n_rows in (10**8, 10**9):
            for workers in (1, 10, 100, 1000):
                part = iteration(n_rows, workers, per_row, engine)
                total = sum(part[name] for name in ("work", "scheduler", "sums", "belief"))
                shown = " | ".join(f"{part[name]:.3g}" for name in ("work", "scheduler", "sums", "belief"))
                print(
                    f"| {engine} | 10^{int(np.log10(n_rows))} | {workers:,} | {shown} | {total:.3g} | "
                    f"{n_rows * per_row / workers / total:.0%} | {part['bytes'] / 1e6:.3g} |"
                )


if __name__ == "__main__":
    check() if sys.argv[1:] == ["check"] else main()
