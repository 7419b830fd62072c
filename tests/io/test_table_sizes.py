"""How large a table becomes, before it is read."""

import gzip

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
from tests.io.files import MEGABYTE, new_one_megabyte

from bagwise._archives import LIMIT_VARIABLE
from bagwise.exceptions import BagDataError
from bagwise.io import read_table, table_sizes, write_table


@pytest.fixture
def one_megabyte(monkeypatch):
    return new_one_megabyte(monkeypatch)


def big_table(n_rows=60_000):
    return pd.DataFrame({"bag": ["a"] * n_rows, "x": np.zeros(n_rows), "y": np.zeros(n_rows)})


@pytest.mark.parametrize("suffix", [".csv.gz", ".parquet", ".arrow", ".feather"])
def test_compressed_table_beyond_the_limit_is_refused(tmp_path, one_megabyte, suffix):
    path = tmp_path / f"x{suffix}"
    write_table(big_table(), path)
    assert path.stat().st_size < MEGABYTE
    with pytest.raises(BagDataError, match=rf"x{suffix}: .* needs .* GB of memory, .*{LIMIT_VARIABLE}=1\."):
        read_table(path)
    write_table(big_table(2000), path)
    assert len(read_table(path)) == 2000


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("is_file", [True, False])
def test_arrow_sizes_are_those_of_the_table(tmp_path, monkeypatch, compression, is_file):
    table = pyarrow.Table.from_pandas(big_table(5000))
    options = pyarrow.ipc.IpcWriteOptions(compression=compression)
    make = pyarrow.ipc.new_file if is_file else pyarrow.ipc.new_stream
    with make(tmp_path / "x.arrow", table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=1000)
    monkeypatch.setenv(LIMIT_VARIABLE, str(0.9 * table.nbytes / 1e9))
    with pytest.raises(BagDataError, match="the table needs"):
        read_table(tmp_path / "x.arrow")
    monkeypatch.setenv(LIMIT_VARIABLE, str(1.2 * table.nbytes / 1e9))
    pd.testing.assert_frame_equal(read_table(tmp_path / "x.arrow"), big_table(5000), check_dtype=False)


def test_plain_csv_is_not_limited(tmp_path, one_megabyte):
    write_table(big_table(200_000), tmp_path / "x.csv")
    assert len(read_table(tmp_path / "x.csv")) == 200_000


def test_one_long_text_repeated_in_parquet_stays_one(tmp_path, one_megabyte):
    """A dictionary of one text and many references to it: 120 MB if every row had its own."""
    frame = pd.DataFrame({"note": ["x" * 20_000] * 6000, "other": ["a", None] * 3000})
    frame.to_parquet(tmp_path / "x.parquet")
    back = read_table(tmp_path / "x.parquet")
    assert len({id(text) for text in back["note"]}) == 1
    assert back["other"].isna().sum() == 3000
    assert list(back["other"][:1]) == ["a"]


def test_long_line_without_end_is_bounded(tmp_path, one_megabyte):
    with gzip.open(tmp_path / "x.csv.gz", "wb") as stream:
        stream.write(b"a" * 50 * MEGABYTE)
    with pytest.raises(BagDataError, match="unpacked so far needs"):
        read_table(tmp_path / "x.csv.gz")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".arrow"])
def test_table_with_too_many_columns_is_refused(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(table_sizes, "MOST_COLUMNS", 1000)
    names, path = [f"c{number}" for number in range(1001)], tmp_path / f"x{suffix}"
    if suffix.startswith(".csv"):
        text = (",".join(names) + "\n" + ",".join("1" for _ in names) + "\n").encode()
        path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    else:
        table = pyarrow.table({name: [1.0] for name in names})
        write = pyarrow.parquet.write_table if suffix == ".parquet" else pyarrow.feather.write_feather
        write(table, path)
    with pytest.raises(BagDataError, match=r"may have 1,000 columns, this one has 1,001"):
        read_table(path)
