"""What ``BagGP`` asks bags that were left out: whether leftovers stay, and which kernel where evidence is flat."""

from dataclasses import replace
from functools import partial
from typing import Any

from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.gp.features import Features
from bagwise.gp.kernel_parameters import KernelParameters
from bagwise.inference.engines import NEARLY, Inferred, Limits, by_bag_sites, by_mean_field, by_messages
from bagwise.inference.kernel_learning.left_out import FEWEST, MOST_ROWS, gain_of_second
from bagwise.inference.kernel_learning.leftovers import LEAST_GAIN, may_be_left_out
from bagwise.inference.loop import SILENT

_SWEEPS = 200  # of messages within which a judge must have settled


def with_leftovers_or_without(model: Any, features: Features, bags: Bags, evidence: CountEvidence) -> Features:
    """As the user wants it; "auto" asks bags that were left out, where a kernel was learned from labels.

    Who interrupts the asking keeps what was learned, with leftovers.
    """
    if model.leftovers != "auto":
        return replace(features, leftovers=model.leftovers == "shared")
    trace = model.learning_trace_
    asks = trace is not None and not trace.interrupted and model.inference_ in ("ep", "bag-ep")
    if not asks or not may_be_left_out(features, bags, evidence):
        return features

    def both(some: Bags) -> tuple[Features, Features]:
        kept = same_kernel(model, features, some)
        return kept, replace(kept, leftovers=False)

    try:
        gain = gain_of_second(both, partial(_judged, model), bags, evidence, model.seed_)
    except KeyboardInterrupt:
        model.learning_trace_ = replace(trace, interrupted=True)
        return features
    return replace(features, leftovers=not gain > LEAST_GAIN)


def prefer_second(model: Any, one: Features, other: Features, bags: Bags, evidence: CountEvidence) -> bool:
    """Whether bags left out prefer the kernel of the second; False if they cannot tell.

    That kernel was learned from all bags, also from those that are left out here. So its gain is one on its own
    training data, and has to be more than one nat for each of its parameters (Akaike 1974).
    """
    n_bags = int(evidence.observed().any(axis=1).sum())
    if n_bags < FEWEST or bags.n_instances > MOST_ROWS // evidence.labels.shape[1]:
        return False

    def both(some: Bags) -> tuple[Features, Features]:
        return same_kernel(model, one, some), same_kernel(model, other, some)

    n_parameters = len(KernelParameters(other.kernel, other.inducing.shape[1]).get())
    return gain_of_second(both, partial(_judged, model), bags, evidence, model.seed_) > n_parameters


def same_kernel(model: Any, features: Features, some: Bags) -> Features:
    """Features of some bags alone, with inducing inputs of their own and the kernel that was learned from all."""
    principal = "principal" if features.origin.endswith("principal directions") else None
    width = None if features.projection is None else features.projection.shape[1]
    seed = model.seed_
    made: Features = model._make_features(some, features.kernel, inducing=principal, project=width)
    model.seed_ = seed  # who only asks does not change the points that answers are averaged over
    return replace(made, size_range=features.size_range)


def _judged(model: Any, features: Features, bags: Bags, evidence: CountEvidence) -> Inferred:
    """By the engine of the model, as far as a judge needs it."""
    if model.inference_ == "ep":
        return by_messages(features, bags, evidence, Limits(_SWEEPS, None, SILENT))
    if model.inference_ == "bag-ep":
        return by_bag_sites(features, bags, evidence, Limits(None, NEARLY, SILENT), model.seed_)
    return by_mean_field(features, bags, evidence, Limits(None, None, SILENT))
