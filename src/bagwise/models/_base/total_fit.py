"""How ``BagGP`` is fitted to totals: a Gaussian around the mode, and an effect of the group."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.evidence.groups import MOST_GROUPS, group_columns
from bagwise.evidence.reading import Stated
from bagwise.evidence.totals import expected_totals, seen_totals
from bagwise.exceptions import BagDataError
from bagwise.gp.effects import NO_EFFECT, GroupEffect
from bagwise.inference.laplace.totals import Totals, by_totals, learn_totals
from bagwise.inference.loop import Watch
from bagwise.models._base.chains import forget_chains
from bagwise.models._base.first_features import first_features, kinds_in_question, wants_sizes, with_sizes
from bagwise.models._base.learned_kernel import warn_if_unsettled

BY_GROUP = "by group"


def goes_by_totals(model: Any, bags: Bags) -> bool:
    """Whether statements are taken as totals: asked for, or needed for weights or an effect of the group."""
    if model.inference != "auto":
        return bool(model.inference == "laplace")
    given = not isinstance(model.group_effect, str) and bool(np.any(model.group_effect))
    return bags.weight is not None or given or by_group(model)


def fit_totals(model: Any, bags: Bags, stated: Stated, weight: NDArray[np.float64] | None) -> None:
    """Fit around the mode; kernel and size of the effect are learned together. Every bag counts ``weight`` times."""
    forget_chains(model)
    model.inference_, model.learning_trace_ = "laplace", None
    first = first_features(model, bags, kinds_in_question(model, bags)[0])
    groups = _named_groups(bags) if by_group(model) else ()
    totals = Totals.of(bags, stated, model.label_noise, weight, groups)
    learned = learn_totals(
        with_sizes(first, bags, wants_sizes(model)),
        totals,
        _wanted_effect(model, bags),
        kernel_too=bool(model.learn),
        n_restarts=model.n_restarts,
        random=np.random.RandomState(model.seed_),
        watch=Watch("learning the kernel", model.verbose),
    )
    model.learning_trace_ = learned.trace
    warn_if_unsettled(learned.trace)
    found = by_totals(learned.features, totals, learned.effect, learned.modes)
    model.totals_seen_ = seen_totals(bags, expected_totals(totals.columns, (), stated.shares).expected)
    with_effect = replace(learned.features, effect=learned.effect)
    model._finish(with_effect, found.posterior, model.rule_, found.trace, found.log_evidence)


def by_group(model: Any) -> bool:
    """Whether the effects of every group shall have a size of their own."""
    return isinstance(model.group_effect, str) and model.group_effect == BY_GROUP


def _named_groups(bags: Bags) -> tuple[int, ...]:
    groups = group_columns(bags)
    if not groups:
        raise BagDataError(
            f"group_effect={BY_GROUP!r}: the features name no groups. Use 2 to {MOST_GROUPS} columns of 0 and 1, one "
            "of which is 1 in every row, as Bags.from_totals makes them, or group_effect=True for one size in all."
        )
    return groups


def _wanted_effect(model: Any, bags: Bags) -> GroupEffect | None:
    """The effects of bags; None where they are to be learned."""
    if isinstance(model.group_effect, str):
        return NO_EFFECT if bags.weight is None and not by_group(model) else None
    if isinstance(model.group_effect, bool | np.bool_):
        return None if model.group_effect else NO_EFFECT
    return GroupEffect.of(*map(float, common_and_own(model.group_effect)))


def common_and_own(effect: Any) -> tuple[Any, Any]:
    """Sizes of the effect of a bag and of the effects of its cells, as given: one number, or two."""
    if np.ndim(effect) == 0 and not isinstance(effect, str):
        return effect, 0.0
    if isinstance(effect, str) or len(effect) != 2:
        expected = f"'auto', {BY_GROUP!r}, True, False, a number or two numbers"
        raise BagDataError(f"group_effect={effect!r}: expected {expected}.")
    return effect[0], effect[1]
