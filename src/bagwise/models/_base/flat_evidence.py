"""Whether numbers of positives tell anything about the kernel, or leave it where it began.

Where the fractions of bags hardly vary, the log evidence is almost flat, and its highest point is where chance put it:
often a rough kernel of large variance, whose answers are too sure. The first kernel, at the centre of the prior, is a
model without free parameters. One that has p of them, chosen by what n bags state, is the more probable one only if it
gains more than ½ p log n nats (Schwarz 1978). Chance leads to kernels that can explain more, never to one that can
explain less and does explain more: such a simpler kernel is taken, however little it gained, if it gained anything.
Where it is not simpler, what bags state that were left out decides, if there are enough of them.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bagwise.bags import Bags
from bagwise.gp.capacity import capacity
from bagwise.gp.features import Features
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference.kernel_learning.learn import Learned
from bagwise.inference.loop import Trace

_FLAT = "flat: the kernel stays"
_SIMPLER = "flat: the kernel is simpler than the first"
_ASKED = "flat: bags left out chose the kernel"
_NOTHING = 1e-3  # nats: less may be rounding, or an engine that stopped a little early
Asked = Callable[[Features], bool]


def too_little(first: Features, begin: Features | None, n_bags: int) -> float | None:
    """Nats that a kernel must gain over the first one by what so many bags state, or the first one stays.

    None for a search that begins at another kernel than the first: it goes on from one that was found to be better.
    """
    if begin is not None and not np.array_equal(_parameters(first), _parameters(begin)):
        return None
    return 0.5 * len(_parameters(first)) * math.log(n_bags)


def is_simpler(first: Features, other: Features, bags: Bags) -> bool:
    """Whether the other kernel lets the field of these rows do less than the first one."""
    return capacity(other, bags) < capacity(first, bags)


def unless_flat(
    first: Features,
    learned: Learned,
    least: float | None,
    simpler: Asked | None = None,
    preferred: Asked | None = None,
) -> Learned:
    """What was learned, or the first features where that gained no more than ``least``, unless it is better otherwise.

    ``simpler`` is asked about it first, then ``preferred``, which takes longer.
    """
    trace = learned.trace
    if least is None or trace is None or trace.interrupted or not len(trace):
        return learned
    gained = float(trace.values.max() - trace.values[0])
    if gained > least:
        return learned
    stayed = replace(trace, name=f"{trace.name}, {_FLAT}")
    if gained < _NOTHING:
        return Learned(first, stayed)
    try:
        for asked, why in ((simpler, _SIMPLER), (preferred, _ASKED)):
            if asked is not None and asked(learned.features):
                return learned._replace(trace=replace(trace, name=f"{trace.name}, {why}"))
    except KeyboardInterrupt:
        stayed = replace(stayed, interrupted=True)
    return Learned(first, stayed)


def stays(trace: Trace) -> bool:
    """Whether the search ended with the first kernel because it gained too little."""
    return trace.name.endswith(_FLAT)


def stays_unsettled(trace: Trace) -> str:
    """What to tell the user of such a search if it did not settle."""
    return (
        f"the search for the kernel stopped after {len(trace)} evaluations before it settled. What it had gained until "
        "then is too little to tell kernels apart, so the first one stays. More bags, or bags whose fractions differ "
        "more, would help."
    )


def starts_told(trace: Trace) -> str:
    """For the user: how many starts a search tried, and what each gained."""
    each = ", ".join(f"{round(gain, 1) + 0.0}" if math.isfinite(gain) else "(it failed)" for gain in trace.gains)
    end = (
        "that is too little to tell kernels apart, so the first one stays"
        if stays(trace)
        else "that is too little to tell kernels apart, but the best of them is simpler than the first"
        if trace.name.endswith(_SIMPLER)
        else "that is too little to tell kernels apart, but bags that were left out prefer the best of them"
        if trace.name.endswith(_ASKED)
        else f"start {1 + int(np.argmax(trace.gains))} was the best"
    )
    return f"{len(trace.gains)} starts gained {each} nats of log evidence; {end}"


def _parameters(features: Features) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return KernelParameters(features.kernel, features.inducing.shape[1]).get()
