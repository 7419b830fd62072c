"""Folders of h5 files in every spelling, and what is said of files that cannot be used."""

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.io.slide_folder import NAMES, PLACES, write

from bagwise import BagDataError, BagDataWarning, Bags, MILGPProbit
from bagwise.io import bag_table, instance_table
from bagwise.scale import within


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
