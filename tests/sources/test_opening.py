"""Files opened as bags: Parquet, .npy and safetensors give what the table in memory gives."""

import numpy as np
import pandas as pd
import pytest
from tests.sources.stored_tables import new_frame, write

from bagwise import BagDataError, Bags


@pytest.fixture
def frame():
    return new_frame()


def test_bags_that_do_not_stand_together_are_refused_with_the_command_that_sorts(frame, tmp_path):
    path = write(pd.concat([frame.iloc[20:], frame.iloc[:20]]), tmp_path / "t.parquet")
    with pytest.raises(BagDataError, match=r"bag 'd' do not stand together.*row 0.*row 53.*bagwise sort .*--bag slide"):
        Bags.open(path, "slide", features=["x"])


def test_label_that_varies_inside_a_bag_is_refused_also_across_row_groups(frame, tmp_path):
    changed = frame.copy()
    changed.loc[21:, "label"] = 0.0
    with pytest.raises(BagDataError, match="label of bag 'd' varies"):
        Bags.open(write(changed, tmp_path / "t.parquet", 7), "slide", label="label", ignore=["name"])


def test_columns_that_cannot_be_features_are_refused(frame, tmp_path):
    path = write(frame, tmp_path / "t.parquet")
    with pytest.raises(BagDataError, match="column 'name' is not numeric"):
        Bags.open(path, "slide", label="label")
    with pytest.raises(BagDataError, match="no column 'absent'"):
        Bags.open(path, "absent")
    with pytest.raises(BagDataError, match="among the features and named as bag"):
        Bags.open(path, "slide", features=["x", "slide"])


def test_missing_bag_key_is_refused(frame, tmp_path):
    frame.loc[3, "slide"] = None
    with pytest.raises(BagDataError, match="'slide' is empty in row 3"):
        Bags.open(write(frame, tmp_path / "t.parquet"), "slide", features=["x"])


def test_file_that_changes_after_it_was_opened_is_refused(frame, tmp_path):
    path = write(frame, tmp_path / "t.parquet")
    bags = Bags.open(path, "slide", features=["x"])
    np.asarray(bags[:2].X)
    write(frame.iloc[:50], path)
    with pytest.raises(BagDataError, match="has changed since it was opened"):
        np.asarray(bags[3:].X)
    path.unlink()
    with pytest.raises(BagDataError, match="is gone"):
        np.asarray(bags[3:].X)


def test_damaged_and_foreign_files_are_refused(tmp_path):
    broken = tmp_path / "t.parquet"
    broken.write_bytes(b"PAR1 but not really")
    for path, reason in [(broken, "cannot be read as a Parquet"), (tmp_path / "t.csv", "Parquet|can stay in files")]:
        path.touch()
        with pytest.raises(BagDataError, match=reason):
            Bags.open(path, "slide")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(BagDataError, match="holds no file"):
        Bags.open(empty, "slide")


def test_parts_that_do_not_stand_together_in_a_file_are_refused(frame, tmp_path):
    frame = frame.assign(part=[f"{bag}-{row % 2}" for row, bag in enumerate(frame["slide"])])
    with pytest.raises(BagDataError, match="the rows of part '007-0' do not stand together: it goes on in row 2"):
        Bags.open(write(frame, tmp_path / "t.parquet"), "slide", label="label", part="part", ignore=["name"])
