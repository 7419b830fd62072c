"""Work in blocks: everything is covered once, and no block is too large."""

import pytest

from bagwise.numerics import blocks as module


@pytest.mark.parametrize(("total", "width"), [(0, 3), (1, 1), (10, 7), (100, 1), (7, 1000)])
def test_blocks_cover_everything_once_within_their_bound(total, width, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 30)
    found = list(module.blocks(total, width))
    assert [number for some in found for number in range(total)[some]] == list(range(total))
    assert all((some.stop - some.start) * width <= 30 or some.stop - some.start == 1 for some in found)
