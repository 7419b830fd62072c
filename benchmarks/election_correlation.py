"""What the totals of real counties tell about the correlation of the effects of two groups: by exact integrals.

The probit of the rate of a group in a county is normal, with a mean and a spread of the group; the two groups of a
county have a correlation. Numbers of people are large, so the share of a county fixes a curve of pairs of rates, over
which the density is integrated. For every correlation: the spreads and means of highest likelihood, the log likelihood,
and the rates that follow. Counties in which a group or an outcome is missing altogether are left out.

Run: python -m benchmarks.election_correlation [folder of data sets] [--set ei_registration_south]
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtr, ndtri

from benchmarks.elections import COUNTIES, DATA, read_counties

POINTS, EDGE = 400, 1e-12
CORRELATIONS = (0.0, 0.3, 0.5, 0.7, 0.9)
START = {1: (0.2, 1.4, -0.3), 2: (0.2, 1.4, -0.3, -0.3)}


class Curves(NamedTuple):
    """Pairs of rates that a county allows, on the probit scale (B, P), and the log weights of these points."""

    first: np.ndarray
    second: np.ndarray
    logs: np.ndarray
    people: np.ndarray

    @classmethod
    def of(cls, people, numbers):
        """Points close to each other at the ends, where rates are 0 or 1."""
        whole = (people > 0).all(1) & (numbers > 0) & (numbers < people.sum(1))
        people, share = people[whole], numbers[whole] / people[whole].sum(1)
        x = people[:, 0] / people.sum(1)
        low, high = np.maximum(0.0, (share - (1.0 - x)) / x), np.minimum(1.0, share / x)
        place = (np.arange(POINTS) + 0.5) / POINTS
        first = low[:, None] + (high - low)[:, None] * 0.5 * (1.0 - np.cos(np.pi * place))
        width = (high - low)[:, None] * 0.5 * np.pi * np.sin(np.pi * place) / POINTS
        second = (share[:, None] - x[:, None] * first) / (1.0 - x)[:, None]
        z1, z2 = (ndtri(np.clip(rate, EDGE, 1.0 - EDGE)) for rate in (first, second))
        # a density in probits over two normal densities is one in rates; dT = (1 − x) d rate₂ makes it one in the share
        logs = np.log(width) + 0.5 * (z1**2 + z2**2) - np.log(1.0 - x)[:, None]
        return cls(z1, z2, logs, people)

    def log_density(self, means, spreads, correlation):
        """(B, P), up to log 2π."""
        a, b = (self.first - means[0]) / spreads[0], (self.second - means[1]) / spreads[1]
        rest = 1.0 - correlation**2
        square = (a * a - 2.0 * correlation * a * b + b * b) / rest
        return self.logs - 0.5 * square - np.log(spreads[0] * spreads[1]) - 0.5 * np.log(rest)

    def rates(self, logs):
        """Of the two groups in all counties."""
        weight = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        each = np.stack([(weight * ndtr(z)).sum(1) for z in (self.first, self.second)], axis=1)
        return (self.people * each).sum(0) / self.people.sum(0)


def best(curves, correlation, n_sizes):
    """Log likelihood, means, spreads and rates at the best parameters; one spread for both groups, or two."""

    def parts(vector):
        return vector[:2], np.exp(np.broadcast_to(vector[2:], 2))

    def loss(vector):
        return -logsumexp(curves.log_density(*parts(vector), correlation), axis=1).sum()

    found = minimize(loss, START[n_sizes], method="Nelder-Mead", options={"maxiter": 600, "xatol": 1e-3, "fatol": 1e-3})
    means, spreads = parts(found.x)
    return -found.fun, spreads, curves.rates(curves.log_density(means, spreads, correlation))


def main(arguments=()):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA)
    parser.add_argument("--set", choices=COUNTIES, default=COUNTIES[0])
    given = parser.parse_args(arguments)
    people, numbers, _ = read_counties(given.folder / f"{given.set}.npz")
    curves = Curves.of(people, numbers)
    print(f"{given.set}, {len(curves.people)} counties\n")
    print(
        "| correlation | one spread: log likelihood | spread | rates | two spreads: log likelihood | spreads | rates |"
    )
    print("|---|---|---|---|---|---|---|")
    for correlation in CORRELATIONS:
        cells = []
        for n_sizes in (1, 2):
            value, spreads, rates = best(curves, correlation, n_sizes)
            cells.append(f"{value:.1f} | {', '.join(f'{s:.2f}' for s in spreads[:n_sizes])}")
            cells.append(", ".join(f"{rate:.3f}" for rate in rates))
        print(f"| {correlation:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
