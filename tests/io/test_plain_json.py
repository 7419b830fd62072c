"""Numbers of NumPy as plain JSON."""

import math

from bagwise.io.plain_json import plain_numbers


def test_plain_numbers_leaves_the_rest_alone():
    given = {"a": [1, 2.5, math.nan], "b": (math.inf, "text", None, True)}
    assert plain_numbers(given) == {"a": [1, 2.5, None], "b": ["inf", "text", None, True]}
