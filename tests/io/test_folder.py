"""Folders of h5 files in every spelling, and what is said of files that cannot be used."""

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pytest

from bagwise import BagDataError, BagDataWarning, Bags, MILGPProbit
from bagwise.io import bag_table, instance_table
from bagwise.io.folder import FolderRows
from bagwise.io.h5 import open_tiles
from bagwise.scale import within

NAMES = ["0012", "slide with spaces", "é.ü.v2", "=1+1"]
PLACES = np.array([[0, 0], [512, 0], [0, 512]])


def write(path, **arrays):
    """An h5 file of the given arrays; one that is a pair comes with attributes."""
    with h5py.File(path, "w") as file:
        for name, given in arrays.items():
            values, notes = given if isinstance(given, tuple) else (given, {})
            file.create_dataset(name, data=values).attrs.update(notes)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(3, 4)).astype(np.float32) for _ in NAMES]


@pytest.fixture
def folder(tmp_path, rows):
    there = tmp_path / "features"
    there.mkdir()
    trident = {"patch_size": 256, "level0_magnification": 40, "target_magnification": 20}
    write(there / f"{NAMES[0]}.h5", features=rows[0][None], coords=(PLACES[None], trident))
    write(there / f"{NAMES[1]}.h5", features=rows[1], coords=(PLACES, {"patch_size": 256}))
    write(there / f"{NAMES[2]}.h5", feats=rows[2], coords=PLACES)
    write(there / f"{NAMES[3]}.hdf5", patch_embeddings=rows[3].astype(np.float16), coords=PLACES)
    return there


@pytest.fixture
def table():
    return pd.DataFrame(
        {"slide_id": NAMES, "patient": list("ABAB"), "tumour": [1, 0, 1, 0], "site": ["N", "S", "N", "S"]}
    )


def test_every_spelling_is_read_with_positions_and_labels(folder, table, rows):
    bags, y = Bags.from_folder(folder, table, label="tumour", group="patient", meta="site")
    assert bags.ids == tuple(NAMES)
    assert y.tolist() == [1, 0, 1, 0]
    assert bags.group == ("A", "B", "A", "B")
    assert bags.X.dtype == np.float32
    np.testing.assert_array_equal(bags.X[:9], np.concatenate(rows[:3]))
    np.testing.assert_array_equal(bags.X[9:], rows[3].astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(bags.meta[["x", "y"]], np.tile(PLACES, (4, 1)))
    assert "".join(bags.meta["site"]) == "NNNSSSNNNSSS"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ids_of_a_table_file_stay_as_they_are_written(folder, table, tmp_path, suffix):
    path = tmp_path / f"slides.{suffix}"
    (table.to_csv if suffix == "csv" else table.to_parquet)(path, index=False)
    bags, y = Bags.from_folder(folder, path, bag="patient", part="slide_id", label="tumour")
    assert bags.ids == ("A", "B")
    assert y.tolist() == [1, 0]
    assert bags.by_part().ids == ("0012", "é.ü.v2", "slide with spaces", "=1+1")


def test_results_of_a_folder_come_in_the_kind_of_its_table(folder, table):
    bags, y = Bags.from_folder(folder, pl.from_pandas(table), label="tumour")
    assert (bags.ids, bags.frame_kind) == (tuple(NAMES), "polars")
    model = MILGPProbit(n_inducing=3, max_iter=2, random_state=0).fit(bags, y)
    assert isinstance(bag_table(model, bags), pl.DataFrame)
    assert isinstance(instance_table(model, bags), pl.DataFrame)


def test_without_a_table_every_file_is_a_bag(folder):
    assert set(Bags.from_folder(folder).ids) == set(NAMES)


def test_the_table_may_name_files_with_their_suffix(folder, table):
    named = table.assign(path=["0012.h5", "slide with spaces.h5", "é.ü.v2.h5", "=1+1.hdf5"], slide_id=list("abcd"))
    assert Bags.from_folder(folder, named, file="path").ids == ("a", "b", "c", "d")


def test_sizes_of_tiles_are_those_of_the_finest_level(folder, tmp_path):
    assert open_tiles(folder / "0012.h5").tile_size == 512
    assert open_tiles(folder / "slide with spaces.h5").tile_size == 256
    assert open_tiles(folder / "é.ü.v2.h5").tile_size is None
    with h5py.File(tmp_path / "stamp.h5", "w") as file:
        file["feats"], file["coords"] = np.ones((2, 3)), np.zeros((2, 2))
        file.attrs.update({"unit": "um", "tile_size_um": 256.0})
    stamp = open_tiles(tmp_path / "stamp.h5")
    assert (stamp.unit, stamp.tile_size) == ("um", 256)
    assert list(Bags.from_folder(tmp_path).meta) == ["x_um", "y_um"]


def test_rows_of_a_folder_are_read_across_files(folder, rows):
    source = FolderRows([open_tiles(folder / f"{name}.h5") for name in NAMES[:3]])
    whole = np.concatenate(rows[:3])
    assert (source.shape, source.dtype) == ((9, 4), np.float32)
    for start, stop in [(0, 9), (2, 7), (3, 6), (8, 9), (4, 4), (5, 99)]:
        np.testing.assert_array_equal(source.read(start, stop), whole[start:stop])


@pytest.fixture
def spoiled(folder, table):
    """The folder with one file of every fault, and the reasons that are to be told."""
    (folder / "torn.h5").write_bytes((folder / "0012.h5").read_bytes()[:700])
    write(folder / "nan.h5", features=np.full((2, 4), np.nan))
    write(folder / "wide.h5", features=np.zeros((2, 5)))
    write(folder / "empty.h5", features=np.zeros((0, 4)))
    write(folder / "nothing.h5", images=np.zeros((2, 4)))
    write(folder / "places.h5", features=np.zeros((2, 4)), coords=np.zeros((3, 2)))
    write(folder / "lost_place.h5", features=np.zeros((2, 4)), coords=np.array([[0, np.nan], [0, 0]]))
    with h5py.File(folder / "rotten.h5", "w") as file:
        file.create_dataset("features", data=np.random.default_rng(0).random((50, 4)), compression="gzip")
        start = file["features"].id.get_chunk_info(0).byte_offset
    spoilt = bytearray((folder / "rotten.h5").read_bytes())
    spoilt[start : start + 40] = bytes(40)
    (folder / "rotten.h5").write_bytes(spoilt)
    write(folder / "extra.h5", features=np.zeros((2, 4)))
    with h5py.File(folder / "link.h5", "w") as file:
        file["features"] = h5py.ExternalLink("0012.h5", "/features")
    names = ["torn", "nan", "wide", "empty", "nothing", "places", "link", "lost", "lost_place", "rotten"]
    more = pd.DataFrame({"slide_id": names, "patient": "C", "tumour": 1, "site": "N"})
    reasons = {
        "torn.h5": "cannot be read as an h5 file",
        "nan.h5": "tile 0 holds NaN or infinity",
        "wide.h5": "has 5 features, most files have 4",
        "empty.h5": "there are no tiles in it",
        "nothing.h5": "holds no features",
        "places.h5": "two numbers for each of 2 tiles",
        "link.h5": "is a link",
        "extra.h5": "no row for this file",
        "lost": "there is no such file",
        "lost_place.h5": "a position is NaN or infinity",
        "rotten.h5": "cannot be read as an h5 file",
    }
    return pd.concat([table, more], ignore_index=True), reasons


def test_all_files_that_cannot_be_used_are_named_at_once(folder, spoiled):
    table, reasons = spoiled
    with pytest.raises(BagDataError) as caught:
        Bags.from_folder(folder, table, label="tumour")
    message = str(caught.value)
    assert "11 files or rows of the table cannot be used" in message
    told = dict(part.strip().split(" (", 1) for part in message.split("cannot be used: ")[1].split("; '"))
    told = {name.strip("'"): why for name, why in told.items()}
    assert set(told) == set(reasons)
    assert all(reasons[name] in why for name, why in told.items())


def test_skip_bad_leaves_them_out_with_a_warning_that_names_them(folder, spoiled):
    table, reasons = spoiled
    with pytest.warns(BagDataWarning, match="left out 11") as caught:
        bags, y = Bags.from_folder(folder, table, label="tumour", skip_bad=True)
    assert bags.ids == tuple(NAMES)
    assert y.tolist() == [1, 0, 1, 0]
    assert all(f"'{name}'" in str(caught[0].message) for name in reasons)


def test_a_file_that_the_table_names_twice_is_refused(folder, table):
    with pytest.raises(BagDataError, match="names file '0012' more than once"):
        Bags.from_folder(folder, pd.concat([table, table.iloc[:1]]), label="tumour")


def test_labels_that_differ_between_slides_of_a_patient_are_refused(folder, table):
    table.loc[0, "tumour"] = 0
    with pytest.raises(BagDataError, match="label of bag 'A' varies"):
        Bags.from_folder(folder, table, bag="patient", part="slide_id", label="tumour")


def test_positions_in_two_units_are_refused(folder, table):
    with h5py.File(folder / "0012.h5", "a") as file:
        file.attrs["unit"] = "um"
    with pytest.raises(BagDataError, match="in pixels and others in micrometres"):
        Bags.from_folder(folder, table)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(BagDataError, match="there are no files that end in"):
        Bags.from_folder(tmp_path)


def test_folders_that_do_not_fit_into_memory_stay_in_their_files(folder, table):
    """Patients whose slides lie apart in the table, with everything that bags carry."""
    table = pd.concat([table[::-1], table[:0]])
    named = {"bag": "patient", "part": "slide_id", "label": "tumour", "group": "site", "meta": "tumour"}
    whole, y = Bags.from_folder(folder, table, **named)
    with within(memory=100):
        bags, labels = Bags.from_folder(folder, table, **named)
    assert bags.stays_in_file
    assert not whole.stays_in_file
    for mine, theirs in ((bags, whole), (bags[1], whole[1]), (bags.by_part()[[3, 0]], whole.by_part()[[3, 0]])):
        np.testing.assert_array_equal(np.asarray(mine.X), theirs.X)
        np.testing.assert_array_equal(mine.rows, theirs.rows)
        assert (mine.ids, mine.group) == (theirs.ids, theirs.group)
        pd.testing.assert_frame_equal(mine.meta, theirs.meta)
    assert labels.tolist() == y.tolist()


def test_a_file_of_a_folder_that_changes_meanwhile_is_refused(folder, rows):
    with within(memory=100):
        bags = Bags.from_folder(folder)
    write(folder / "0012.h5", features=np.concatenate(rows), coords=np.tile(PLACES, (4, 1)))
    with pytest.raises(BagDataError, match=r"0012.h5: the file has changed since it was opened"):
        bags.in_memory()
