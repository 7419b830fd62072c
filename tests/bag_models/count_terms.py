"""Statements about counts, and their terms."""

import numpy as np
import torch
from tests.problems import segments_of

from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.statements import Evidence, count, fraction, label, log_potentials

CPU = torch.device("cpu")
NAN = np.nan


def terms(evidence, f):
    """log Z (b,) and G (n,) of a single column, all bags in one chunk."""
    sizes = np.diff(evidence.offsets)
    chunk = ProbitCounts(evidence).chunk(slice(0, len(sizes)), torch.float64, CPU)
    log_z, g = chunk.terms(torch.as_tensor(f, dtype=torch.float64)[:, None], segments_of(sizes))
    return log_z[:, 0].numpy(), g[:, 0].numpy()


def as_fitted(statement, sizes, known, noise=0.0):
    """Plain labels in closed form, everything else by tables, as the estimator hands it over."""
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    touched = np.add.reduceat(~np.isnan(known), starts) > 0
    plain = (statement.kind == 1) & ~touched & (noise == 0.0)
    by_table = ~plain & ((statement.kind > 0) | touched)
    labels = np.where(plain, statement.first, NAN)[:, None]
    return CountEvidence(labels, sizes, (log_potentials(statement, sizes, noise),), (by_table,), known)


def new_mixture():
    """Bags of many sizes with every kind of evidence, several label columns apart; some say nothing."""
    statement = Evidence.concat(
        [
            label([1, 0, NAN]),
            fraction([0.3, NAN, 0.0], [20.0, 1.0, 5.0]),
            count([2, 0, NAN, 0], [3, 4, 1, 0]),
            label([1, NAN]),
        ]
    )
    sizes = np.array([3, 2, 4, 5, 1, 2, 6, 4, 3, 2, 7, 2])
    known = np.full(sizes.sum(), NAN)
    start = np.concatenate([[0], np.cumsum(sizes)])
    known[start[2] + 1], known[start[3]], known[start[6] + 2], known[start[10] + 3] = 1, 0, 1, 0
    f = np.random.default_rng(6).normal(scale=1.5, size=sizes.sum())
    return statement, sizes, known, f
