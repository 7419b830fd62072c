"""Pictures of shares and of rates of groups, read back from the axes."""

from types import SimpleNamespace

import numpy as np
import pytest

from bagwise.exceptions import BagDataError
from bagwise.plots import RatesDisplay, TomographyDisplay


def table(n_sets=3, groups=("young", "old"), outcomes=("red", "blue")):
    rng = np.random.default_rng(0)
    shape = (n_sets, len(groups), len(outcomes))
    least, lower, mean, upper, most = np.sort(rng.random((5, *shape)), axis=0)
    people = np.full(shape[:2], 10)
    people[0, 0] = 0
    names = tuple(f"p{b}" for b in range(n_sets))
    parts = {"least": least, "lower": lower, "mean": mean, "upper": upper, "most": most}
    return SimpleNamespace(sets=names, groups=groups, outcomes=outcomes, people=people, level=0.9, **parts)


def test_rates_display_draws_every_group_and_outcome_of_the_set():
    drawn = table()
    display = RatesDisplay.from_table(drawn, "p1")
    dots = [part.get_offsets()[:, 0] for part in display.ax_.collections[2::3]]
    np.testing.assert_allclose(np.stack(dots, axis=1), drawn.mean[1])
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["young", "old"]
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["red", "blue"]
    with pytest.raises(BagDataError, match="the table has the sets 'p0', 'p1', 'p2'"):
        RatesDisplay(drawn, "elsewhere")


def test_tomography_lines_run_between_the_bounds_of_bags_with_both_groups():
    drawn = table()
    display = TomographyDisplay.from_table(drawn)
    assert len(display.ax_.lines) == 2
    np.testing.assert_allclose(display.ax_.lines[0].get_xdata(), [drawn.least[1, 0, 0], drawn.most[1, 0, 0]])
    np.testing.assert_allclose(display.ax_.lines[0].get_ydata(), [drawn.most[1, 1, 0], drawn.least[1, 1, 0]])
    with pytest.raises(BagDataError, match="shows two groups; the table has 3"):
        TomographyDisplay(table(groups=("a", "b", "c")))
