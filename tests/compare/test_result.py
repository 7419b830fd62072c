"""Differences and their errors."""

import numpy as np
import pytest
from tests.compare.comparison import NAMES

from bagwise.bench.summary import paired_t_test


def test_difference_is_paired_and_its_error_allows_for_overlap(result):
    found = result.difference(*NAMES)
    by_fold = (result.values(NAMES[0]) - result.values(NAMES[1])).to_numpy()
    assert result.overlap == pytest.approx(0.5, abs=0.1)
    assert found.mean == pytest.approx(by_fold.mean())
    assert found.error == pytest.approx(by_fold.std(ddof=1) * np.sqrt(1 / 3 + result.overlap))
    assert found.p == pytest.approx(paired_t_test(by_fold, result.overlap))
    assert found.lower < found.mean < found.upper
