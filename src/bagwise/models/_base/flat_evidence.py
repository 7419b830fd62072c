"""Whether numbers of positives tell anything about the kernel, or leave it where it began.

Where the fractions of bags hardly vary, the log evidence is almost flat, and its highest point is where chance put it:
often a rough kernel of large variance, whose answers are too sure. Were the first kernel the true one, twice the gain
of the best would be a chi-square number with as many degrees of freedom as there are free parameters (Wilks 1938). A
gain that chance reaches in one of twenty samples is no reason to leave the centre of the prior.
"""

from dataclasses import replace

import numpy as np
from scipy.stats import chi2

from bagwise.gp.features import Features
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference.kernel_learning.learn import Learned

BY_CHANCE = 0.95


def unless_flat(first: Features, learned: Learned, begin: Features | None) -> Learned:
    """What was learned, or the first features where the search gained no more than chance does.

    A search that began at another kernel than the first goes on from one that was found to be better.
    """
    trace = learned.trace
    if trace is None or trace.interrupted or not len(trace) or (begin is not None and not _same(first, begin)):
        return learned
    gain, free = float(trace.values.max() - trace.values[0]), len(_parameters(first))
    if gain > 0.5 * float(chi2.ppf(BY_CHANCE, free)):
        return learned
    return Learned(first, replace(trace, name=f"{trace.name}, flat: the kernel stays"))


def _same(first: Features, begin: Features) -> bool:
    return np.array_equal(_parameters(first), _parameters(begin))


def _parameters(features: Features) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return KernelParameters(features.kernel, features.inducing.shape[1]).get()
