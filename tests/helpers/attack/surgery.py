"""Ways to damage a file: its bytes, its zip container, its npy headers, its numbers and its JSON.

Every function takes the input's random numbers and what there is, and returns bytes; the checksum of what is put together
anew is made right again where the damage is to the numbers, so that it does not protect them.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from coreplan.base import files

from .rule import Input

NUMBERS = (
    np.nan,
    np.inf,
    -np.inf,
    1e308,
    -1e308,
    -1.0,
    0.0,
    1.0,
    2.0,
    1e-320,
    2.0**53,
    2.0**63,
    -(2.0**63),
    0.5,
)
VALUES: tuple[Any, ...] = (  # in place of a value in JSON
    None, True, False, 0, 1, -1, 3, 2**31, 2**62, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, -1e308, 5e-324, float("nan"),
    float("inf"), float("-inf"), "", "x", "0", "nan", "[/]", "[bold]x", "\x1b[31mred", "\x00", "a" * 2_000, "\ud800",
    "running",
    "finished", "failed", "plug-in", "grow", "primal-dual", "river-swim", "random-linear:states=100000000",
    "tetris:rows=9999",
    "river-swim:discount=2", "../../etc/passwd", "os:system", [], [1], [1, 2, 3], [None, None], ["x", "y"], [[]],
    [1e308, -1e308],
    {}, {"x": 1}, {"bit_generator": "PCG64"}, [0] * 1_000, {"state": {"state": -1, "inc": 10**60}},
)  # fmt: skip


# Bytes.


def flipped(given: Input, data: bytes) -> bytes:
    out = bytearray(data)
    for at in given.rng.integers(0, max(len(out), 1), given.one((1, 1, 2, 5, 50))) if out else ():
        out[at] ^= 1 << int(given.rng.integers(8))
    return bytes(out)


def cut(given: Input, data: bytes) -> bytes:
    return data[: int(given.rng.integers(0, len(data) + 1))]


def inserted(given: Input, data: bytes) -> bytes:
    at = int(given.rng.integers(0, len(data) + 1))
    return data[:at] + given.rng.bytes(given.one((1, 4, 100))) + data[at:]


def zeroed(given: Input, data: bytes) -> bytes:
    at, n = int(given.rng.integers(0, len(data) + 1)), given.one((1, 8, 200))
    return data[:at] + bytes(len(data[at : at + n])) + data[at + n :]


def doubled(given: Input, data: bytes) -> bytes:
    a, b = sorted(int(i) for i in given.rng.integers(0, len(data) + 1, 2))
    return data[:b] + data[a:]


def replaced(given: Input, data: bytes) -> bytes:
    other = (b"", b"\x00" * 1_000, given.rng.bytes(500), b"PK\x03\x04" + given.rng.bytes(60), b"\x93NUMPY\x01\x00",
    b"null",
             b"{}", b"[]", b"\xff\xfe", b"\xef\xbb\xbf{}", b"[" * 100_000, b'{"a":' * 50_000, b"1" * 5_000,
             b"PK\x05\x06" + bytes(18), bare_array())  # fmt: skip
    return given.one(other)


def bare_array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(3.0))
    return buffer.getvalue()


BYTES: dict[str, Callable[[Input, bytes], bytes]] = {
    "bits flipped": flipped, "cut": cut, "bytes inserted": inserted, "bytes zeroed": zeroed, "a piece doubled": doubled,
    "replaced": replaced,
}  # fmt: skip


# The zip container of an npz, and the headers in it.


def members(data: bytes) -> dict[str, bytes]:
    """The members of an npz as they stand, name by name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(parts: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in parts:
            archive.writestr(name, content)
    return buffer.getvalue()


def repacked(given: Input, data: bytes) -> bytes:
    """Another container: compressed, in another order, a member twice, missing, added or renamed."""
    parts = list(members(data).items())
    how = given.one(
        ("deflate", "lzma", "order", "twice", "missing", "added", "renamed", "comment", "encrypted", "crc")
    )
    given.note(how)
    at = int(given.rng.integers(len(parts)))
    name, content = parts[at]
    if how == "order":
        given.rng.shuffle(parts)  # type: ignore[arg-type]
    elif how == "twice":
        other = content if given.chance(0.5) else parts[(at + 1) % len(parts)][1]
        parts.append((name, other))
    elif how == "missing":
        parts.pop(at)
    elif how == "added":
        extra = given.one(
            ("x.npy", "../x.npy", "/etc/x.npy", "a/b.npy", "x", "\u202e.npy", "theta", "state.x.npy")
        )
        parts.append((extra, content))
    elif how == "renamed":
        parts[at] = (name.upper() if given.chance(0.5) else name.removesuffix(".npy"), content)
    method = {"deflate": zipfile.ZIP_DEFLATED, "lzma": zipfile.ZIP_LZMA}.get(how, zipfile.ZIP_STORED)
    out = bytearray(zipped(parts, method))
    if how == "comment":
        out[-2:] = struct.pack("<H", 40)
        out += b"PK\x05\x06" + b"c" * 36
    if how in ("encrypted", "crc"):
        header = out.find(b"PK\x01\x02")
        offset = 8 if how == "encrypted" else 16
        out[header + offset] ^= 1
    return bytes(out)


HEADERS: tuple[str, ...] = (
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (100000000,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 0, 10**9), }",
    "{'descr': '<f8', 'fortran_order': True, 'shape': (), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
    "{'descr': '<U4', 'fortran_order': False, 'shape': (2,), }",
    "{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '|V100000000', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f8', 'shape': (1,), }",
    "{'descr': '<f8', 'fortran_order': 0, 'shape': [1], }",
    "__import__('os').system('true')",
    "{'descr': '<f8', 'fortran_order': False, 'shape': " + "(" * 200 + ")" * 200 + "}",
    "",
)


def beheaded(given: Input, data: bytes) -> bytes:
    """An npz in which the npy header of one member says something else."""
    parts = members(data)
    name = given.one(sorted(parts))
    header = given.one(HEADERS)
    given.note(f"{name}: {header[:80]}")
    version = given.one((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x09\x00"))
    text = (header + "\n").encode()
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text))
    parts[name] = b"\x93NUMPY" + version + size + text + parts[name][128:]
    return zipped(list(parts.items()))


# Numbers and JSON, with the checksum made right again.


def read(data: bytes) -> tuple[dict[str, Any], Any]:
    """Arrays and description of an npz."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    del arrays["checksum"]
    return arrays, json.loads(arrays.pop("meta").tobytes())


def written(arrays: Mapping[str, Any], meta: Any) -> bytes:
    """An npz with a right checksum, whatever is in it."""
    text = meta if isinstance(meta, np.ndarray) else np.frombuffer(dumped(meta), dtype=np.uint8)
    everything = {"meta": text, **arrays}
    buffer = io.BytesIO()
    np.savez(buffer, **everything, checksum=files._checksum(everything))
    return buffer.getvalue()


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def renumbered(given: Input, data: bytes) -> bytes:
    """An npz with a right checksum in which one array holds other numbers, or has another shape or dtype."""
    arrays, meta = read(data)
    name = given.one(sorted(arrays))
    a = arrays[name]
    how = given.one(("number", "number", "numbers", "shape", "dtype", "missing", "added", "empty", "long"))
    if how in ("number", "numbers"):
        a = a.copy()
        value = given.one(NUMBERS)
        with np.errstate(all="ignore"):
            value = np.array(value).astype(a.dtype)
        where = int(given.rng.integers(a.size)) if a.size else 0
        if how == "numbers":
            a[...] = value
        elif a.size:
            a.reshape(-1)[where] = value
        given.note(f"{name}[{where if how == 'number' else ':'}] = {value}")
    elif how == "shape":
        a = given.one(
            (a[None], a.reshape(-1), a.reshape(-1)[:-1], np.concatenate([a.reshape(-1)] * 2), a.T.copy())
        )
        given.note(f"{name} has shape {a.shape}")
    elif how == "dtype":
        kind = given.one(("f4", "i4", "i8", "u8", ">f8", "bool", "f2", "u1", "f8", "c16"))
        a = a.astype(kind)
        given.note(f"{name} has dtype {a.dtype}")
    elif how == "long":
        a = np.zeros(3_000_000, dtype=a.dtype)
        given.note(f"{name} is long")
    elif how == "empty":
        a = a.reshape(-1)[:0]
        given.note(f"{name} is empty")
    else:
        given.note(f"{name} {how}")
    arrays[f"{name}x" if how == "added" else name] = a
    if how == "missing":
        del arrays[name]
    return written(arrays, meta)


def redescribed(given: Input, data: bytes) -> bytes:
    """An npz with a right checksum and another description."""
    arrays, meta = read(data)
    if given.chance(0.1):
        texts = (
            np.array("text"),
            np.array(["a", "b"]),
            np.arange(3.0),
            np.array(b"{}"),
            np.zeros(0, np.uint8),
        )
        text = given.one(texts)
        given.note(f"meta is {text.dtype} {text.shape}")
        return written(arrays, text)
    return written(arrays, altered(given, meta))


def altered(given: Input, value: Any) -> Any:
    """JSON in which one value, at any depth, is another, is missing, or has something beside it."""
    path: list[Any] = []
    here, parent = value, None
    while isinstance(here, (dict, list)) and here and (parent is None or given.chance(0.85)):
        key = given.one(sorted(here)) if isinstance(here, dict) else int(given.rng.integers(len(here)))
        path.append(key)
        parent, here = here, here[key]
    other = given.one(VALUES)
    if parent is None:
        return other
    copy = json.loads(json.dumps(value))
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    how = given.one(("other", "other", "other", "other", "missing", "beside", "nearly"))
    given.note(f"{'.'.join(map(str, path))} {how}: {str(other)[:60].encode('unicode_escape').decode()}")
    if how == "missing":
        del parent[path[-1]]
    elif how == "beside" and isinstance(parent, dict):
        parent["x" * given.one((1, 300))] = other
    elif how == "nearly" and isinstance(parent[path[-1]], (int, float)):
        parent[path[-1]] += given.one((1, -1, 0.5, 10**6))
    else:
        parent[path[-1]] = other
    return copy


def misspelt(given: Input, data: bytes) -> bytes:
    """JSON with one value altered, as text; or that is nearly JSON."""
    return json.dumps(altered(given, json.loads(data)), indent=given.one((None, 2))).encode(
        "utf-8", "surrogatepass"
    )


def tabled(given: Input, data: bytes) -> bytes:
    """A table of comma-separated values with one cell, one row or the header altered."""
    rows = [line.split(",") for line in data.decode().splitlines()]
    at = 0 if given.chance(0.25) else int(given.rng.integers(len(rows)))
    cells = (
        "",
        "x",
        "nan",
        "inf",
        "-inf",
        "1e999",
        "1_000",
        "0x10",
        " 1",
        "1;2",
        '"1"',
        "\x00",
        "é",
        "9" * 5_000,
        "-1",
        "True",
    )
    how = given.one(("cell", "cell", "cell", "longer", "shorter", "missing", "twice", "blank"))
    given.note(f"row {at}: {how}")
    if how == "cell":
        rows[at][int(given.rng.integers(len(rows[at])))] = given.one(cells)
    elif how == "longer":
        rows[at].append("1")
    elif how == "shorter":
        rows[at].pop()
    elif how == "missing":
        rows.pop(at)
    else:
        rows.insert(at, rows[at] if how == "twice" else [])
    return "\n".join(",".join(row) for row in rows).encode() + b"\n"


def bomb(megabytes: int) -> bytes:
    """A policy whose vector is `megabytes` of zeros, compressed to a thousandth, without ever holding the zeros."""
    squeeze, zeros = zlib.compressobj(9, zlib.DEFLATED, -15), bytes(1 << 20)
    one = squeeze.compress(zeros) + squeeze.flush(zlib.Z_FULL_FLUSH)  # a piece that may be repeated
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({megabytes << 17},), }}".ljust(117) + "\n"
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode()
    start = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = start.compress(head) + start.flush(zlib.Z_FULL_FLUSH) + one * megabytes + squeeze.flush()
    crc, size, name = zlib.crc32(head), len(head) + (megabytes << 20), b"theta.npy"
    for _ in range(megabytes):
        crc = zlib.crc32(zeros, crc)
    common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, crc, len(data), size, len(name), 0)
    local = b"PK\x03\x04" + common + name
    central = b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    end = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local) + len(data), 0)
    return local + data + central + b"PK\x05\x06" + end
