"""The header of a table, read before anything heavy is imported."""

import gzip

import pytest

from bagwise.exceptions import BagDataError
from bagwise.io.headers import csv_header, refuse_mistyped


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b\n1,2\n", ["a", "b"]),
        ("\ufeffa,b\r\n", ["a", "b"]),
        ('"a,x",b\n', ["a,x", "b"]),
        ('"a\nx",b\n', None),
        ("a;b\n", None),
        ("", None),
        ("a,b", None),
    ],
)
def test_a_header_is_read_only_where_it_is_plain(tmp_path, text, names):
    (tmp_path / "d.csv").write_text(text, encoding="utf-8", newline="")
    assert csv_header(tmp_path / "d.csv") == names


def test_a_header_that_is_no_text_is_left_to_the_reader(tmp_path):
    (tmp_path / "d.csv").write_bytes(b"\xff\xfe,b\n")
    (tmp_path / "d.csv.gz").write_bytes(b"no gzip")
    (tmp_path / "spoilt.csv.gz").write_bytes(gzip.compress(b"")[:10] + b"\xff" * 20)
    for name in ("d.csv", "d.csv.gz", "spoilt.csv.gz"):
        assert csv_header(tmp_path / name) is None
        refuse_mistyped(tmp_path / name, ["nothing"])


def test_all_missing_columns_are_named_at_once(tmp_path):
    (tmp_path / "d.csv").write_text("a,b\n")
    with pytest.raises(BagDataError, match="there is no column 'x', 'y'; the table has 'a', 'b'"):
        refuse_mistyped(tmp_path / "d.csv", ["a", "x", None, "y"])
