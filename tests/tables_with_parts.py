"""A table of bags with parts, groups and metadata."""

import numpy as np
import pandas as pd

from bagwise import Bags

NAMED = {
    "bag": "patient",
    "part": "slide",
    "group": "hospital",
    "meta": ["file", "x"],
    "features": ["x", "y"],
    "label": "tumour",
}


def same(one: Bags, other: Bags) -> None:
    np.testing.assert_array_equal(one.X, other.X)
    assert (one.ids, one.group) == (other.ids, other.group)
    assert one.part.tolist() == other.part.tolist()
    pd.testing.assert_frame_equal(one.meta, other.meta)


def new_table():
    return pd.DataFrame(
        {
            "patient": ["b", "a", "b", "a", "b"],
            "slide": ["b2", "a1", "b1", "a1", "b2"],
            "x": [1.0, 2.0, 3.0, 4.0, 5.0],
            "y": [0.1, 0.2, 0.3, 0.4, 0.5],
            "file": ["f1", "f2", "f3", None, "f5"],
            "tumour": [1, 0, 1, 0, 1],
            "hospital": ["H1", "H2", "H1", "H2", "H1"],
        }
    )


def new_bags(table):
    return Bags.from_frame(table, **NAMED)[0]
