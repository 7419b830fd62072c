"""How probable what bags state is under a fitted model: E_v[P(statement | v)] (theory section 1)."""

import numpy as np
import torch
from numpy.typing import NDArray

from bagwise.bags import Bags
from bagwise.evidence.counts import CountEvidence
from bagwise.numerics.counting.programme import count_posterior
from bagwise.predict.bags import bag_probability
from bagwise.predict.given import log_chances, stated_tables
from bagwise.predict.points import Fitted

Array = NDArray[np.float64]

_SMALLEST = 1e-300  # a probability that is still a number


def log_probability(fitted: Fitted, bags: Bags, evidence: CountEvidence) -> Array:
    """(B, K), 0 where nothing is stated. A table of a fraction is a density: differences between models mean something.

    Labels are wrong with probability ``label_noise``; tables have it in them.
    """
    positive, labels, noise = bag_probability(fitted, bags), evidence.labels, evidence.label_noise
    right = noise + (1.0 - 2.0 * noise) * np.where(labels == 1, positive, 1.0 - positive)
    found: Array = np.where(np.isnan(labels), 0.0, np.log(right.clip(_SMALLEST)))
    for part, column, latent, stated in stated_tables(fitted, bags, evidence):
        given_v = [
            count_posterior(*chances, stated.potentials).log_z for chances in log_chances(latent, stated, column)
        ]
        each = torch.cat(given_v)
        found[part, column][stated.bags.cpu().numpy()] = (each.logsumexp(0) - np.log(len(each))).cpu().numpy()
    return found
