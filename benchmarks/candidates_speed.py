"""Candidate sets against the clock: an exact step and a sparse fit of MIPLGP, a fit of BagGP, and both on a GPU.

Run: python -m benchmarks.candidates_speed [--parts exact,sparse] [--threads 1]
     python -m benchmarks.candidates_speed --parts fixed,classes,miplgp [--device cuda] [--classes 26] [--rows 24000]

The second compares whole fits on the same bags: BagGP with its kernel as given (fixed) and learned (classes), and
MIPLGP with its defaults (miplgp), which solves exactly on a GPU and sparsely elsewhere. --parts full is a fit of MIPLGP
with the exact solver alone, on a GPU.
"""

import argparse
import os
import resource
import sys
import threading
import time

import numpy as np
import torch

from bagwise import MIPLGP, BagGP, Bags
from bagwise.bag_models.dirichlet import CandidateEvidence, Disambiguation, augmented
from bagwise.gp.kernels import make_kernel, trainable_kernel
from bagwise.inference.candidates.exact import ExactRounds, ExactSettings
from bagwise.numerics.segments import Segments

BAG_SIZE = 40
GIGA = 2**30


def problem(n_instances, n_classes, n_features=50, n_false=1, seed=0):
    """Bags with a tenth of their instances around the centre of their class; ``n_classes`` counts none of them."""
    rng = np.random.default_rng(seed)
    q, n_bags = n_classes - 1, n_instances // BAG_SIZE
    centres = rng.normal(size=(q, n_features))
    y = rng.integers(q, size=n_bags)
    X = rng.normal(size=(n_bags, BAG_SIZE, n_features))
    X[:, : BAG_SIZE // 10] = 0.5 * X[:, : BAG_SIZE // 10] + 1.5 * centres[y][:, None]
    candidates = np.eye(q, dtype=int)[y]
    for row, true in zip(candidates, y, strict=True):
        row[rng.choice(np.delete(np.arange(q), true), n_false, replace=False)] = 1
    return Bags(X.reshape(-1, n_features), np.repeat(np.arange(n_bags), BAG_SIZE)), candidates, y


class PeakMemory:
    """The largest resident memory of this process while a block runs, in bytes above that at its start."""

    def __enter__(self):
        self.start = self.peak = _resident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self):
        while not self._stop.wait(0.005):
            self.peak = max(self.peak, _resident())

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self.extra = self.peak - self.start


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def clocked(act):
    """Seconds by the clock, and of this process alone: on a shared machine these differ."""
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - wall, time.process_time() - cpu


def exact_step(dtype, repeats=5):
    """Rounds of the exact solver with learning: n = 5,000, 11 classes, D = 50."""
    bags, table, _ = problem(5_000, 11)
    kind = {"float64": torch.float64, "float32": torch.float32}[dtype]
    X = (bags.X - bags.X.mean(0)) / bags.X.std(0)
    kernel = make_kernel(trainable_kernel("matern52", 50, None, 8.0, False), 50, None, kind)
    evidence = CandidateEvidence(augmented(table.astype(bool), True), bags.offsets)
    chunk = evidence.chunk(slice(0, len(bags)), kind, torch.device("cpu"))
    usual = MIPLGP("dirichlet")
    settings = ExactSettings(Disambiguation("dirichlet", usual.alpha_eps), usual.rank, usual.n_probes, 0)
    with PeakMemory() as memory:
        engine = ExactRounds(
            kernel, torch.tensor(X, dtype=kind), 5.0, chunk, Segments(torch.tensor(bags.offsets)), settings
        )
        engine.learn(50, 1)
        times = np.array([clocked(engine.round) for _ in range(3 + repeats)])[3:]  # the first three do not learn
    matrix = 5_000**2 * kind.itemsize
    wall, cpu = np.median(times, axis=0)
    print(
        f"| exact step, n = 5,000, 11 classes, D = 50, {dtype} | {wall:.2f} s ({cpu:.2f} s of this process; slowest "
        f"{times[:, 0].max():.2f}), {(memory.extra - matrix) / GIGA:.2f} GB over the kernel matrix | 4 s, 1 GB |",
        flush=True,
    )


def sparse_fit(dtype, rounds):
    """A full fit: n = 20,000, 11 classes, R = 500."""
    bags, table, y = problem(20_000, 11)
    model = MIPLGP("dirichlet", solver="sparse", n_inducing=500, n_rounds=rounds, tol=0.0, dtype=dtype, random_state=0)
    wall, cpu = clocked(lambda: model.fit(bags, table))
    label = f"sparse fit, n = 20,000, 11 classes, R = 500, {model.n_iter_} rounds, {dtype}"
    print(
        f"| {label} | {wall:.0f} s ({cpu:.0f} s of this process), accuracy on the bags {model.score(bags, y):.3f} "
        "| 300 s on 2 cores |",
        flush=True,
    )


def bag_gp(device, learn):
    return BagGP("candidates", learn=learn, dtype="float32", device=device, random_state=0)


def whole_fit(model, n_instances, n_classes):
    """A fit at its defaults, twice on a GPU, the first time with its start: D = 30, one false candidate."""
    bags, table, y = problem(n_instances, n_classes + 1, n_features=30)
    for what in ("cold", "warm") if model.device == "cuda" else ("",):
        wall, cpu = clocked(lambda: finished(model.fit(bags, table)))
        answers = (
            model.predict_proba(bags, given=table) if isinstance(model, BagGP) else model.predict_proba(bags) * table
        )
        found = np.mean(answers.argmax(1) == y)
        label = f"{described(model)} on {model.device}, n = {n_instances:,}, {n_classes} classes"
        print(
            f"| {label} | {wall:.1f} s {what} ({cpu:.0f} s of this process), true candidate of the bags found in "
            f"{found:.3f} | – |",
            flush=True,
        )


def finished(model):
    """Wait for the device of a model."""
    if model.device == "cuda":
        torch.cuda.synchronize()


def described(model):
    """The name of a fitted model, and what it did."""
    if not isinstance(model, BagGP):
        return f"MIPLGP, {model.solver_} solver, {model.n_iter_} rounds,"
    kernel = f"kernel learned in {len(model.learning_trace_)} evaluations" if model.learn else "kernel as given"
    return f"BagGP, {model.inference_}, {kernel},"


def exact_fit_on_gpu(dtype="float32"):
    """A full fit of 50 rounds and predictions: n = 24,000, 26 classes, D = 30."""
    bags, table, y = problem(24_000, 26, n_features=30)
    new, _, new_y = problem(4_000, 26, n_features=30, seed=1)
    model = MIPLGP("dirichlet", solver="exact", n_rounds=50, tol=0.0, dtype=dtype, device="cuda", random_state=0)
    torch.cuda.reset_peak_memory_stats()
    for what in ("cold", "warm"):
        start = time.perf_counter()
        model.fit(bags, table)
        torch.cuda.synchronize()
        taken = time.perf_counter() - start
        where = f"{torch.cuda.get_device_name()}, {what}"
        label = f"exact fit on {where}, n = 24,000, 26 classes, {model.n_iter_} rounds, {dtype}"
        peak = torch.cuda.max_memory_allocated() / GIGA
        print(f"| {label} | {taken:.1f} s, {peak:.1f} GB at most | 60 s |", flush=True)
    start = time.perf_counter()
    hits = model.score(bags, y)
    print(
        f"| score of the 600 bags ({model.variance_steps} variance steps) | {time.perf_counter() - start:.1f} s | – |"
    )
    print(f"| accuracy on these bags (other bags: {model.score(new, new_y):.3f}, other centres) | {hits:.3f} | – |")


def main(arguments=()):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--parts", default="exact,sparse")
    parser.add_argument("--dtypes", default="float64,float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=50, help="of the sparse fit")
    parser.add_argument("--rows", type=int, default=24_000, help="of the bags of fixed, classes and miplgp")
    parser.add_argument("--classes", type=int, default=26, help="that these have")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    print("| what | measured | bar |\n|---|---|---|", flush=True)
    dtypes = options.dtypes.split(",")
    parts, device = options.parts.split(","), options.device
    for dtype in dtypes:
        if "exact" in parts:
            exact_step(dtype)
        if "sparse" in parts:
            sparse_fit(dtype, options.rounds)
        if "full" in parts:
            exact_fit_on_gpu(dtype)
    rivals = {
        "fixed": lambda: bag_gp(device, learn=False),
        "classes": lambda: bag_gp(device, learn=True),
        "miplgp": lambda: MIPLGP(dtype="float32", device=device, random_state=0),
    }
    for part, make in rivals.items():
        if part in parts:
            whole_fit(make(), options.rows, options.classes)
    print(f"largest resident memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    main(sys.argv[1:])
