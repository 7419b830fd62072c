"""Whether numbers of positives tell anything about the kernel, or leave it where it began.

Where the fractions of bags hardly vary, the log evidence is almost flat, and its highest point is where chance put it:
often a rough kernel of large variance, whose answers are too sure. The first kernel, at the centre of the prior, is a
model without free parameters. One that has p of them, chosen by what n bags state, is the more probable one only if it
gains more than ½ p log n nats (Schwarz 1978).
"""

import math
from dataclasses import replace

import numpy as np

from bagwise.gp.features import Features
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference.kernel_learning.learn import Learned


def unless_flat(first: Features, learned: Learned, begin: Features | None, n_bags: int) -> Learned:
    """What was learned, or the first features where so many bags tell too little about the kernel.

    A search that began at another kernel than the first goes on from one that was found to be better.
    """
    trace = learned.trace
    if trace is None or trace.interrupted or not len(trace) or (begin is not None and not _same(first, begin)):
        return learned
    gain, free = float(trace.values.max() - trace.values[0]), len(_parameters(first))
    if gain > 0.5 * free * math.log(n_bags):
        return learned
    return Learned(first, replace(trace, name=f"{trace.name}, flat: the kernel stays"))


def _same(first: Features, begin: Features) -> bool:
    return np.array_equal(_parameters(first), _parameters(begin))


def _parameters(features: Features) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return KernelParameters(features.kernel, features.inducing.shape[1]).get()
