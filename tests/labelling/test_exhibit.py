"""What is shown of a bag."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imsave
from tests.labelling.desk import fitted, problem

from bagwise import Bags
from bagwise.datasets import load_digit_bags
from bagwise.exceptions import BagDataError
from bagwise.labelling.exhibit import ROWS_SHOWN, make_exhibit
from bagwise.labelling.pool import make_pool
from bagwise.labelling.question import TWO, Question

YES_NO = Question(TWO, ("no", "yes"))


def test_rows_are_shown_as_the_table_has_them_and_labels_are_not():
    bags, known, _, frame = problem()
    pool = make_pool(fitted(), bags, known, "bags", YES_NO)
    frame = frame.assign(secret=1)
    exhibit = make_exhibit(pool, frame, bag="bag", hidden=["secret"], text="note")
    item = exhibit.item(3)
    assert item["columns"] == ["u", "v"]
    lines = frame.index[frame["bag"] == bags.ids[3]]
    assert [row["row"] for row in item["rows"]] == lines.tolist()
    assert [row["text"] for row in item["rows"]] == frame.loc[lines, "note"].tolist()
    assert item["rows"][0]["cells"] == [f"{frame.loc[lines[0], name]:.6g}" for name in ("u", "v")]
    assert all(row["picture"] is None for row in item["rows"])


def test_large_bag_is_shown_in_parts():
    bags = Bags(np.zeros((150, 2)), ["a"] * 150)
    pool = make_pool(fitted(), bags, None, "bags", YES_NO)
    exhibit = make_exhibit(pool, None)
    assert len(exhibit.item(0)["rows"]) == ROWS_SHOWN
    last = exhibit.item(0, 120)
    assert len(last["rows"]) == 30
    assert last["total"] == 150


def test_features_that_are_pixels_are_shown_as_pictures():
    bags, _, _ = load_digit_bags(9, 4, (2, 3), (1, 1), random_state=0)
    pool = make_pool(None, bags, None, "instances", YES_NO)
    row = make_exhibit(pool, None, image_shape=(8, 8)).item(0)["rows"][0]
    assert row["picture"].startswith("data:image/png;base64,")
    assert row["cells"] == []


def test_only_pictures_that_the_table_names_are_read(tmp_path):
    imsave(tmp_path / "one.png", np.zeros((4, 4)), cmap="gray")
    (tmp_path / "two.png").write_bytes(b"<svg onload=alert(1)>")
    (tmp_path / "three.svg").write_text("<svg/>")
    frame = pd.DataFrame({"u": range(5), "bag": ["a"] * 5})
    frame["file"] = ["one.png", "two.png", "three.svg", "four.png", None]
    pool = make_pool(fitted(), Bags.from_frame(frame, "bag", features=["u"]), None, "bags", YES_NO)
    exhibit = make_exhibit(pool, frame, bag="bag", image="file", folder=tmp_path)
    assert [row["picture"] for row in exhibit.item(0)["rows"]] == [*(f"picture/{line}" for line in range(4)), None]
    content, kind = exhibit.picture(0)
    assert kind == "image/png"
    assert content == (tmp_path / "one.png").read_bytes()
    for line in (1, 2, 3, 4, 5, -1):
        with pytest.raises(BagDataError, match=f"row {line}: "):
            exhibit.picture(line)


def test_archive_has_no_columns_to_name():
    bags, known, _, _ = problem()
    pool = make_pool(fitted(), bags, known, "bags", YES_NO)
    with pytest.raises(BagDataError, match=r"the data are an \.npz archive"):
        make_exhibit(pool, None, text="note")
