"""One site per bag and class: against quadrature on a tiny problem, and against labels where both must agree."""

import numpy as np
import pytest
import torch
from tests.inference.class_problems import TABLE, K, labelled_problem, settled_classes, settled_tiny, tiny

from bagwise.bag_models.classes import ProbitClasses, odds_of
from bagwise.evidence.classes import ClassEvidence
from bagwise.inference import class_propagation
from bagwise.inference.chunks import in_memory
from bagwise.inference.class_propagation import ClassPropagation
from bagwise.inference.class_sites import belief_of, totals_of


def by_grid(chunk, points=81, reach=5.0):
    """log evidence, means and variances of v by the trapezium rule; a column sees its own weight only."""
    axis = torch.linspace(-reach, reach, points, dtype=torch.float64)
    z = chunk.design.phi / torch.sqrt(1.0 + chunk.design.kappa)[:, None]
    none, some = (part.T for part in odds_of(z * axis, chunk.design.segments))  # (points, B) each
    grid = torch.cartesian_prod(*[torch.arange(points)] * K)
    ratio = torch.stack([(some - none)[grid[:, k]] for k in range(K)] + [torch.zeros(len(grid), len(TABLE))], dim=2)
    joint = torch.logsumexp(ratio.masked_fill(~chunk.evidence.table, -torch.inf), dim=2)
    logs = (joint + sum(none[grid[:, k]] for k in range(K))).sum(1) - 0.5 * axis[grid].square().sum(1)
    logs += K * (torch.log(axis[1] - axis[0]) - 0.5 * np.log(2 * np.pi))
    total = torch.logsumexp(logs, 0)
    weight = torch.exp(logs - total)
    mean = weight @ axis[grid]
    return total.item(), mean.numpy(), (weight @ (axis[grid] - mean).square()).numpy()


def test_class_sites_come_close_to_quadrature():
    chunk = tiny()
    exact, mean, variance = by_grid(chunk)
    engine = settled_tiny()
    assert engine.log_evidence.item() == pytest.approx(exact, abs=0.05)
    np.testing.assert_allclose(engine.belief.mean[:, 0], mean, atol=0.08)
    np.testing.assert_allclose(engine.belief.factor[:, 0, 0].numpy() ** -2, variance, rtol=0.35)


def test_class_inference_does_not_depend_on_chunks():
    bags, features, _, table = labelled_problem()
    model = ProbitClasses(ClassEvidence(table, bags.offsets))
    (whole,) = in_memory(features, bags, model).chunks
    halves = [
        in_memory(features, bags[part], ProbitClasses(ClassEvidence(table[part], bags[part].offsets))).chunks[0]
        for part in (np.arange(5), np.arange(5, 14))
    ]
    one, other = (ClassPropagation(chunks, features.n_columns, features.device, 0) for chunks in ([whole], halves))
    for _ in range(5):
        one.step(), other.step()
    torch.testing.assert_close(one.belief.mean, other.belief.mean, atol=1e-10, rtol=0)


def test_odds_left_out_are_those_without_the_bag():
    """At bags that say nothing the odds by all other bags are those of the prior; the site of a bag is not in them."""
    engine = settled_tiny()
    seen = engine.left_out_odds()
    assert seen.shape == (3, K + 1)
    assert (seen[:, -1] == 0).all()
    bags, classes = engine.ground.pairs
    for pair, (bag, k) in enumerate(zip(bags, classes, strict=True)):
        none = {name: getattr(engine.point, name).clone() for name in ("tau", "nu")}
        for values in none.values():
            values[pair] = 0.0
        others = engine.point._replace(**none)
        belief = belief_of(others, engine.ground, totals_of(others, engine.ground))
        row = engine.point.rows[pair, 0]
        mean, variance = row * belief.mean[k, 0], row.square() / belief.factor[k, 0, 0].square()
        z = (mean + engine.point.offset[pair]) / torch.sqrt(1.0 + variance)
        torch.testing.assert_close(seen[bag, k], torch.special.log_ndtr(z) - torch.special.log_ndtr(-z))


def test_small_latent_values_to_begin_with_change_no_answer_that_is_the_only_one(monkeypatch):
    rising = settled_tiny()
    monkeypatch.setattr(class_propagation, "_RISING", ())
    at_once = settled_classes(tiny(), 1)
    torch.testing.assert_close(rising.belief.mean, at_once.belief.mean, atol=1e-7, rtol=0)
    assert rising.log_evidence.item() == pytest.approx(at_once.log_evidence.item(), abs=1e-7)
