"""Records of a file that only grows: each framed and checksummed by itself, so that damage costs what it hit and no more.

    magic, kind, length of the body, checksum of the body, checksum of this frame | body

A file that ends inside a record is *torn*: the process died while it wrote, and the half record holds nothing. Anything
else that is no record is *damage*; what is good behind it is found by the magic.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

MAGIC = b"\x89cpq"
FRAME = struct.Struct("<4sBxxxQII")
MOST = 1 << 32  # bytes of a body
_CHUNK = 1 << 20


def read_at(descriptor: int, length: int, offset: int) -> bytes:
    """So many bytes of a file from a place on, or those before its end."""
    os.lseek(descriptor, offset, os.SEEK_SET)
    data = os.read(descriptor, length)
    while len(data) < length:
        more = os.read(descriptor, length - len(data))
        if not more:
            break
        data += more
    return data


def write_at(descriptor: int, parts: list[bytes | memoryview], offset: int) -> None:
    """Write these parts, one after the other, from a place on."""
    rest = memoryview(b"".join(parts))
    while rest:
        done = _write(descriptor, rest, offset)
        rest, offset = rest[done:], offset + done


def _seek_and_write(descriptor: int, data: memoryview, offset: int) -> int:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.write(descriptor, data)


_write = getattr(os, "pwrite", _seek_and_write)  # one call of the system in place of two


class Record(NamedTuple):
    """A good record: where it begins, and the first bytes of its body."""

    offset: int
    kind: int
    length: int  # of the body
    first: bytes


class Bad(NamedTuple):
    """Bytes that are no record: damage, or the half of one at the end of the file."""

    offset: int
    length: int
    torn: bool


def framed(kind: int, *parts: bytes | memoryview) -> list[bytes | memoryview]:
    """A record with this body, in parts as `os.writev` takes them."""
    length = checksum = 0
    for part in parts:
        length += len(part)
        checksum = zlib.crc32(part, checksum)
    return [_frame(kind, length, checksum), *parts]


def _frame(kind: int, length: int, checksum: int) -> bytes:
    head = FRAME.pack(MAGIC, kind, length, checksum, 0)[:-4]
    return head + zlib.crc32(head).to_bytes(4, "little")


def body_at(descriptor: int, offset: int) -> tuple[int, bytes] | None:
    """Kind and body of the record at this place; None if there is no good one."""
    found = _unframed(read_at(descriptor, FRAME.size, offset))
    if found is None:
        return None
    kind, length, checksum = found
    body = read_at(descriptor, length, offset + FRAME.size) if length <= MOST else b""
    good = len(body) == length and zlib.crc32(body) == checksum
    return (kind, body) if good else None


def scanned(descriptor: int, size: int, most: int) -> Iterator[Record | Bad]:
    """Every record of a file of this size, with up to `most` first bytes of its body, and what is none, in their order.

    Takes no more memory for a long record than for a short one.
    """
    at = 0
    while at < size:
        head = read_at(descriptor, FRAME.size, at)
        found = _unframed(head)
        if (found is None and len(head) < FRAME.size and MAGIC.startswith(head[:4])) or (
            found is not None and at + FRAME.size + found[1] > size
        ):
            yield Bad(at, size - at, torn=True)
            return
        first = None if found is None else _checked(descriptor, at + FRAME.size, found[1], found[2], most)
        if found is None or first is None:
            end = _next_magic(descriptor, at + 1, size)
            yield Bad(at, end - at, torn=False)
            at = end
            continue
        yield Record(at, found[0], found[1], first)
        at += FRAME.size + found[1]


def _unframed(head: bytes) -> tuple[int, int, int] | None:
    """Kind, length and checksum; None if these bytes are no frame."""
    if len(head) < FRAME.size or zlib.crc32(head[:-4]) != int.from_bytes(head[-4:], "little"):
        return None
    magic, kind, length, checksum, _ = FRAME.unpack(head)
    return (kind, length, checksum) if magic == MAGIC and length <= MOST else None


def _checked(descriptor: int, at: int, length: int, checksum: int, most: int) -> bytes | None:
    """The first bytes of a body; None if its checksum is wrong."""
    first, found = b"", 0
    for begin in range(0, length, _CHUNK):
        part = read_at(descriptor, min(_CHUNK, length - begin), at + begin)
        found = zlib.crc32(part, found)
        if len(first) < most:
            first += part[: most - len(first)]
    return first if found == checksum else None


def _next_magic(descriptor: int, at: int, size: int) -> int:
    """Where the next frame may begin; the end of the file if nowhere."""
    while at < size:
        part = read_at(descriptor, _CHUNK, at)
        place = part.find(MAGIC)
        if place >= 0:
            return at + place
        at += max(len(part) - len(MAGIC) + 1, 1)
    return size
