"""Answers given what a bag itself says (theory section 1).

With a statement about a bag, such as its label, Bayes' rule gives

    P(yᵢ = 1 | statement) = E_v[P(yᵢ = 1, statement | v)] / E_v[P(statement | v)].                        (1.12)

Under the rule "at least one" a positive instance makes its bag positive, so P(yᵢ = 1, bag positive | v) = P(yᵢ = 1 | v)
for every draw of v, and (1.12) for a positive bag is P(yᵢ = 1) / P(the bag is positive): the numerator is exact, the
denominator is that of ``bag_probability``. A negative bag has no positive instance. For a statement about the number of
positives both are averages over draws of v, with the probabilities of (2.4) given each.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bagwise.bag_models.counts import Tabled, tabled_columns
from bagwise.bag_models.rules import AtLeastOne
from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.exceptions import BagDataError
from bagwise.gp.latent import LatentBags
from bagwise.numerics.counting.programme import count_posterior
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


def instances_given_counts(fitted: Fitted, bags: Bags, evidence: CountEvidence) -> Array:
    """P(yᵢ = 1 | what its bag states about its number of positives), (N, K)."""
    found = instances_given_labels(fitted, bags, evidence.labels)
    for part, column, latent, stated in stated_tables(fitted, bags, evidence):
        own = found[bags.offsets[part.start] : bags.offsets[part.stop], column]
        own[stated.rows.cpu().numpy()] = _given_table(latent, stated, column).cpu().numpy()
    return found


def bags_given_counts(fitted: Fitted, bags: Bags, evidence: CountEvidence) -> Array:
    """P(at least one instance is positive | what the bag states about their number), (B, K)."""
    found = bags_given_labels(fitted, bags, evidence.labels)
    for part, column, latent, stated in stated_tables(fitted, bags, evidence):
        found[part, column][stated.bags.cpu().numpy()] = 1.0 - _none_given_table(latent, stated, column).cpu().numpy()
    return found


def stated_tables(
    fitted: Fitted, bags: Bags, evidence: CountEvidence
) -> Iterator[tuple[slice, int, LatentBags, Tabled]]:
    """Runs of bags and columns in which some state a table, with their latent values."""
    start = 0
    for latent in fitted.latent(bags):
        part = slice(start, start + len(latent.bags))
        for column, stated in enumerate(tabled_columns(evidence, part, torch.float64, latent.design.phi.device)):
            if stated is not None:
                yield part, column, latent, stated
        start = part.stop


def _given_table(latent: LatentBags, stated: Tabled, column: int) -> Tensor:
    """(1.12) of the rows of bags that state a table: Σ Z r / Σ Z over draws of v, in logs."""
    owner = stated.potentials.bag_of_row
    both, alone = [], []
    for log_p, log_q in log_chances(latent, stated, column):
        given_v = count_posterior(log_p, log_q, stated.potentials)
        both.append((given_v.log_z[:, owner] + given_v.log_r).logsumexp(0))
        alone.append(given_v.log_z.logsumexp(0))
    return torch.exp(torch.stack(both).logsumexp(0) - torch.stack(alone).logsumexp(0)[owner])


def _none_given_table(latent: LatentBags, stated: Tabled, column: int) -> Tensor:
    """P(no positive | statement) of bags that state a table: ψ(0) Σ Π q / Σ Z over draws of v, in logs."""
    tables, none, alone = stated.potentials, [], []
    for log_p, log_q in log_chances(latent, stated, column):
        nobody = torch.zeros(len(log_q), len(tables), dtype=log_q.dtype, device=log_q.device)
        none.append(nobody.index_add(1, tables.bag_of_row, log_q).logsumexp(0))
        alone.append(count_posterior(log_p, log_q, tables).log_z.logsumexp(0))
    of_none = tables.log_psi[tables.offsets[:-1] + torch.arange(len(tables), device=tables.offsets.device)]
    return torch.exp(of_none + torch.stack(none).logsumexp(0) - torch.stack(alone).logsumexp(0)).clamp(max=1.0)


def log_chances(latent: LatentBags, stated: Tabled, column: int) -> Iterator[tuple[Tensor, Tensor]]:
    """log P(yᵢ = 1 | v) and log P(yᵢ = 0 | v) of these rows for some draws of v at a time, (S, m) each."""
    for _, scores in latent.scores(column):
        z = scores[stated.rows].T
        log_p = latent.link.log_probability(z).masked_fill(stated.known == 0, -torch.inf)
        yield log_p, latent.link.log_probability(-z).masked_fill(stated.known == 1, -torch.inf)


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
