"""BagGP against the clock, one thread: learning on MUSK 1, mean field beside MILGPProbit, the count programme.

Run: python -m benchmarks.bag_gp_speed [folder of data sets]
"""

import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

from bagwise import BagGP, Bags, MILGPProbit
from bagwise.numerics.counting.programme import CountPotentials, count_posterior

DATA = Path(__file__).parents[2] / "shared" / "data"


def seconds(act, repeats=5):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def learning(folder):
    with np.load(Path(folder) / "musk1.npz", allow_pickle=False) as file:
        bags, y = Bags(file["X"], file["bag"]), file["y"]
    taken = seconds(lambda: BagGP(n_inducing=100, random_state=0).fit(bags, y), 3)
    print(f"| learning and inference on MUSK 1, R = 100 | {taken:.2f} s | under 3 s |")


def mean_field():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 20))
    y = (X[:, 0] + X[:, 1] > 2.5).reshape(-1, 10).max(axis=1).astype(int)
    bags, inducing = Bags(X, np.repeat(np.arange(2000), 10)), X[:200]
    settings = {"inducing": inducing, "max_iter": None, "tol": 1e-6, "bias": 5.0}
    published, ours = MILGPProbit(**settings), BagGP(inference="vi", learn=False, **settings)
    base, found = seconds(lambda: published.fit(bags, y)), seconds(lambda: ours.fit(bags, y))
    label = "mean field to convergence, N = 20,000, R = 200: BagGP over MILGPProbit"
    steps = f"{ours.n_iter_} and {published.n_iter_} iterations"
    print(f"| {label} ({steps}) | {found:.2f} / {base:.2f} s = {found / base:.2f} | at most 1.20 |")


def count_programme():
    generator = torch.Generator().manual_seed(0)
    potentials = CountPotentials(
        torch.randn(20_000 * 21, generator=generator, dtype=torch.float64), torch.full((20_000,), 20)
    )
    f = torch.randn(400_000, generator=generator, dtype=torch.float64)
    log_p, log_q = torch.special.log_ndtr(f), torch.special.log_ndtr(-f)
    taken = seconds(lambda: count_posterior(log_p, log_q, potentials), 3)
    print(f"| count programme, 20,000 bags of 20, free tables, forward and backward | {taken:.2f} s | under 1 s |")


def main(folder=DATA):
    torch.set_num_threads(1)
    print("| what | measured | bar |\n|---|---|---|")
    learning(folder)
    mean_field()
    count_programme()


if __name__ == "__main__":
    main(*sys.argv[1:])
