"""When an alternation stops."""

import numpy as np
import pytest

from bagwise import ConvergenceWarning
from bagwise.baselines._base.alternation import alternate


def test_alternation_stops_when_a_choice_returns_and_warns_when_it_does_not():
    turns = iter([np.array([1]), np.array([0])])
    assert alternate(lambda choice: int(choice[0]), lambda learned: next(turns), np.array([0]), 5) == 1
    with pytest.warns(ConvergenceWarning, match="did not settle within 3 rounds"):
        alternate(lambda choice: choice, lambda learned: learned + 1, np.array([0]), 3)
