"""How bags are planned: tables no wider than need be, every bag once."""

import pytest
import torch
from tests.numerics.counting.counted_bags import POTENTIALS, one_bag, ragged, table

import bagwise.numerics.counting.potentials as potentials_module
from bagwise.numerics.counting.programme import CountPotentials, count_posterior

EXPECTED_WIDTHS = {
    "label 0": 2, "label 1": 2, "noisy label": 2, "exactly": 5, "at least": 4, "at most": 4, "at least all but one": 3,
    "between": 7, "fraction 0": 2, "fraction 1": 2, "fraction without confidence": 1, "fraction with confidence": 9,
    "arbitrary": 9,
}  # fmt: skip


@pytest.mark.parametrize("name", POTENTIALS)
def test_tables_are_no_wider_than_they_need_be(name):
    (bucket,) = one_bag(POTENTIALS[name](8)).plan
    assert len(bucket.table) == EXPECTED_WIDTHS[name]
    assert not bucket.large


def test_short_tables_are_exact_in_bags_of_any_size(monkeypatch):
    monkeypatch.setattr(potentials_module, "LARGEST_EXACT_BAG", 10)
    short, long = one_bag(table(5000, lambda k: k >= 3)), one_bag(table(5000, lambda k: k >= 100))
    assert len(short.plan[0].table) == 4
    assert not short.plan[0].large
    assert long.plan[0].large


def test_every_bag_is_planned_once_with_little_padding():
    sizes = torch.randint(1, 400, (300,), generator=torch.Generator().manual_seed(0))
    potentials = CountPotentials(torch.randn(int(sizes.sum()) + 300), sizes)
    bags = torch.cat([bucket.bags for bucket in potentials.plan])
    assert bags.sort().values.tolist() == list(range(300))
    for bucket in potentials.plan:
        small = bucket.cells * len(bucket.bags) <= potentials_module._SMALL_CELLS
        assert small or len(bucket.rows) <= 1.25 * int(sizes[bucket.bags].min())
    assert any(len(bucket.rows) > 1.25 * int(sizes[bucket.bags].min()) for bucket in potentials.plan)  # small, together


def test_another_device_has_the_same_plan():
    potentials, log_p, log_q = ragged()
    moved = potentials.to("cpu")
    assert torch.equal(moved.sizes, potentials.sizes)
    assert torch.equal(moved.log_psi, potentials.log_psi)
    for actual, expected in zip(
        count_posterior(log_p, log_q, moved), count_posterior(log_p, log_q, potentials), strict=True
    ):
        assert torch.equal(actual, expected)
