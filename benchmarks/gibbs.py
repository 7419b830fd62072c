"""The sampler: whole bags against single instances, what the scale step gains, and how long the published run takes.

Effective sample sizes (ESS) are bulk sizes of the fifty watched latent values (median) and of |v|, from four chains;
times are processor time of the sweeps alone, on one thread, so that a busy machine changes them little. Run:
python -m benchmarks.gibbs
"""

import time
import warnings

import numpy as np
import torch

from bagwise import ConvergenceWarning, MILGPProbit
from bagwise.datasets import make_bags

SWEEPS, BURN_IN = 3000, 500
VARIANTS = {
    "block, scale step": {},
    "block": {"scale_step": False},
    "single-site, scale step": {"scheme": "single-site"},
    "single-site, as published": {"scheme": "single-site", "scale_step": False},
}


def problem(seed, n_bags=150, size=10):
    bags, y, _ = make_bags(n_bags, size, n_features=2, positive_rate=0.6, random_state=seed)
    return bags, y


def timed(bags, y, **settings):
    """A fitted sampler and the processor seconds of its sweeps."""
    stamps = []
    model = MILGPProbit(
        "gibbs",
        kernel="rbf",
        lengthscale=1.0,
        bias=5.0,
        random_state=0,
        callback=lambda sweep, value: stamps.append(time.process_time()),
        **settings,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(bags, y)
    return model, (stamps[-1] - stamps[0]) * len(stamps) / (len(stamps) - 1)


def schemes():
    print(
        f"bags of 10, N = 1,500, R = 40, 4 chains of {SWEEPS:,} sweeps after {BURN_IN}; medians over three data sets\n"
    )
    print("| scheme | sweeps per s | ESS of latents | ESS of latents per s | ESS of \\|v\\| | ESS of \\|v\\| per s |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, settings in VARIANTS.items():
        rows = []
        for seed in range(3):
            model, seconds = timed(*problem(seed), n_inducing=40, n_samples=SWEEPS, n_burn_in=BURN_IN, **settings)
            sizes = model.diagnostics_["ess_bulk"]
            latents, norm = sizes[[row.startswith("latent") for row in sizes.index]].median(), sizes["norm_v"]
            per_second = (SWEEPS + BURN_IN) / SWEEPS / seconds
            rows.append([(SWEEPS + BURN_IN) / seconds, latents, latents * per_second, norm, norm * per_second])
        rate, *values = np.median(rows, axis=0)
        print(f"| {name} | {rate:.0f} | " + " | ".join(f"{value:.1f}" for value in values) + " |", flush=True)


def published_run():
    bags, y = problem(0, n_bags=200)
    model, seconds = timed(bags, y, n_inducing=50, n_samples=5000, n_burn_in=1000)
    table = model.diagnostics_
    print(
        f"\n4 chains x 6,000 sweeps, N = 2,000, R = 50: {seconds:.1f} s, {seconds / 6:.2f} ms per sweep of all chains"
    )
    print(f"worst R-hat {table['r_hat'].max():.3f}, smallest bulk ESS {table['ess_bulk'].min():.0f}", flush=True)


def main():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    schemes()
    published_run()
    torch.set_num_threads(threads)


if __name__ == "__main__":
    main()
