import h5py
import numpy as np
import pandas as pd

from bagwise import Bags
from bagwise.datasets import write_digit_slides


def test_slides_have_tumours_where_the_table_says_and_repeat_with_their_seed(tmp_path):
    table = write_digit_slides(tmp_path / "one", 4, 3, grid=(5, 4), random_state=1)
    again = write_digit_slides(tmp_path / "two", 4, 3, grid=(5, 4), random_state=1)
    pd.testing.assert_frame_equal(table, again)
    for row in table.itertuples():
        with h5py.File(tmp_path / "one" / f"{row.slide_id}.h5") as file:
            truth, features = file["truth"][()], file["features"][()]
        assert truth.any() == row.slide_tumour
        with h5py.File(tmp_path / "two" / f"{row.slide_id}.h5") as file:
            np.testing.assert_array_equal(file["features"][()], features)
    of_patients = table.groupby("patient")[["tumour", "slide_tumour"]].max()
    assert (of_patients["tumour"] == of_patients["slide_tumour"]).all()


def test_the_south_is_paler_and_its_table_is_read_back(tmp_path):
    write_digit_slides(tmp_path / "north", 2, 1)
    write_digit_slides(tmp_path / "south", 2, 1, hospital="south")
    north, south = (
        Bags.from_folder(tmp_path / name, tmp_path / name / "slides.csv", label="tumour")[0]
        for name in ("north", "south")
    )
    assert north.ids[0] == "N00-0"
    assert south.X.std() < 0.85 * north.X.std()
