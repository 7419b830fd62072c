"""Tables on disk, and bags that must be the same."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


def write(frame, path, group=7):
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=group)
    return path


def same(opened, expected):
    assert opened.ids == expected.ids
    assert opened.feature_names == expected.feature_names
    np.testing.assert_array_equal(opened.offsets, expected.offsets)
    np.testing.assert_array_equal(opened.rows, expected.rows)
    np.testing.assert_array_equal(np.asarray(opened.X), expected.X)


def new_frame():
    random = np.random.default_rng(1)
    sizes = np.array([5, 1, 9, 30, 2, 11])
    bag = np.repeat(["007", "b", "c", "d", "NA", "f"], sizes)
    label = np.repeat([0.0, 1.0, np.nan, 1.0, 0.0, 1.0], sizes)
    rows = random.standard_normal((sizes.sum(), 3))
    return pd.DataFrame(rows, columns=list("xyz")).assign(
        slide=bag, label=label, name=np.repeat(list("ppqqpq"), sizes), inside=random.integers(0, 2, sizes.sum())
    )
