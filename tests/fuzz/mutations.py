"""Spoilt files: bytes that were flipped, cut or mixed up, and contents that no writer of ours would write."""

import copy
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import safetensors.torch
import torch

from bagwise.persistence import checksum, read_model

Random = np.random.Generator


def spoil(random: Random, kind: str, path: Path, others: list[Path]) -> bytes:
    """A file like ``path``, spoilt; ``others`` are valid files to mix it up with."""
    known = CONTENTS[kind]
    change = pick(random, [*BYTES, *known, *known])
    return change(random, path, others)


def pick(random: Random, things: Any) -> Any:
    """One of some things, whatever they are."""
    return things[int(random.integers(len(things)))]


# ---------------------------------------------------------------- bytes


def flip(random: Random, path: Path, others: list[Path]) -> bytes:
    """Some bits."""
    data = bytearray(path.read_bytes())
    for place in random.integers(len(data), size=random.integers(1, 9)):
        data[place] ^= 1 << int(random.integers(8))
    return bytes(data)


def overwrite(random: Random, path: Path, others: list[Path]) -> bytes:
    """A stretch of bytes: all alike, or at random."""
    data = bytearray(path.read_bytes())
    start, size = int(random.integers(len(data))), int(random.integers(1, 64))
    data[start : start + size] = (
        random.bytes(size) if random.random() < 0.5 else bytes([pick(random, [0, 1, 127, 255])]) * size
    )
    return bytes(data)


def cut(random: Random, path: Path, others: list[Path]) -> bytes:
    """The end is missing, or the beginning."""
    data = path.read_bytes()
    place = int(random.integers(len(data) + 1))
    return data[:place] if random.random() < 0.8 else data[place:]


def extend(random: Random, path: Path, others: list[Path]) -> bytes:
    """Something more at the end, or in the middle."""
    data = path.read_bytes()
    place = pick(random, [len(data), int(random.integers(len(data)))])
    return data[:place] + random.bytes(int(random.integers(1, 200))) + data[place:]


def mix(random: Random, path: Path, others: list[Path]) -> bytes:
    """The beginning of one file and the end of another."""
    data, other = path.read_bytes(), pick(random, others).read_bytes()
    place = int(random.integers(1, min(len(data), len(other))))
    return other[:place] + data[place:]


def exchange(random: Random, path: Path, others: list[Path]) -> bytes:
    """Another file under this name."""
    return pick(random, others).read_bytes()


BYTES: list[Callable[..., bytes]] = [flip, flip, overwrite, cut, extend, mix, exchange]


# ---------------------------------------------------------------- tables

CELLS = [
    "", "nan", "inf", "-inf", "1e400", "1e308", "-1e308", "9" * 400, "0x1", "=1+1", "\x00", "\x1b[31m", '"', '"a', ",",
    ";", "\r", "\n", "\u202e", "é", "NA", "None", "true", "1,2", "1j", " ", "b0", "\ufeff", "x" * 5000, "[1]",
]  # fmt: skip


def spoil_cells(random: Random, path: Path, others: list[Path]) -> bytes:
    """Cells, columns and lines of a table, as text."""
    frame = _frame(path).astype(object)
    lines = [list(frame.columns), *frame.map(str).to_numpy().tolist()]
    for _ in range(int(random.integers(1, 6))):
        row = int(random.integers(len(lines))) if random.random() < 0.7 else 0
        what = random.random()
        if what < 0.6 and lines[row]:
            lines[row][int(random.integers(len(lines[row])))] = pick(random, CELLS)
        elif what < 0.7:
            lines[row].append(pick(random, CELLS))
        elif what < 0.8 and lines[row]:
            lines[row].pop()
        elif what < 0.9:
            lines.append(list(lines[row]))
        elif len(lines) > 1:
            lines.pop(row)
    mark = pick(random, [",", ",", ",", ",", ";", "\t", ",,"])
    text = "\n".join(mark.join(line) for line in lines).encode(pick(random, ["utf-8", "utf-8", "utf-16", "utf-8-sig"]))
    return gzip.compress(text) if path.name.endswith(".gz") else text if path.suffix == ".csv" else _typed(random, path)


def spoil_columns(random: Random, path: Path, others: list[Path]) -> bytes:
    """Columns of other types."""
    return _typed(random, path)


ODD_COLUMNS: list[Callable[[int], Any]] = [
    lambda n: [None] * n,
    lambda n: [[1, 2]] * n,
    lambda n: [{"a": 1}] * n,
    lambda n: [b"\xff"] * n,
    lambda n: [np.nan] * n,
    lambda n: [np.inf] * n,
    lambda n: [1e308] * n,
    lambda n: [2**62] * n,
    lambda n: ["x" * 1000] * n,
    lambda n: ["\x1b[31m"] * n,
    lambda n: [""] * n,
    lambda n: [True] * n,
    lambda n: pyarrow.array([0] * n, pyarrow.timestamp("ns")),
    lambda n: pyarrow.array(["a"] * n).dictionary_encode(),
    lambda n: pyarrow.array([1] * n, pyarrow.decimal128(30, 2)),
    lambda n: pyarrow.array([1] * n, pyarrow.uint64()),
    lambda n: pyarrow.array([1.0] * n, pyarrow.float16()),
    pyarrow.nulls,
]


def _typed(random: Random, path: Path) -> bytes:
    frame = _frame(path)
    table = pyarrow.Table.from_pandas(frame).replace_schema_metadata(None)
    n_rows = pick(random, [0, len(frame), len(frame), len(frame)])
    table = table.slice(0, n_rows)
    for _ in range(int(random.integers(1, 3))):
        place, column = int(random.integers(table.num_columns)), pick(random, ODD_COLUMNS)(n_rows)
        what, name = random.random(), table.column_names[place]
        if what < 0.6:
            table = table.set_column(place, name, pyarrow.array(column) if isinstance(column, list) else column)
        elif what < 0.8:
            table = table.append_column(pick(random, [name, "", "\x1b", "z" * 3000]), table.column(place))
        elif table.num_columns > 1:
            table = table.remove_column(place)
    sink = io.BytesIO()
    if path.suffix == ".arrow":
        pyarrow.feather.write_feather(table, sink, compression=pick(random, ["lz4", "zstd", "uncompressed"]))
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, sink, compression=pick(random, ["snappy", "zstd", "gzip", "none"]))
    else:
        text = table.to_pandas().to_csv(index=False).encode(errors="replace")
        sink.write(gzip.compress(text) if path.name.endswith(".gz") else text)
    return sink.getvalue()


def _frame(path: Path) -> pd.DataFrame:
    if path.suffix in (".parquet", ".arrow"):
        return pd.read_parquet(path) if path.suffix == ".parquet" else pyarrow.feather.read_feather(path)
    return pd.read_csv(path)


# ---------------------------------------------------------------- archives

NUMBERS = [0, 1, -1, 0.5, np.nan, np.inf, -np.inf, 1e308, 1e-308, 2**31, 2**62, -(2**62), 255]
TYPES = ["f4", "f8", "f2", "g", "c16", "i1", "u8", "?", "U3", "S3", "M8[s]", "m8[s]", ">f8", ">U2", "V4", "U0"]
SHAPES = [(0,), (10**12,), (2**31, 2**31), (-1,), (1, 2, 3), (), (3, 2**28), (10**6, 10**6)]


def spoil_arrays(random: Random, path: Path, others: list[Path]) -> bytes:
    """Arrays of an archive: values, types, shapes; some missing, some more."""
    arrays = _arrays(path)
    for _ in range(int(random.integers(1, 4))):
        name = pick(random, sorted(arrays))
        what = random.random()
        with np.errstate(all="ignore"):
            if what < 0.3:
                arrays[name] = _with_odd_value(random, arrays[name])
            elif what < 0.5:
                arrays[name] = _retyped(random, arrays[name])
            elif what < 0.7:
                arrays[name] = _reshaped(random, arrays[name])
            elif what < 0.8 and len(arrays) > 1:
                del arrays[name]
            elif what < 0.9:
                arrays[
                    pick(random, ["X", "data", "y", "candidates", "known", "columns", "bag", "shape", "../evil"])
                ] = arrays[name]
            else:
                arrays["shape"] = np.array(
                    pick(random, [[3, 2**28], [2**40, 2], [-1, 2], [2], [1e300, 2], [10, 2**62]])
                )
    sink = io.BytesIO()
    np.savez(sink, **arrays)
    return sink.getvalue()


def spoil_zip(random: Random, path: Path, others: list[Path]) -> bytes:
    """Members of a zip file: twice, empty, with a header that promises other things, in folders, encrypted."""
    sink, members = io.BytesIO(), []
    with zipfile.ZipFile(path) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    chosen = int(random.integers(len(members)))
    name, data = members[chosen]
    members[chosen] = (
        name,
        pick(random, [_promising(random, data), b"", data[:20], data + data, random.bytes(50), data]),
    )
    if random.random() < 0.3:
        members.append((pick(random, [name, f"a/{name}", name.upper(), name.removesuffix(".npy"), "../x.npy"]), data))
    with zipfile.ZipFile(
        sink, "w", pick(random, [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
    ) as archive:
        for name, data in members:
            if name not in archive.namelist() or random.random() < 0.5:
                archive.writestr(name, data)
    whole = bytearray(sink.getvalue())
    if random.random() < 0.4:  # the directory lies: sizes, methods, flags, places
        entry = whole.rfind(b"PK\x01\x02")
        place = entry + pick(random, [8, 10, 16, 20, 24, 28, 30, 42])
        whole[place : place + 2] = random.bytes(2)
    return bytes(whole)


def _promising(random: Random, data: bytes) -> bytes:
    kind, shape = pick(random, ["<f8", "|O", "<U9", "|V16", "<i4", "<U999999999", ">c16"]), pick(random, SHAPES)
    header = f"{{'descr': '{kind}', 'fortran_order': {pick(random, [True, False])}, 'shape': {shape}, }}".encode()
    version = pick(random, [1, 1, 2, 3, 9])
    size = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + data[-40:]


def _arrays(path: Path) -> dict[str, Any]:
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def _with_odd_value(random: Random, array: Any) -> Any:
    changed = np.array(array, copy=True)
    if changed.size == 0 or changed.dtype.kind not in "if":
        return np.array(pick(random, NUMBERS))
    value = pick(random, NUMBERS)
    if changed.dtype.kind != "f":
        changed = changed.astype(np.int64 if abs(value) < 2**63 and value == int(value) else np.float64)
    changed.reshape(-1)[int(random.integers(changed.size))] = value
    return changed


def _retyped(random: Random, array: Any) -> Any:
    try:
        return np.asarray(array).astype(pick(random, TYPES))
    except (TypeError, ValueError):
        return np.zeros(np.shape(array), dtype=pick(random, TYPES))


def _reshaped(random: Random, array: Any) -> Any:
    array = np.atleast_1d(array)
    return pick(
        random,
        [
            array[:0],
            array[:1],
            array.T,
            array[None],
            array[..., None],
            array.reshape(-1),
            np.tile(array, 2),
            array[::-1],
        ],
    )


# ---------------------------------------------------------------- model files

TENSOR_TYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool,
]  # fmt: skip
ODD_VALUES = [
    None, True, False, -1, 0, 1, 2**31, 2**70, 0.5, 1e308, -1e308, "", "text", "\ud800", "\x1b[31m", [], [None],
    ["a", 1], {}, {"a": [1]}, [[[0]]], [1, 2, 3], {"kernel": {}}, {"tensor": "posterior.mean"}, {"float": "nan"},
    {"feature_map": {}},
]  # fmt: skip


def spoil_description(random: Random, path: Path, others: list[Path]) -> bytes:
    """Values somewhere in the description of a model, with a checksum that fits."""
    description, tensors = read_model(path)
    description = copy.deepcopy(description)
    for _ in range(int(random.integers(1, 4))):
        *above, key = pick(random, list(_places(description)))
        inner = description
        for step in above:
            inner = inner[step]
        if random.random() < 0.2 and isinstance(inner, dict):
            del inner[key]
        elif random.random() < 0.2 and isinstance(inner, dict):
            inner[pick(random, ["batch_shape", "power", "nu", "parts", "x", "\x1b"])] = copy.deepcopy(
                pick(random, ODD_VALUES)
            )
        else:
            inner[key] = copy.deepcopy(pick(random, ODD_VALUES))
    return _model_bytes(description, tensors)


def spoil_tensors(random: Random, path: Path, others: list[Path]) -> bytes:
    """Numbers, types and shapes of the tensors of a model, with a checksum that fits."""
    description, tensors = read_model(path)
    for _ in range(int(random.integers(1, 3))):
        name = pick(random, sorted(tensors))
        tensors[name] = _spoilt_tensor(random, tensors[name])
        if random.random() < 0.1:
            del tensors[name]
        elif random.random() < 0.1:
            tensors[pick(random, ["more", f"{name}.x", "parameter.kernel.x"])] = torch.zeros(3)
    return _model_bytes(description, tensors)


def _spoilt_tensor(random: Random, value: Any) -> Any:
    value, what = value.clone(), random.random()
    if what < 0.5 and value.numel():
        odd = pick(random, [x for x in NUMBERS if np.isfinite(x) or value.is_floating_point()])
        try:
            value.reshape(-1)[int(random.integers(value.numel()))] = odd
        except (RuntimeError, OverflowError):
            value = value.double() * 1e300
    elif what < 0.6:
        value = value * pick(random, [0, -1, 1e10, 1e-10, 1e200])
    elif what < 0.75:
        value = value.to(pick(random, TENSOR_TYPES))
    elif value.ndim:
        shapes = [value[:0], value[:1], value.reshape(-1), value[None], torch.cat([value, value])]
        value = pick(random, shapes if value.ndim == 1 else [*shapes, value.mT])
    return value.contiguous()


def spoil_header(random: Random, path: Path, others: list[Path]) -> bytes:
    """The header of the safetensors file itself: its length, shapes, types and places."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    if random.random() < 0.3:
        return (
            int(pick(random, [0, 1, size - 1, size + 1, 2**32, 2**63, len(data), 10**8])).to_bytes(8, "little")
            + data[8:]
        )
    header = json.loads(data[8 : 8 + size])
    name = pick(random, sorted(header))
    if name == "__metadata__":
        key = pick(random, sorted(header[name]))
        header[name][key] = pick(
            random, ["", "{}", "[" * 5000, "null", '{"schema": 2}', '{"schema": 1}', header[name][key][:-5]]
        )
    else:
        key = pick(random, ["dtype", "shape", "data_offsets"])
        header[name][key] = pick(random, ["F32", "I64", "X", [0], [2**62, 4], [-1], [10**6, 10**6], None, [0, 8]])
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def _model_bytes(description: dict[str, Any], tensors: dict[str, Any]) -> bytes:
    text = json.dumps(description)
    plain = {name: value.contiguous().clone() for name, value in tensors.items()}
    return bytes(safetensors.torch.save(plain, metadata={"bagwise": text, "sha256": checksum(text, plain)}))


def _places(tree: Any, at: tuple[Any, ...] = ()) -> Any:
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, part in parts:
        yield (*at, key)
        yield from _places(part, (*at, key))


CONTENTS: dict[str, list[Callable[..., bytes]]] = {
    "table": [spoil_cells, spoil_cells, spoil_columns],
    "archive": [spoil_arrays, spoil_arrays, spoil_zip],
    "bags": [spoil_arrays, spoil_arrays, spoil_zip],
    "model": [spoil_description, spoil_description, spoil_tensors, spoil_tensors, spoil_header],
}
