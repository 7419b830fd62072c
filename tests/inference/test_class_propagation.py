"""One site per bag and class: against quadrature on a tiny problem, and against labels where both must agree."""

import numpy as np
import pytest
import torch
from tests.problems import features_of, random_bags, segments_of

from bagwise.bag_models.classes import ClassChunk, ProbitClasses, odds_of
from bagwise.evidence.classes import ClassEvidence
from bagwise.evidence.counts import CountEvidence
from bagwise.gp.features import Design
from bagwise.inference.chunks import Chunk, in_memory
from bagwise.inference.class_engines import by_class_mean_field, by_class_sites
from bagwise.inference.class_propagation import ClassPropagation, belief_of
from bagwise.inference.class_start import leaves_choice
from bagwise.inference.engines import Limits, by_bag_sites, by_mean_field
from bagwise.inference.loop import SILENT, iterate

K, SIZES = 3, (4, 4, 4)
EXACT = Limits(2000, 1e-9, SILENT)
TABLE = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 1]], dtype=bool)


def tiny():
    """Three bags of four, one weight per class: small enough for a grid over (v_1, v_2, v_3)."""
    rng = np.random.default_rng(3)
    phi = torch.from_numpy(rng.uniform(0.2, 1.5, size=(12, 1)))
    return Chunk(
        Design(phi, torch.full((12,), 0.1, dtype=torch.float64), segments_of(SIZES)),
        ClassChunk(torch.from_numpy(TABLE)),
    )


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


def settled(chunk, columns):
    engine = ClassPropagation([chunk], columns, torch.device("cpu"), 0)
    trace = iterate(engine.step, name="log evidence", max_iter=2000, tol=1e-10)
    assert trace.converged
    return engine


def test_class_sites_come_close_to_quadrature():
    chunk = tiny()
    exact, mean, variance = by_grid(chunk)
    engine = settled(chunk, 1)
    assert engine.log_evidence.item() == pytest.approx(exact, abs=0.05)
    np.testing.assert_allclose(engine.belief.mean[:, 0], mean, atol=0.08)
    np.testing.assert_allclose(engine.belief.factor[:, 0, 0].numpy() ** -2, variance, rtol=0.35)


def test_log_evidence_of_class_sites_is_stationary_in_the_sites():
    engine = settled(tiny(), 1)
    before = engine.log_evidence.item()
    for name in ("tau", "nu"):
        moved = getattr(engine.point, name).clone()
        moved[0, 0] += 1e-4
        engine.point = engine.point._replace(**{name: moved})
        engine.belief = belief_of(engine.point)
        engine.finish()
        assert abs(engine.log_evidence.item() - before) < 1e-7


def labelled_problem(n_bags=14):
    rng = np.random.default_rng(0)
    bags = random_bags(rng, n_bags, (1, 5))
    y = rng.integers(0, 2, n_bags)
    return bags, features_of(bags, bias=1.0), y, np.eye(3, dtype=bool)[y]


def test_classes_that_are_known_give_the_answer_of_label_columns():
    """With S = {y} for every bag the columns are independent label problems, in both inferences."""
    bags, features, y, table = labelled_problem()
    counts = CountEvidence(np.eye(2)[y], bags.sizes)
    classes = ClassEvidence(table, bags.offsets)
    one, other = by_bag_sites(features, bags, counts, EXACT, 0), by_class_sites(features, bags, classes, EXACT, 0)
    torch.testing.assert_close(other.posterior.mean, one.posterior.mean, atol=1e-6, rtol=0)
    assert other.log_evidence.sum().item() == pytest.approx(one.log_evidence.sum().item(), abs=1e-6)
    one, other = by_mean_field(features, bags, counts, EXACT), by_class_mean_field(features, bags, classes, EXACT)
    torch.testing.assert_close(other.posterior.mean, one.posterior.mean, atol=1e-6, rtol=0)
    assert other.log_evidence.sum().item() == pytest.approx(one.log_evidence.sum().item(), abs=1e-8)


def test_silent_bags_change_neither_class_inference():
    bags, features, _, table = labelled_problem()
    table[3] = False
    some = np.delete(np.arange(len(bags)), 3)
    whole, part = ClassEvidence(table, bags.offsets), ClassEvidence(table[some], bags[some].offsets)
    pairs = [
        (by_class_sites(features, bags, whole, EXACT, 0), by_class_sites(features, bags[some], part, EXACT, 0)),
        (by_class_mean_field(features, bags, whole, EXACT), by_class_mean_field(features, bags[some], part, EXACT)),
    ]
    for one, other in pairs:
        torch.testing.assert_close(one.posterior.mean, other.posterior.mean, atol=1e-6, rtol=0)


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


def test_odds_left_out_are_those_without_the_bag():
    """At bags that say nothing the odds by all other bags are those of the prior; the site of a bag is not in them."""
    engine = settled(tiny(), 1)
    seen = engine.left_out_odds()
    assert seen.shape == (3, K + 1)
    assert (seen[:, -1] == 0).all()
    for bag in range(3):
        others = engine.point._replace(
            **{
                name: getattr(engine.point, name).clone().index_fill_(1, torch.tensor([bag]), 0.0)
                for name in ("tau", "nu")
            }
        )
        belief = belief_of(others)
        row = engine.point.rows[:, bag, 0]
        mean, variance = row * belief.mean[:, 0], row.square() / belief.factor[:, 0, 0].square()
        z = (mean + engine.point.offset[:, bag]) / torch.sqrt(1.0 + variance)
        torch.testing.assert_close(seen[bag, :-1], torch.special.log_ndtr(z) - torch.special.log_ndtr(-z))
    every = torch.ones(3, K + 1, dtype=torch.bool)
    assert engine.left_out(torch.from_numpy(TABLE)) < engine.left_out(every) < 0


def test_only_sets_of_several_candidates_leave_a_choice():
    known = torch.tensor([[True, False, False], [False, False, False]])
    assert not leaves_choice(known)
    assert leaves_choice(known | torch.tensor([[True, True, False], [False, False, False]]))
