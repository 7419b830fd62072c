"""What a fit leaves to be told beside its answers, for reports and messages."""

from typing import Any, NamedTuple

from bagwise.inference.chains.diagnostics import Chains
from bagwise.inference.loop import Trace


class FitRecord(NamedTuple):
    """None, or False, where an estimator has no such thing."""

    trace: Trace | None = None
    learning: Trace | None = None  # the search for the kernel
    chains: Chains | None = None
    inference: str | None = None
    solver: str | None = None
    fallback: str | None = None  # why it is not the inference that was chosen first
    kernel: Any = None
    mean: Any = None  # of the latent function
    group_effect: Any = None
    size_effect: Any = None
    leftovers: str | None = None
    learned_from_known: bool = False
