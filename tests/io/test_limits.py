"""What compressed files may ask for: only what is asked of them is read, and no more than the limit."""

import gzip
import os
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
import scipy.sparse

from bagwise import Bags, MILGPProbit
from bagwise._archives import LIMIT_VARIABLE, read_limit
from bagwise.exceptions import BagDataError
from bagwise.io import read_npz, read_table, table_sizes, write_npz, write_table

MEGABYTE = 10**6


@pytest.fixture
def one_megabyte(monkeypatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "0.001")


def add_member(path, name, header, content=b""):
    """An array as raw bytes, whatever its header says of it."""
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        length = (len(header) + 1).to_bytes(2, "little")
        archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + length + header.encode() + b"\n" + content)


def header_of(shape, kind="<f8"):
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"


# ---------------------------------------------------------------- archives


def test_arrays_nobody_asks_for_are_never_read(tmp_path):
    bags = Bags(np.ones((3, 2)), ["a", "a", "b"])
    for path, write in (("x.npz", write_npz), ("b.npz", lambda path, bags: bags.save(path))):
        write(tmp_path / path, bags)
        add_member(tmp_path / path, "extra", header_of((10**9,)), b"not that many numbers")
        with zipfile.ZipFile(tmp_path / path, "a") as archive:
            archive.writestr("readme.txt", "hello")
    assert read_npz(tmp_path / "x.npz")[0].ids == ("a", "b")
    assert Bags.load(tmp_path / "b.npz").ids == ("a", "b")


MEASURE = """
import resource, sys
from bagwise.io import read_npz
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
read_npz(sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_large_array_nobody_asks_for_costs_no_memory(tmp_path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, X=np.ones((2, 1)), bag=[0, 1], extra=np.zeros(40 * MEGABYTE))
    assert path.stat().st_size < MEGABYTE
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, check=True, timeout=60)
    assert int(done.stdout) < 50_000  # kilobytes, of 320,000


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.zeros((500, 300))}, r"array 'X' of shape \(500, 300\).* needs 0.0012 GB of memory"),
        ({"X": np.zeros((500, 300), dtype=np.uint8)}, r"array 'X' of shape \(500, 300\).* needs"),
        ({"X": np.zeros((500, 1)), "y": np.zeros((500, 300))}, r"array 'y' of shape \(500, 300\), with what was read"),
        (
            {"X": np.zeros((500, 150)), "y": np.zeros((500, 150))},
            r"array 'y' of shape \(500, 150\), with what was read",
        ),
        ({"X": np.zeros((500, 1)), "bag": np.full(500, "a" * 600)}, r"array 'bag' of shape \(500,\) needs"),
    ],
)
def test_array_beyond_the_limit_is_refused_by_name_and_size(tmp_path, one_megabyte, arrays, message):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, **{"bag": np.arange(500)} | arrays)
    remedy = rf"the limit of 0.001 GB for a compressed file. .* set a higher limit, e.g. {LIMIT_VARIABLE}=1\."
    with pytest.raises(BagDataError, match=rf"x.npz: {message}.*{remedy}"):
        read_npz(path)


def test_bags_beyond_the_limit_are_refused(tmp_path, one_megabyte):
    Bags(np.zeros((500, 300)), np.arange(500)).save(tmp_path / "b.npz")
    with pytest.raises(BagDataError, match=r"array 'X' of shape \(500, 300\).* needs"):
        Bags.load(tmp_path / "b.npz")


def test_limit_is_set_by_the_environment(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", X=np.zeros((500, 300)), bag=np.arange(500))
    for text in ("0.01", "inf"):
        monkeypatch.setenv(LIMIT_VARIABLE, text)
        assert read_npz(tmp_path / "x.npz")[0].n_features == 300
    monkeypatch.delenv(LIMIT_VARIABLE)
    assert read_limit() == 4e9
    for text in ("much", "-1", "nan", ""):
        monkeypatch.setenv(LIMIT_VARIABLE, text)
        with pytest.raises(BagDataError, match=rf"{LIMIT_VARIABLE}='{text}': expected a positive number of gigabytes"):
            read_limit()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (header_of((10**12,)), "fewer numbers than its shape"),
        (header_of((-1,)), "not plain numbers|cut short"),
        (header_of((1,), "|O"), "not plain numbers or text"),
        (header_of((1,), "V8"), "not plain numbers or text"),
        ("[" * 9000, ""),
        (header_of((1,)) + " " * 20_000, "its header is too long"),
    ],
    ids=["huge", "negative", "objects", "void", "nested", "long"],
)
def test_header_that_promises_what_is_not_there_is_refused(tmp_path, header, message):
    np.savez(tmp_path / "x.npz", bag=[0])
    add_member(tmp_path / "x.npz", "X", header, b"12345678")
    with pytest.raises(
        BagDataError, match=rf"cannot be read as an .npz archive of plain arrays \(array 'X': .*{message}"
    ):
        read_npz(tmp_path / "x.npz")


def test_text_of_letters_that_there_are_not_is_refused(tmp_path):
    for code in (0x7FFFFFFF, 0xD800):
        names = np.array([code, ord("b")], dtype=np.uint32).view("<U1")
        np.savez(tmp_path / "x.npz", X=np.ones((2, 1)), bag=names)
        with pytest.raises(BagDataError, match="array 'bag': it holds text with letters that there are not"):
            read_npz(tmp_path / "x.npz")


# ---------------------------------------------------------------- sparse matrices


def sparse_archive(path, shape):
    np.savez(path, data=[1.0], indices=[0], indptr=[0, *[1] * shape[0]], shape=shape, bag=np.arange(shape[0]))
    return path


def test_enormous_width_of_a_sparse_table_is_refused(tmp_path):
    with pytest.raises(BagDataError, match=r"268,435,456 columns; there may be 16,777,216"):
        read_npz(sparse_archive(tmp_path / "x.npz", (3, 2**28)))


def test_sparse_rows_that_do_not_fit_as_dense_ones_are_refused():
    X = scipy.sparse.csr_matrix((np.ones(300), (np.arange(300), np.arange(300))), shape=(300, 10**6))
    with pytest.raises(BagDataError, match=r"300 rows of 1,000,000 columns, which need 2.4 GB .* smaller n_inducing"):
        MILGPProbit(n_inducing=200).fit(Bags(X, np.arange(300)), np.arange(300) % 2)


# ---------------------------------------------------------------- tables


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


def test_the_command_line_tells_the_limit(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", X=np.zeros((500, 300)), bag=np.arange(500), y=np.arange(500) % 2)
    command = [sys.executable, "-m", "bagwise", "fit", tmp_path / "x.npz", "-o", tmp_path / "m"]
    done = subprocess.run(
        command, env=os.environ | {LIMIT_VARIABLE: "0.001"}, capture_output=True, check=False, text=True
    )
    assert done.returncode == 2
    assert f"set a higher limit, e.g. {LIMIT_VARIABLE}=1" in done.stderr


# ---------------------------------------------------------------- contents that a reader in C would follow anywhere


SOUND = {"data": np.ones(2), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2]), "shape": np.array([2, 2])}


@pytest.mark.parametrize(
    "change",
    [
        {"indptr": np.array([0.0, 1.0, np.inf])},
        {"indptr": np.array([0, 2, 1])},
        {"indptr": np.array([0, 1, 2**62])},
        {"indptr": np.array([1, 1, 2])},
        {"indptr": np.array([], dtype=int), "shape": np.array([-1, 2])},
        {"indices": np.array([0, 2])},
        {"indices": np.array([0, -1])},
        {"indices": np.array([[0, 1]])},
        {"data": np.ones(3)},
        {"data": np.array([1j, 1])},
        {"shape": np.array([2])},
        {"shape": np.array([2, 2**63], dtype=np.uint64)},
        {"shape": np.array([2.0, 2.0])},
    ],
    ids=lambda change: str(next(iter(change.items()))),
)
def test_parts_of_a_sparse_matrix_that_do_not_fit_are_refused(tmp_path, change):
    np.savez(tmp_path / "x.npz", bag=[0, 1], **SOUND | change)
    with pytest.raises(BagDataError, match="do not form a sparse matrix"):
        read_npz(tmp_path / "x.npz")
    Bags(scipy.sparse.csr_matrix(np.eye(2)), ["a", "b"]).save(tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as archive:
        stored = {name: archive[name] for name in archive.files}
    np.savez(tmp_path / "b.npz", **stored | change)
    with pytest.raises(BagDataError, match="the file of bags is damaged"):
        Bags.load(tmp_path / "b.npz")


def test_arrow_text_that_points_outside_of_its_file_is_refused(tmp_path):
    table = pyarrow.table({"bag": ["x" * 777, "y" * 100], "x": [1.0, 2.0]})
    with pyarrow.ipc.new_file(tmp_path / "x.arrow", table.schema) as writer:
        writer.write_table(table)
    ends, beyond = (np.array([777, end], dtype=np.int32).tobytes() for end in (877, 10**6))
    whole = (tmp_path / "x.arrow").read_bytes()
    assert whole.count(ends) == 1
    (tmp_path / "x.arrow").write_bytes(whole.replace(ends, beyond))
    with pytest.raises(BagDataError, match=r"x.arrow: cannot be read as a .arrow table"):
        read_table(tmp_path / "x.arrow", "bag")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_column_that_a_typed_table_has_twice_is_refused(tmp_path, suffix):
    table = pyarrow.table([["a"], ["b"], [1.0]], names=["bag", "bag", "x"])
    write = pyarrow.parquet.write_table if suffix == ".parquet" else pyarrow.feather.write_feather
    write(table, tmp_path / f"x{suffix}")
    with pytest.raises(BagDataError, match="column 'bag' occurs twice"):
        read_table(tmp_path / f"x{suffix}", "bag")


def test_archives_of_other_machines_and_types_are_read(tmp_path):
    """Big-endian numbers and text, unsigned keys, names of features that are no list."""
    arrays = {"X": np.ones((2, 1), dtype=">f4"), "bag": np.array([1, 0], dtype=np.uint64), "columns": np.array("x")}
    np.savez(tmp_path / "x.npz", **arrays, bag_name=np.array(["p", "q"], dtype=">U1"), y=np.array([0, 1], dtype=">i4"))
    bags, y, _ = read_npz(tmp_path / "x.npz")
    assert (bags.ids, bags.feature_names) == (("q", "p"), None)
    np.testing.assert_array_equal(y, [1, 0])
