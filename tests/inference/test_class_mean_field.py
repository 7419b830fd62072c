"""The bound of the mean field of classes lies below the log evidence."""

import numpy as np
from tests.inference.class_problems import EXACT, tiny
from tests.problems import features_of, random_bags

from bagwise.evidence.classes import ClassEvidence
from bagwise.inference.class_engines import by_class_mean_field, by_class_sites


def test_mean_field_bound_lies_below_the_evidence_by_quadrature():
    chunk = tiny()
    bags = random_bags(np.random.default_rng(1), 6, (2, 4))
    assert chunk.evidence.informed(0, chunk.design.segments).all()
    features = features_of(bags, n_inducing=4, bias=1.0)
    table = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0]] * 2, dtype=bool)
    evidence = ClassEvidence(table, bags.offsets)
    bound, found = (
        by_class_mean_field(features, bags, evidence, EXACT),
        by_class_sites(features, bags, evidence, EXACT, 0),
    )
    assert bound.log_evidence.sum() < found.log_evidence.sum() < 0
