"""The density that the printed random walk goes by."""

import numpy as np
import torch
from tests.problems import segments_of

from bagwise.bag_models.counts import ProbitCounts
from bagwise.evidence.counts import CountEvidence
from bagwise.evidence.statements import count, log_potentials
from bagwise.inference.chains.gibbs import plan_of
from bagwise.inference.chains.random_walk import Walk, _log_density, tables_of

NAN = np.nan


def test_density_vanishes_where_a_known_instance_has_the_wrong_sign_or_the_count_is_impossible():
    sizes, segments = np.array([3]), segments_of([3])
    table = log_potentials(count([1], [2]), sizes)
    evidence = CountEvidence(np.array([[NAN]]), sizes, (table,), (np.array([True]),), np.array([0.0, NAN, NAN]))
    chunk = ProbitCounts(evidence).chunk(slice(0, 1), torch.float64, torch.device("cpu"))
    # In every column: a possible z; the known negative above zero; no positive at all.
    z = torch.tensor([[-1.0, 0.2, -1.0], [-0.5, -0.5, -0.5], [0.5, 0.5, -0.5]], dtype=torch.float64)
    f = torch.full_like(z, 0.25)
    walk = Walk(plan_of(chunk, segments, 3), *tables_of(chunk, segments), z)
    found = _log_density(z, f, walk, segments)[0]
    assert float(found[0]) == -0.5 * float((z[:, 0] - 0.25).square().sum())
    assert found[1:].tolist() == [-np.inf, -np.inf]
