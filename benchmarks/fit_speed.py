"""A mean-field fit against the matrix products it cannot avoid, its memory, and how both grow with N.

One thread. Speed is a ratio of two times measured in the same run; memory is the growth of the process's peak resident
set over what it was with only X loaded, in copies of Φ. Run: python -m benchmarks.fit_speed [largest N]
"""

import multiprocessing
import resource
import statistics
import sys
import time

import numpy as np
import torch

from bagwise import Bags, MILGPProbit

D, SIZE, R, ITERATIONS = 50, 10, 200, 25


def problem(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D))
    positive = X[:, 0] + X[:, 1] > 2.5
    y = positive.reshape(-1, SIZE).max(axis=1).astype(int)
    return Bags(X, np.repeat(np.arange(n // SIZE), SIZE)), y, X[rng.choice(n, R, replace=False)]


def fit_seconds(bags, y, inducing):
    model = MILGPProbit(n_inducing=R, inducing=inducing, max_iter=ITERATIONS, tol=0.0)
    start = time.perf_counter()
    model.fit(bags, y)
    return time.perf_counter() - start


def bare_seconds(bags, inducing):
    """Kernel product, triangular product, Gram matrix, and two matrix-vector products per iteration."""
    X, Z = torch.tensor(bags.X), torch.tensor(inducing)
    lower = torch.linalg.cholesky(Z @ Z.T + 100 * torch.eye(R, dtype=torch.float64))
    mean = torch.zeros(R, dtype=torch.float64)
    start = time.perf_counter()
    phi = torch.linalg.solve_triangular(lower.T, X @ Z.T, upper=True, left=False)
    gram = phi.T @ phi
    for _ in range(ITERATIONS):
        mean = phi.T @ (phi @ mean)
    seconds = time.perf_counter() - start
    assert gram.shape == (R, R)
    return seconds


def measure(n, repeats):
    torch.set_num_threads(1)
    fit_seconds(*problem(2_000))  # so that what libraries allocate on first use does not count
    bags, y, inducing = problem(n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fits = [fit_seconds(bags, y, inducing) for _ in range(1 if repeats == 1 else 2)]
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / (n * R * 8)
    fits += [fit_seconds(bags, y, inducing) for _ in range(repeats - len(fits))]
    bare = [bare_seconds(bags, inducing) for _ in range(repeats)]
    return statistics.median(fits), statistics.median(bare), growth


def main(largest=2_000_000):
    print(f"mean-field fit, D = {D}, bags of {SIZE}, R = {R}, {ITERATIONS} iterations, one thread\n")
    print("|         N | fit s | bare products s | ratio | memory beyond X, copies of Φ | µs per instance |")
    print("|----------:|------:|----------------:|------:|-----------------------------:|----------------:|")
    context = multiprocessing.get_context("spawn")  # a fresh process each, so that peak memory is its own
    for n in (20_000, 60_000, 200_000, 600_000, 2_000_000):
        if n <= largest:
            with context.Pool(1) as pool:
                fit, bare, growth = pool.apply(measure, (n, 5 if n <= 60_000 else 1))
            row = f"| {n:9,} | {fit:5.2f} | {bare:15.2f} | {fit / bare:5.2f} | {growth:28.2f} | {fit / n * 1e6:15.1f} |"
            print(row, flush=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
