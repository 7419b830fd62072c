"""Three bags."""

import numpy as np
import pytest

from bagwise import Bags


@pytest.fixture
def bags():
    return Bags(np.arange(6.0)[:, None], ["a", "a", "a", "b", "b", "c"])
