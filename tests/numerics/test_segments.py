"""Sums and maxima over ragged bags, against plain loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise.numerics.segments import BagWeights, Segments, _OrderedSpread, _OrderedSum


@st.composite
def ragged(draw):
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    columns = draw(st.sampled_from([None, 1, 3]))
    shape = (sum(sizes),) if columns is None else (sum(sizes), columns)
    values = draw(st.lists(st.floats(-700, 700), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    return sizes, torch.tensor(values, dtype=torch.float64).reshape(shape)


@given(ragged())
@settings(max_examples=60, deadline=None)
def test_segments_equal_plain_loops(problem):
    sizes, x = problem
    segments = Segments(torch.tensor(np.concatenate([[0], np.cumsum(sizes)])))
    parts = x.split(sizes)
    loops = {
        "sum": [part.sum(0) for part in parts],
        "max": [part.amax(0) for part in parts],
        "logsumexp": [part.logsumexp(0) for part in parts],
    }
    for name, expected in loops.items():
        torch.testing.assert_close(getattr(segments, name)(x), torch.stack(expected), rtol=1e-12, atol=1e-9)
    spread = torch.cat([part.sum(0, keepdim=True).expand_as(part) for part in parts])
    torch.testing.assert_close(segments.spread(segments.sum(x)), spread, rtol=1e-12, atol=1e-9)
    assert len(segments) == len(sizes)


def test_first_largest_is_the_first_row_where_several_are_largest():
    segments = Segments(torch.tensor([0, 3, 5, 6]))
    assert segments.first_largest(torch.tensor([1.0, 2.0, 2.0, 4.0, 4.0, -1.0])).tolist() == [1, 3, 5]


def test_segments_take_any_layout_and_minus_infinity():
    segments = Segments(torch.tensor([0, 2, 5]))
    across = torch.arange(10.0).reshape(2, 5).T
    assert segments.sum(across).tolist() == [[1.0, 11.0], [9.0, 24.0]]
    nothing = torch.tensor([-math.inf, -math.inf, 0.0, -math.inf, 0.0])
    assert segments.logsumexp(nothing).tolist() == [-math.inf, pytest.approx(math.log(2))]


def test_logsumexp_of_bags_has_the_right_gradient():
    x = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    Segments(torch.tensor([0, 2, 5])).logsumexp(x).sum().backward()
    expected = torch.cat([part.softmax(0) for part in x.detach().split([2, 3])])
    torch.testing.assert_close(x.grad, expected)


def test_ordered_sums_are_those_of_segments_and_can_be_differentiated_twice():
    """The way of a GPU, which keeps to the order of rows."""
    segments = Segments(torch.tensor([0, 2, 5]))
    x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)

    def summed(rows):
        return _OrderedSum.apply(rows, segments)

    torch.testing.assert_close(summed(x), segments.sum(x), rtol=0, atol=0)
    assert torch.autograd.gradcheck(summed, x)
    assert torch.autograd.gradgradcheck(lambda rows: summed(rows**2), x)


def test_values_spread_as_on_a_gpu_have_the_right_derivatives():
    segments = Segments(torch.tensor([0, 2, 2, 5]))
    x = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)

    def repeated(values):
        return _OrderedSpread.apply(values, segments)

    torch.testing.assert_close(repeated(x), segments.spread(x), rtol=0, atol=0)
    assert torch.autograd.gradcheck(repeated, x)
    assert torch.autograd.gradgradcheck(lambda values: repeated(values**2), x)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("sizes", [[1, 64, 65, 200, 128], [0, 70, 0, 0, 3, 0], [5]])
def test_sums_by_pieces_are_those_of_whole_segments(sizes, shape):
    offsets = torch.tensor(np.concatenate([[0], np.cumsum(sizes)]))
    x = torch.randn(sum(sizes), *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([part.sum(0) for part in x.split(sizes)])
    torch.testing.assert_close(Segments(offsets).sum_by_pieces(x), expected, rtol=0, atol=1e-12)


def test_segments_whose_number_of_rows_is_given_are_the_same():
    offsets = torch.tensor([0, 2, 5])
    assert torch.equal(Segments(offsets, 5).index, Segments(offsets).index)


def test_joined_weights_are_those_of_all_bags_or_none():
    one, other = BagWeights(torch.tensor([1.0, 2.0])), BagWeights(torch.tensor([3.0]))
    assert one.joined([other, one]).each.tolist() == [1.0, 2.0, 3.0, 1.0, 2.0]
    assert BagWeights().joined([BagWeights()]).each is None
