"""VGPMIL against the matrix products it cannot avoid, and against a plain NumPy transcription of the published updates.

One thread, N = 20,000, D = 50, 2,000 bags of 10, R = 200, 25 iterations. "Bare products" of an iteration: the weighted
Gram matrix ΦᵀΛΦ and φᵀSφ for every row, each one product of N R² multiplications. The transcription follows the
supplement of Haussmann et al. line by line (k(Z, Z)⁻¹ k(Z, X) in place of Φ) with a loop over bags, as one would first
write it; its results are checked against ours. Times are processor times, medians of runs that take turns.
Run: python -m benchmarks.vgpmil_speed
"""

import os
import statistics
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch
from scipy.special import expit

from bagwise import LMVGPMIL, VGPMIL, Bags

N, D, SIZE, R, ITERATIONS, H, REPEATS = 20_000, 50, 10, 200, 25, 100.0, 3
LENGTHSCALE = np.sqrt(D)


def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    y = (X[:, 0] + X[:, 1] > 2.5).reshape(-1, SIZE).max(axis=1).astype(int)
    return X, np.repeat(np.arange(N // SIZE), SIZE), y, X[rng.choice(N, R, replace=False)]


def seconds(act):
    start = time.process_time()
    result = act()
    return time.process_time() - start, result


# ---------------------------------------------------------------- the transcription


def rbf(A, B):
    square = (A**2).sum(1)[:, None] + (B**2).sum(1)[None] - 2 * A @ B.T
    return np.exp(-0.5 * np.maximum(square, 0.0) / LENGTHSCALE**2)


def lam(xi):
    return np.tanh(xi / 2) / (4 * xi)


def transcription(X, bag, y, Z):
    """q(u), then q(y) bag by bag, then ξ; returns <f> of every training instance."""
    Kzz = rbf(Z, Z) + 1e-6 * np.eye(len(Z))
    Kzz_inverse = np.linalg.inv(Kzz)
    Kzx = rbf(Z, X)
    A = Kzz_inverse @ Kzx
    left = 1.0 - np.einsum("ij,ij->j", Kzx, A)
    pi, xi = np.where(y[bag] == 0, 0.02, 0.5 / (1 - 0.5**SIZE)), np.ones(len(X))
    for _ in range(ITERATIONS):
        S = np.linalg.inv(Kzz_inverse + (A * (2 * lam(xi))) @ A.T)
        m = S @ (A @ (pi - 0.5))
        f = A.T @ m
        second = np.einsum("ij,ij->j", (S + np.outer(m, m)) @ A, A) + left
        for b in range(len(y)):
            rows = np.flatnonzero(bag == b)
            for i in rows:
                others = np.prod(1 - pi[rows[rows != i]])
                pi[i] = expit(f[i] + (2 * y[b] - 1) * np.log(H) * others)
        xi = np.sqrt(second)
    return f


# ---------------------------------------------------------------- ours, and what it cannot avoid


def fit(model, bags, y, Z):
    settings = {"lengthscale": LENGTHSCALE, "standardize": False, "inducing": Z, "max_iter": ITERATIONS, "tol": 0.0}
    return model.published(H=H, **settings).fit(bags, y)


def bare(phi):
    weights, root = torch.full((len(phi), 1), 0.2, dtype=torch.float64), torch.eye(R, dtype=torch.float64)
    for _ in range(ITERATIONS):
        gram = phi.T @ (weights * phi)
        spread = (phi @ root).square().sum(1)
    return gram, spread


def main():
    torch.set_num_threads(1)
    X, bag, y, Z = problem()
    bags = Bags(X, bag)
    phi = torch.from_numpy(fit(VGPMIL, bags, y, Z).features_.transform(bags)[0])
    acts = {
        "products": lambda: bare(phi),
        "VGPMIL": lambda: fit(VGPMIL, bags, y, Z),
        "LMVGPMIL": lambda: fit(LMVGPMIL, bags, y, Z),
        "transcription": lambda: transcription(X, bag, y, Z),
    }
    times, results = {name: [] for name in acts}, {}
    for _ in range(REPEATS):
        for name, act in acts.items():
            taken, results[name] = seconds(act)
            times[name].append(taken)
    middle = {name: statistics.median(taken) for name, taken in times.items()}
    products, peer = middle["products"], middle["transcription"]
    difference = np.abs(results["VGPMIL"].predict_latent(bags)[0] - results["transcription"]).max()
    print(f"N = {N:,}, D = {D}, {N // SIZE:,} bags, R = {R}, {ITERATIONS} iterations, one thread\n")
    print("| what | s | over the bare products | over the transcription |\n|---|---|---|---|")
    print(f"| bare products | {products:.2f} | 1 | |")
    for name in ("VGPMIL", "LMVGPMIL"):
        taken = middle[name]
        print(f"| {name}, whole fit | {taken:.2f} | {taken / products:.2f} (bar 2) | {taken / peer:.2f} (bar .5) |")
    print(f"| NumPy transcription | {peer:.2f} | {peer / products:.2f} | 1 |")
    print(f"\nlargest difference in <f> of a training instance: {difference:.1e}")


if __name__ == "__main__":
    main()
