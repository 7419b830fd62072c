"""Sizes of the effects of bags."""

import numpy as np
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


def test_sizes_of_groups_are_read_from_their_rows_and_their_quadratic_mean_is_the_size():
    effect = GroupEffect.of_groups(np.array([[0.3, 0.9], [0.6, 1.2]]), np.ones(2), np.array([0.25, 0.75]), (1, 2))
    assert effect.by_group == pytest.approx(np.sqrt([0.25 * 0.09 + 0.75 * 0.36, 0.25 * 0.81 + 0.75 * 1.44]))
    assert effect.size**2 == pytest.approx(np.mean(np.square(effect.by_group)))
    X = np.array([[7.0, 1.0, 0.0], [7.0, 0.0, 1.0], [7.0, 0.0, 0.0]])
    assert effect.relative(X) * effect.size == pytest.approx([*effect.by_group, effect.size])
    drawn = effect.row_factors(X, np.array([1, 0])) * np.array(effect.sizes)[[1, 0]]
    np.testing.assert_allclose(drawn[:2], [[0.6, 0.3], [1.2, 0.9]])
    assert "by_group=(0.541, 1.13)" in repr(effect)
