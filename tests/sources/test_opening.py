"""Files opened as bags: Parquet, .npy and safetensors give what the table in memory gives."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from bagwise import BagDataError, Bags, two_levels


@pytest.fixture
def frame():
    random = np.random.default_rng(1)
    sizes = np.array([5, 1, 9, 30, 2, 11])
    bag = np.repeat(["007", "b", "c", "d", "NA", "f"], sizes)
    label = np.repeat([0.0, 1.0, np.nan, 1.0, 0.0, 1.0], sizes)
    rows = random.standard_normal((sizes.sum(), 3))
    return pd.DataFrame(rows, columns=list("xyz")).assign(
        slide=bag, label=label, name=np.repeat(list("ppqqpq"), sizes), inside=random.integers(0, 2, sizes.sum())
    )


def write(frame, path, group=7):
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=group)
    return path


def same(opened, expected):
    assert opened.ids == expected.ids
    assert opened.feature_names == expected.feature_names
    np.testing.assert_array_equal(opened.offsets, expected.offsets)
    np.testing.assert_array_equal(opened.rows, expected.rows)
    np.testing.assert_array_equal(np.asarray(opened.X), expected.X)


@pytest.mark.parametrize("group", [1, 7, 1000])
def test_parquet_opened_equals_parquet_in_memory(frame, tmp_path, group):
    path = write(frame, tmp_path / "t.parquet", group)
    opened = Bags.open(path, "slide", label=["label", "name"], instance_label="inside")
    expected = Bags.from_frame(frame, "slide", label=["label", "name"], instance_label="inside")
    same(opened[0], expected[0])
    assert pd.DataFrame(opened[1]).equals(pd.DataFrame(expected[1]))
    np.testing.assert_array_equal(opened[2], expected[2])


def test_parquet_batches_inside_of_a_row_group_are_read_in_any_order(frame, tmp_path, monkeypatch):
    monkeypatch.setattr("bagwise.sources.parquet._BATCH_ENTRIES", 12)
    features = list("xyz")
    bags = Bags.open(write(frame, tmp_path / "t.parquet", 25), "slide", features=features)
    X = frame[features].to_numpy()
    for start, stop in [(0, 58), (20, 30), (13, 15), (3, 9), (9, 11), (50, 58), (24, 26)]:
        np.testing.assert_array_equal(np.asarray(bags.X[start:stop]), X[start:stop])


def test_folder_of_parquet_files_is_one_table_in_which_a_bag_may_go_on(frame, tmp_path):
    for number, (start, stop) in enumerate([(0, 8), (8, 40), (40, 58)]):
        write(frame.iloc[start:stop], tmp_path / f"{number}.parquet")
    bags, y = Bags.open(tmp_path, "slide", features=["x", "y"], label="label", known="inside")
    expected, their = Bags.from_frame(frame, "slide", features=["x", "y"], label="label")
    same(bags, expected)
    np.testing.assert_array_equal(y, their)
    np.testing.assert_array_equal(bags.known, frame["inside"])


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


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_npy_opened_equals_the_array(frame, tmp_path, kind):
    X = frame[["x", "y", "z"]].to_numpy(kind)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "bag.npy", frame["slide"].to_numpy(str))
    bags, y = Bags.open(tmp_path / "X.npy", tmp_path / "bag.npy", label=frame["label"].to_numpy())
    same(bags, Bags(X, frame["slide"].to_numpy()))
    np.testing.assert_array_equal(y, [0.0, 1.0, np.nan, 1.0, 0.0, 1.0])
    with pytest.raises(BagDataError, match=r"do not stand together.*argsort"):
        Bags.open(tmp_path / "X.npy", np.arange(58) % 3)


def test_npy_with_objects_is_refused(tmp_path):
    np.save(tmp_path / "X.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(BagDataError, match=r"cannot be read as a \.npy"):
        Bags.open(tmp_path / "X.npy", [0])


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16])
def test_safetensors_opened_equals_the_tensor(frame, tmp_path, kind):
    X = torch.tensor(frame[["x", "y", "z"]].to_numpy().copy(order="C")).to(kind)
    codes = pd.factorize(frame["slide"])[0]
    path = tmp_path / "X.safetensors"
    save_file({"X": X, "bag": torch.tensor(codes), "y": torch.tensor(frame["label"].to_numpy())}, path)
    bags, y = Bags.open(path, "bag", label="y")
    wide = X.float().numpy() if kind == torch.bfloat16 else X.numpy()
    same(bags, Bags(wide, codes))
    np.testing.assert_array_equal(y, [0.0, 1.0, np.nan, 1.0, 0.0, 1.0])
    with pytest.raises(BagDataError, match=r"expected a tensor 'rows'.*X, bag, y"):
        Bags.open(path, "bag", features="rows")


def test_parts_groups_and_metadata_of_an_opened_table_are_those_of_the_table_in_memory(frame, tmp_path):
    frame = frame.assign(part=[f"{bag}-{row // 4}" for row, bag in enumerate(frame["slide"])])
    named = {"label": "label", "instance_label": "inside", "part": "part", "group": "name", "meta": ["y", "z"]}
    opened, y, inside = Bags.open(write(frame, tmp_path / "t.parquet"), "slide", **named)
    expected, their, whole = Bags.from_frame(frame, "slide", **named)
    assert opened.stays_in_file
    for mine, theirs in ((opened, expected), (opened[[4, 1]], expected[[4, 1]]), (opened[1:3], expected[1:3])):
        same(mine, theirs)
        assert mine.group == theirs.group
        np.testing.assert_array_equal(mine.part, theirs.part)
        pd.testing.assert_frame_equal(mine.meta, theirs.meta)
        same(mine.by_part(), theirs.by_part())
    np.testing.assert_array_equal(y, their)
    np.testing.assert_array_equal(inside, whole)


def test_parts_that_do_not_stand_together_in_a_file_are_refused(frame, tmp_path):
    frame = frame.assign(part=[f"{bag}-{row % 2}" for row, bag in enumerate(frame["slide"])])
    with pytest.raises(BagDataError, match="the rows of part '007-0' do not stand together: it goes on in row 2"):
        Bags.open(write(frame, tmp_path / "t.parquet"), "slide", label="label", part="part", ignore=["name"])


def test_labels_at_two_levels_of_an_opened_table_leave_its_rows_in_the_file(frame, tmp_path):
    """A labelled part in the middle of a bag leaves two stretches of the file as one bag."""
    frame = frame.assign(part=[f"{bag}-{row // 4}" for row, bag in enumerate(frame["slide"])])
    named = {"label": "label", "part": "part", "features": list("xyz")}
    opened, y = Bags.open(write(frame, tmp_path / "t.parquet"), "slide", **named)
    parts = dict.fromkeys(opened.by_part().ids, np.nan) | {"d-6": 0.0}
    mine = two_levels(opened, y, parts).bags
    theirs = two_levels(*Bags.from_frame(frame, "slide", **named), parts).bags
    assert mine.stays_in_file
    same(mine, theirs)
    chosen = [theirs.ids.index("f"), theirs.ids.index("d (other parts)"), 0]
    same(mine[chosen], theirs[chosen])
    same(mine.by_part()[::2], theirs.by_part()[::2])


def test_an_instance_of_an_opened_table_without_metadata_is_known_by_its_row(frame, tmp_path):
    bags = Bags.open(write(frame, tmp_path / "t.parquet"), "slide", features=list("xyz"))
    assert bags["d"].describe(3) == "row 18"
