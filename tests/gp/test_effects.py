"""Sizes of the effects of bags."""

import pytest

from bagwise.gp.effects import NO_EFFECT, GroupEffect


def test_variance_of_the_effect_is_that_of_its_two_parts():
    effect = GroupEffect.of(0.3, 0.4)
    assert (effect.size, effect.common, effect.own) == pytest.approx((0.5, 0.3, 0.4))
    assert GroupEffect.of(0.0) == NO_EFFECT
    assert NO_EFFECT.size == NO_EFFECT.own == NO_EFFECT.common == 0.0


def test_sizes_that_the_data_leave_open_are_averaged_as_variances():
    effect = GroupEffect(sizes=(1.0, 3.0), shares=(0.0, 1.0), weights=(0.5, 0.5))
    assert effect.size**2 == pytest.approx(5.0)
    assert (effect.common**2, effect.own**2) == pytest.approx((0.5, 4.5))
