"""The small problems that the contract of ``testing.py`` is checked on, and what an estimator takes of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags


def takes_candidates(estimator: Any) -> bool:
    """Whether y holds candidate sets of several classes, (B, q), rather than labels of two."""
    return bool(estimator.kind_of_y == "candidates")


def has_latent(estimator: Any) -> bool:
    """Whether there is a Gaussian process behind the answers; baselines have none."""
    return bool(estimator.abilities.latent)


def takes_only_fractions(estimator: Any) -> bool:
    """Whether y holds fractions of positives, and nothing else."""
    return bool(estimator.card.evidence == ("fraction",))


def small_problem(estimator: Any, seed: int = 0, n_bags: int = 16) -> tuple[Bags, NDArray[Any]]:
    """Small bags, and what such an estimator learns of them: a label, or two candidates of three classes."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n_bags)
    bags = Bags(rng.normal(size=(sizes.sum(), 2)), np.repeat(np.arange(n_bags), sizes))
    positive = np.maximum.reduceat(bags.X[:, 0] > 0.8, bags.offsets[:-1])
    if takes_only_fractions(estimator):
        return bags, np.add.reduceat(bags.X[:, 0] > 0.8, bags.offsets[:-1], dtype=float) / sizes
    if not takes_candidates(estimator):
        return bags, positive.astype(int)
    true = np.where(positive, 0, np.where(bags.X[bags.offsets[:-1], 1] > 0, 1, 2))
    excluded = (true + rng.integers(1, 3, n_bags)) % 3
    return bags, (np.arange(3) != excluded[:, None]).astype(int)


def easy_problem(
    estimator: Any, seed: int = 0, n_bags: int = 36, sizes: tuple[int, int] = (4, 8)
) -> tuple[Bags, NDArray[Any], NDArray[Any]]:
    """Clusters far apart; half of the instances of a positive bag (of a bag of a class) lie in one of their own.

    Whatever makes a bag positive (one instance, the mean of them, their largest score), these bags agree about it.
    """
    rng = np.random.default_rng(seed)
    counts = rng.integers(sizes[0], sizes[1] + 1, n_bags)
    index = np.repeat(np.arange(n_bags), counts)
    place = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
    kinds = 3 if takes_candidates(estimator) else 2
    kind = np.arange(n_bags) % kinds
    marked = (place < counts[index] / 2) & ((kind[index] > 0) | (kinds == 3))
    angle = 2.0 * np.pi * kind[index] / kinds
    centre = np.where(marked[:, None], 3.0 * np.column_stack([np.cos(angle), np.sin(angle)]), 0.0)
    bags = Bags(centre + 0.5 * rng.normal(size=centre.shape), index)
    if takes_only_fractions(estimator):
        return bags, np.add.reduceat(marked, bags.offsets[:-1], dtype=float) / counts, marked.astype(int)
    if kinds == 2:
        return bags, kind, marked.astype(int)
    wrong = (kind + rng.integers(1, 3, n_bags)) % 3
    return bags, (np.arange(3) != wrong[:, None]).astype(int), marked.astype(int)
