"""How often classes are guessed."""

import math

import pytest
import torch

from bagwise.inference.class_law import departure, held_to_law


def some_sets(n_bags=60, n_classes=4):
    """Sets of one to three candidates out of four, and log odds that favour the first class."""
    generator = torch.Generator().manual_seed(0)
    order = torch.rand(n_bags, n_classes, generator=generator).argsort(1).argsort(1)
    table = torch.nn.functional.pad(order < 1 + torch.arange(n_bags)[:, None] % 3, (0, 1))
    scores = 2.0 * torch.randn(n_bags, n_classes, generator=generator, dtype=torch.float64)
    scores[:, 0] += 3.0
    return table, torch.nn.functional.pad(scores, (0, 1))


def shares_of(table, logs):
    """Σ_b w_bk, (K,)."""
    return torch.softmax(logs.masked_fill(~table, -torch.inf), dim=1).sum(0)[:-1]


@pytest.mark.parametrize("slack", [0.0, 0.5, 1.0])
def test_classes_are_held_back_by_what_they_exceed_their_law(slack):
    table, scores = some_sets()
    law = (table.double() / table.sum(1, keepdim=True)).sum(0)[:-1]
    found = held_to_law(table, scores, slack)
    log_weights = (found - scores)[0, :-1]
    torch.testing.assert_close(
        shares_of(table, found), law * torch.exp(-slack * log_weights), atol=0.0, rtol=3e-3, check_dtype=False
    )
    assert float(log_weights[0]) < -0.2
    assert float((shares_of(table, scores) - law).abs().max()) > 3.0


def test_plain_odds_outdo_a_law_with_slack_and_not_one_without():
    """Thirty bags of the first class and ten of the second, each with both as candidates."""
    table = torch.tensor([[True, True, False]]).expand(40, 3)
    scores = torch.zeros(40, 3, dtype=torch.float64)
    scores[:30, 0], scores[30:, 0] = torch.linspace(4, 33, 30), -8.0
    assert int((held_to_law(table, scores, 1.0).argmax(1) == 0).sum()) == 30
    assert int((held_to_law(table, scores, 0.0).argmax(1) == 0).sum()) == pytest.approx(20, abs=1)


def test_none_of_them_and_classes_that_nobody_names_are_under_no_law():
    table = torch.tensor([[True, True, False, True], [False, True, False, False], [False, False, False, True]])
    scores = torch.tensor([[1.0, 0.0, 5.0, 0.0], [0.0, 1.0, 5.0, 0.0], [0.0, 0.0, 5.0, torch.finfo().min]])
    change = held_to_law(table, scores, 0.0) - scores
    assert bool(torch.isfinite(change).all())
    assert change[:, 2:].abs().max() == 0.0
    assert float(change[0, 0]) < float(change[0, 1])


def test_departure_counts_nats_between_guesses_and_law():
    """Forty bags that name two classes each: nothing where both are as probable, log 2 a bag where one has them all."""
    table = torch.tensor([[True, True, False, False]]).expand(40, 4)
    even = torch.zeros(40, 4, dtype=torch.float64)
    assert departure(table, even) == pytest.approx(0.0, abs=1e-9)
    assert departure(table, even + torch.tensor([60.0, 0.0, 0.0, 0.0])) == pytest.approx(40 * math.log(2.0))
    assert departure(table, even + torch.tensor([0.0, 0.0, 60.0, 60.0])) == pytest.approx(
        0.0, abs=1e-9
    )  # no candidates


def test_bags_without_candidates_depart_from_no_law():
    table = torch.tensor([[True, True, False], [False, False, True]])
    alone = departure(table[:1], torch.tensor([[2.0, 0.0, 0.0]], dtype=torch.float64))
    both = departure(table, torch.tensor([[2.0, 0.0, 0.0], [5.0, 0.0, 0.0]], dtype=torch.float64))
    assert both == pytest.approx(alone)
    assert alone > 0.1
