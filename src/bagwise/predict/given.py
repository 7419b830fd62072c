"""Answers given what a bag itself says (theory section 1).

With a statement about a bag, such as its label, Bayes' rule gives

    P(yᵢ = 1 | statement) = E_v[P(yᵢ = 1, statement | v)] / E_v[P(statement | v)].                        (1.12)

Under the rule "at least one" a positive instance makes its bag positive, so P(yᵢ = 1, bag positive | v) = P(yᵢ = 1 | v)
for every draw of v, and (1.12) for a positive bag is P(yᵢ = 1) / P(the bag is positive): the numerator is exact, the
denominator is that of ``bag_probability``. A negative bag has no positive instance.
"""

import numpy as np
from numpy.typing import NDArray

from bagwise.bag_models.rules import AtLeastOne
from bagwise.bags import Bags
from bagwise.exceptions import BagDataError
from bagwise.predict.bags import bag_probability, instance_probability
from bagwise.predict.points import Fitted

Array = NDArray[np.float64]


def instances_given_labels(fitted: Fitted, bags: Bags, labels: Array) -> Array:
    """P(yᵢ = 1 | label of its bag), (N, K); ``labels`` (B, K) of 0, 1 and NaN, which states nothing."""
    _check_rule(fitted)
    each, whole = instance_probability(fitted.features, fitted.posterior, bags), bag_probability(fitted, bags)
    stated, whole = labels[bags.index], whole[bags.index]
    # Where both are too small for a number nothing tells the instances apart, and one of them it must be.
    alike = np.broadcast_to(1.0 / bags.totals[bags.index][:, None], each.shape)
    share = np.divide(each, whole, out=alike.copy(), where=whole > 0)
    return np.where(np.isnan(stated), each, np.where(stated == 1, share, 0.0))


def bags_given_labels(fitted: Fitted, bags: Bags, labels: Array) -> Array:
    """P(the bag is positive | its label), (B, K): the label itself, where there is one."""
    _check_rule(fitted)
    return np.where(np.isnan(labels), bag_probability(fitted, bags), labels)


def parts_given_labels(fitted: Fitted, parts: Array, of_bags: Array, labels: Array) -> Array:
    """P(the part is positive | label of its bag), (P, K), from the plain probabilities of parts and of their bags."""
    _check_rule(fitted)
    share = np.divide(parts, of_bags, out=np.ones_like(parts), where=of_bags > 0)
    return np.where(np.isnan(labels), parts, np.where(labels == 1, share, 0.0))


def _check_rule(fitted: Fitted) -> None:
    if not isinstance(fitted.rule, AtLeastOne):
        raise BagDataError(
            f"given: this model judges a bag by its {fitted.rule.name}, and its instances have no law given the label "
            "of their bag. Leave given out, or use a model whose bags are positive if at least one instance is, such "
            "as BagGP."
        )
