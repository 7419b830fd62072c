"""Large bags: the contour integral against the full programme."""

import math

import pytest
import torch
from tests.numerics.counting.counted_bags import (
    INF,
    arbitrary,
    beta_fraction,
    close,
    full_programme,
    one_bag,
    table,
    together,
    weights,
)
from torch import Tensor

import bagwise.numerics.counting.potentials as potentials_module
import bagwise.numerics.counting.programme as programme
from bagwise.numerics.counting.potentials import LARGEST_EXACT_BAG
from bagwise.numerics.counting.programme import count_posterior, log_normaliser
from bagwise.numerics.counting.saddle import contour_posterior, draw_in_band


def large_potential(name: str, n: int) -> Tensor:
    k = torch.arange(n + 1, dtype=torch.float64)
    return {
        "exact count": lambda: table(n, lambda count: count == int(0.3 * n)),
        "all": lambda: table(n, lambda count: count == n),
        "range": lambda: table(n, lambda count: 0.6 * n <= count <= 0.7 * n),
        "fraction, confidence 100": lambda: beta_fraction(n, 0.3, 100.0),
        "fraction, confidence 1000": lambda: beta_fraction(n, 0.3, 1000.0),
        "all or none": lambda: table(n, lambda count: count in (0, n)),
        "two humps": lambda: torch.logaddexp(-((k - 0.2 * n) ** 2) / 50.0, -((k - 0.8 * n) ** 2) / 50.0),
        "rugged": lambda: 15.0 * arbitrary(n),
        "unlabelled": lambda: torch.zeros(n + 1, dtype=torch.float64),
    }[name]()


LARGE = ["exact count", "all", "range", "fraction, confidence 100", "fraction, confidence 1000", "all or none",
         "two humps", "rugged", "unlabelled"]  # fmt: skip


def large_weights(name: str, n: int) -> tuple[Tensor, Tensor]:
    noise = torch.randn(n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    sure = torch.where(torch.arange(n) < 0.3 * n, 1.0, -1.0)
    logits = {"mild": 2.0 * noise, "sure": 20.0 * sure + noise, "certain": 400.0 * sure + 100.0 * noise}[name]
    return torch.nn.functional.logsigmoid(logits), torch.nn.functional.logsigmoid(-logits)


def assert_contour_is_exact(log_p: Tensor, log_q: Tensor, log_psi: Tensor) -> None:
    full = full_programme(log_p, log_q, log_psi)
    found = contour_posterior(log_p[:, None], log_q[:, None], log_psi[:, None])
    torch.testing.assert_close(found.log_z, full.log_z, rtol=1e-12, atol=1e-11)
    close(found.log_r.exp(), full.log_r.exp())
    close(found.log_rbar.exp(), full.log_rbar.exp())


@pytest.mark.parametrize("instances", ["mild", "sure", "certain"])
@pytest.mark.parametrize("name", LARGE)
def test_contour_equals_the_full_programme(name, instances):
    assert_contour_is_exact(*large_weights(instances, 500), large_potential(name, 500))


@pytest.mark.parametrize("n", [1000, 1500])
@pytest.mark.parametrize("name", ["exact count", "fraction, confidence 100", "fraction, confidence 1000"])
def test_contour_equals_the_full_programme_in_larger_bags(name, n):
    assert_contour_is_exact(*large_weights("mild", n), large_potential(name, n))


def test_contour_with_known_instances_and_contradictions():
    log_p, log_q = large_weights("mild", 400)
    log_q[:100] = -INF
    log_p[350:] = -INF
    assert_contour_is_exact(log_p, log_q, large_potential("fraction, confidence 1000", 400))
    assert_contour_is_exact(log_p, log_q, table(400, lambda k: k == 100))
    columns = torch.stack([table(400, lambda k: k == 99), table(400, lambda k: k == 180)], dim=1)
    found = contour_posterior(log_p[:, None].repeat(1, 2), log_q[:, None].repeat(1, 2), columns)
    full = full_programme(log_p, log_q, columns[:, 1])
    assert found.log_z[0] == -INF
    close(found.log_z[1], full.log_z[0])
    close(found.log_r[:, 1].exp(), full.log_r[:, 0].exp())


def test_small_r_keeps_its_relative_accuracy_in_the_contour():
    log_p, log_q = large_weights("mild", 500)
    log_p[:50] -= 200.0
    log_psi = large_potential("fraction, confidence 1000", 500)
    found = contour_posterior(log_p[:, None], log_q[:, None], log_psi[:, None])
    close(found.log_r[:50], full_programme(log_p, log_q, log_psi).log_r[:50], 1e-10)


def test_bags_above_the_limit_go_through_the_contour(monkeypatch):
    bag = one_bag(arbitrary(LARGEST_EXACT_BAG + 1))
    assert bag.plan[0].large
    assert not one_bag(arbitrary(LARGEST_EXACT_BAG)).plan[0].large

    tables = [arbitrary(60), large_potential("exact count", 130), arbitrary(150), beta_fraction(140, 0.6, 200.0)]
    log_p, log_q = weights(2, 480)
    small = count_posterior(log_p, log_q, together(tables))
    monkeypatch.setattr(potentials_module, "LARGEST_EXACT_BAG", 70)
    potentials = together(tables)
    large = torch.cat([bucket.bags for bucket in potentials.plan if bucket.large])
    assert sorted(large.tolist()) == [1, 2, 3]
    for actual, expected in zip(count_posterior(log_p, log_q, potentials), small, strict=True):
        close(actual, expected)
    close(log_normaliser(log_p, log_q, potentials), small.log_z)


def test_draws_in_large_bags_follow_the_posterior():
    n, number = 200, 1000
    log_p, log_q = (array[:, None].repeat(1, number) for array in large_weights("mild", n))
    for name in ("exact count", "fraction, confidence 100"):
        log_psi = large_potential(name, n)
        uniforms = torch.rand(n, number, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        columns = log_psi[:, None].repeat(1, number)
        labels, log_z = draw_in_band(log_p, log_q, columns, uniforms)
        full = full_programme(log_p[:, 0], log_q[:, 0], log_psi)
        close(log_z[0], full.log_z[0])
        assert (log_psi[labels.sum(0)] > -INF).all()
        r = full.log_r[:, 0].exp()
        assert ((labels.double().mean(1) - r).abs() <= 4.5 * (r * (1.0 - r) / number).sqrt()).all()
        # The same uniforms through the whole table give the same labels: the band leaves nothing out.
        whole, _ = programme._exact_draw(*(array[:, :50] for array in (log_p, log_q, columns, uniforms)))
        assert torch.equal(labels[:, :50], whole)


def test_the_band_widens_for_two_humps():
    n, number = 200, 400
    zero = torch.zeros(n, number, dtype=torch.float64)
    log_psi = table(n, lambda k: k in (0, n))[:, None].repeat(1, number)
    uniforms = torch.rand(n, number, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    labels, _ = draw_in_band(zero, zero, log_psi, uniforms)
    counts = labels.sum(0)
    assert set(counts.tolist()) == {0, n}
    assert abs(int((counts == n).sum()) - number / 2) < 4.5 * math.sqrt(number / 4)
