"""Archives within limits: no array is larger than allowed, none is read that nobody asks for."""

import subprocess
import sys
import zipfile

import numpy as np
import pytest
from tests.io.files import MEGABYTE, new_one_megabyte

from bagwise import Bags
from bagwise._archives import LIMIT_VARIABLE, read_limit
from bagwise.exceptions import BagDataError
from bagwise.io import read_npz, write_npz


@pytest.fixture
def one_megabyte(monkeypatch):
    return new_one_megabyte(monkeypatch)


def add_member(path, name, header, content=b""):
    """An array as raw bytes, whatever its header says of it."""
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        length = (len(header) + 1).to_bytes(2, "little")
        archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + length + header.encode() + b"\n" + content)


def header_of(shape, kind="<f8"):
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"


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
