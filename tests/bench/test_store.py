"""The file of results: whole lines, undefined numbers, and what a kill leaves behind."""

import json
import math

import pytest
from tests.bench.tiny_table import tiny_table

from bagwise.bench.cells import cells_of
from bagwise.bench.store import Store
from bagwise.exceptions import BagDataError
from bagwise.io.plain_json import number_from_json

CELLS = cells_of(tiny_table())


def record(cell, **more):
    return {"key": cell.key, "fingerprint": cell.fingerprint, "error": None} | more


def test_what_is_added_is_found_again(tmp_path):
    store = Store(tmp_path / "x.jsonl")
    exact = 0.1 + 0.2  # nothing is rounded
    store.add(record(CELLS[0], metrics={"calm": {"auc": exact, "none": math.nan, "lost": -math.inf}}))
    again = Store(tmp_path / "x.jsonl")
    assert again.finished(CELLS[0])["metrics"]["calm"] == {"auc": exact, "none": None, "lost": "-inf"}
    assert [number_from_json(value) for value in (exact, "-inf")] == [exact, -math.inf]
    assert math.isnan(number_from_json(None))
    assert store.pending(CELLS) == again.pending(CELLS) == CELLS[1:]


@pytest.mark.parametrize("kept", [1, 20, 60])
def test_a_half_written_line_is_cut_off(tmp_path, kept):
    path = tmp_path / "x.jsonl"
    store = Store(path)
    store.add(record(CELLS[0]))
    whole = path.read_bytes()
    path.write_bytes(whole + json.dumps(record(CELLS[1])).encode()[:kept])
    again = Store(path)
    assert again.pending(CELLS) == CELLS[1:]
    again.add(record(CELLS[2]))
    assert len(path.read_text().splitlines()) == 2
    assert Store(path).finished(CELLS[2]) is not None


def test_a_file_that_never_got_a_whole_line_is_empty(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"key": "ti')
    assert Store(path).pending(CELLS) == CELLS


def test_a_damaged_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "x.jsonl"
    Store(path).add(record(CELLS[0]))
    path.write_text(path.read_text() + "rubbish\n" + path.read_text())
    with pytest.raises(BagDataError, match=r"x\.jsonl, line 2: not a result of a cell .*delete the line"):
        Store(path)


def test_failures_and_other_settings_are_pending(tmp_path):
    store = Store(tmp_path / "x.jsonl")
    store.add(record(CELLS[0], error="ValueError: no"))
    store.add(record(CELLS[1]) | {"fingerprint": "other"})
    store.add(record(CELLS[2]))
    assert store.pending(CELLS[:3]) == CELLS[:2]
