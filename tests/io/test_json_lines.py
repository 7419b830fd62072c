"""Lines of JSON that appear whole or not at all."""

import pytest

from bagwise.exceptions import BagDataError
from bagwise.io.json_lines import append_line, cut_unfinished, read_lines


def test_half_a_line_is_cut_and_whole_lines_are_numbered_from_the_start(tmp_path):
    path = tmp_path / "lines.jsonl"
    append_line(path, {"a": 1})
    start = path.stat().st_size
    append_line(path, {"b": float("nan")})
    with path.open("a") as stream:
        stream.write('{"a"')
    assert list(read_lines(path, (), "a line")) == [{"a": 1}, {"b": None}]
    with pytest.raises(BagDataError, match="line 2: not a line"):
        list(read_lines(path, ("a",), "a line", start))
    cut_unfinished(path)
    assert path.read_text() == '{"a": 1}\n{"b": null}\n'
