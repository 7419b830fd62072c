"""Sites of classes: exact where bags exclude classes, and a log evidence that is stationary in all of them."""

import math

import numpy as np
import pytest
import torch
from tests.inference.class_problems import TABLE, settled_classes, settled_tiny
from tests.problems import segments_of

from bagwise.bag_models.classes import ClassChunk
from bagwise.gp.features import Design
from bagwise.inference.chunks import Chunk
from bagwise.inference.class_sites import bags_seen, belief_of, class_log_evidence, instances_seen, totals_of

SIZE = 8


def unrelated(variance, table):
    """One bag of eight instances with latent values of their own, and what it states about two classes."""
    phi = math.sqrt(variance) * torch.eye(SIZE, dtype=torch.float64)
    design = Design(phi, torch.zeros(SIZE, dtype=torch.float64), segments_of([SIZE]))
    return Chunk(design, ClassChunk(torch.tensor([table], dtype=torch.bool)))


@pytest.mark.parametrize("variance", [1.0, 40.0, 1000.0])
def test_excluded_classes_have_their_exact_log_evidence_however_rough_the_kernel(variance):
    engine = settled_classes(unrelated(variance, [0, 0, 1]), SIZE)
    assert engine.log_evidence.item() == pytest.approx(2 * SIZE * math.log(0.5), abs=1e-9)


@pytest.mark.parametrize(("variance", "error"), [(1.0, 0.001), (40.0, 0.005), (1000.0, 0.02)])
def test_log_evidence_of_a_class_is_close_however_rough_the_kernel(variance, error):
    engine = settled_classes(unrelated(variance, [1, 0, 0]), SIZE)
    exact = math.log1p(-(0.5**SIZE)) + SIZE * math.log(0.5)
    assert engine.log_evidence.item() == pytest.approx(exact, abs=error)


def test_log_evidence_of_class_sites_is_stationary_in_the_sites():
    engine = settled_tiny()
    before = engine.log_evidence.item()
    for name, place in (("tau", 0), ("nu", 2), ("own_tau", (1, 0)), ("own_nu", (2, 3))):
        moved = getattr(engine.point, name).clone()
        moved[place] += 1e-4
        x = engine.point._replace(**{name: moved})
        belief = belief_of(x, engine.ground, totals_of(x, engine.ground))
        bags = bags_seen(x, belief, engine.ground, engine.table)
        found = class_log_evidence(x, belief, bags, instances_seen(x, belief, engine.ground))
        assert abs(found.item() - before) < 1e-7


def test_sites_of_instances_stand_where_classes_are_excluded_and_those_of_bags_elsewhere():
    engine = settled_tiny()
    np.testing.assert_array_equal(engine.point.own_tau != 0, np.repeat(~TABLE[:, :-1], 4, axis=0).T)
    np.testing.assert_array_equal(engine.ground.table(engine.point.tau) != 0, TABLE[:, :-1])


def test_scaled_ground_has_a_share_of_the_latent_values():
    engine = settled_tiny()
    (half,), (whole,) = engine.ground.scaled(0.5).designs, engine.ground.designs
    torch.testing.assert_close(half.phi, 0.5 * whole.phi)
    torch.testing.assert_close(half.kappa, 0.25 * whole.kappa)  # a variance
