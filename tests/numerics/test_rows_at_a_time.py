"""Sums over bags and functions of rows are the same to the last bit, however they are computed."""

import pytest
import torch

from bagwise.numerics import blocks
from bagwise.numerics.blocks import in_stretches
from bagwise.numerics.segments import Segments
from bagwise.numerics.special import log_negative_side


def rows(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("width", [7, 8, 48, 101])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_sums_of_wide_rows_over_bags_have_the_bits_of_a_reduction_of_segments(size, width, dtype):
    x = rows(3001, width, dtype=dtype)
    offsets = torch.tensor([*range(0, 3001, size), 3001])
    assert torch.equal(Segments(offsets).sum(x), torch.segment_reduce(x, "sum", offsets=offsets, axis=0))


def test_function_of_some_rows_at_a_time_has_the_bits_of_all_at_once(monkeypatch):
    z = 5.0 * rows(1001, 48)
    monkeypatch.setattr(blocks, "STRETCH", 4800)
    seen = []

    def look(part, weight):
        seen.append(len(part))
        return log_negative_side(part) * weight[:, None]

    found = in_stretches(look, z, z[:, 0])
    assert seen == [100] * 10 + [1]
    assert torch.equal(found, log_negative_side(z) * z[:, :1])


@pytest.mark.parametrize("shape", [(0, 3), (0,), (4, 0)])
def test_function_of_no_rows_or_of_no_columns_is_empty(shape):
    assert in_stretches(torch.exp, rows(*shape)).shape == shape


def test_function_of_rows_that_need_a_slope_sees_all_of_them(monkeypatch):
    monkeypatch.setattr(blocks, "STRETCH", 200)
    z = rows(300, 2).requires_grad_()
    in_stretches(lambda part: part.square().sum(0, keepdim=True), z).sum().backward()
    assert torch.equal(z.grad, 2.0 * z)
