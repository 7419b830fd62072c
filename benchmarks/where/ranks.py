"""Ranks over data sets, Friedman's test, and which ranks Nemenyi's test cannot tell apart.

Demšar, Statistical comparisons of classifiers over multiple data sets, JMLR 7, 2006.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

LEVEL = 0.05


class Ranking(NamedTuple):
    """Mean ranks (1 is best) of k models over n data sets."""

    models: list[str]  # best first
    means: np.ndarray
    n_sets: int
    p: float  # of Friedman's test: that all models are alike
    critical: float  # difference of mean ranks from which on Nemenyi's test tells two models apart

    def cliques(self):
        """(first, last) places of the largest runs of models that are not told apart, of two models at least."""
        ends = np.searchsorted(self.means, self.means + self.critical, side="right") - 1
        runs = [(first, int(last)) for first, last in enumerate(ends) if last > first]
        return [(first, last) for number, (first, last) in enumerate(runs) if not number or last > runs[number - 1][1]]


def ranking(models, scores):
    """``scores`` are (sets, models), more is better; a model that has none on a set shares the last places there."""
    ranks = stats.rankdata(np.where(np.isnan(scores), np.inf, -scores), axis=1)
    means = ranks.mean(axis=0)
    order = np.argsort(means, kind="stable")
    return Ranking(
        [models[k] for k in order], means[order], len(ranks), friedman(ranks), critical_difference(*ranks.shape)
    )


def friedman(ranks):
    """p of Iman and Davenport's form of the test (Demšar, section 3.2.2)."""
    n, k = ranks.shape
    chi = 12.0 * n / (k * (k + 1.0)) * (np.square(ranks.mean(axis=0)).sum() - k * (k + 1.0) ** 2 / 4.0)
    rest = n * (k - 1.0) - chi
    return float(stats.f.sf((n - 1.0) * chi / rest, k - 1, (k - 1) * (n - 1))) if rest > 0.0 else 0.0


def critical_difference(n_sets, n_models, level=LEVEL):
    """Nemenyi: q √(k (k + 1) / (6 n)), q from the range of k independent normal numbers, over √2."""
    q = stats.studentized_range.ppf(1.0 - level, n_models, np.inf) / np.sqrt(2.0)
    return float(q * np.sqrt(n_models * (n_models + 1.0) / (6.0 * n_sets)))
