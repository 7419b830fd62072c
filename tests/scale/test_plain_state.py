"""States of other classes."""

import pytest

from bagwise.exceptions import ModelFileError
from bagwise.scale.plain_state import decode, encode


def test_states_of_other_classes_are_neither_written_nor_read():
    with pytest.raises(ModelFileError, match="cannot hold a set"):
        encode({1, 2}, {})
    for name in ("os:system", "bagwise.models:load", "bagwise.bags:Bags", "bagwise.bags:absent"):
        with pytest.raises(ModelFileError, match="no plain class of bagwise"):
            decode({"class": name, "parts": []}, {})
