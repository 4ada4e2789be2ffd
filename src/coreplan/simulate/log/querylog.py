"""`QueryLog`: a file that only grows, with every answer that a simulator was paid for.

An answer is in the file when it has been checked, before anybody uses it: a process that is killed loses what was being
simulated, and nothing else. It is on disk, so that a power cut spares it too, at most `SYNC` seconds later.
"""

from __future__ import annotations

import json
import os
import stat
import threading
import time
import warnings
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...base import (
    CoreplanWarning,
    FileError,
    ReproducibilityWarning,
    files,
    lock_file,
    parse_json,
    release_after_fork,
)
from .answers import FIRST, MANY, Answered, Asked, Body, keys_in, written
from .index import Index
from .records import Bad, body_at, framed, scanned, write_at

FORMAT, VERSION = "coreplan query log", 1
SYNC = 1.0  # seconds after which what was written is forced onto the disk
HEAD, ANSWERS = 0, 1  # kinds of records
_SHIFT = 16  # bits of a place in the index for the number of a key in its record
_SAME_PAIRS = 1024  # batches of pairs that later records may refer to
_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


class QueryLog:
    """The log in a file, open for one process, of one problem and seed."""

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        """Opens or makes the file; a FileError if it is no log, or that of another problem, seed or version."""
        self.path, self.identity = path, {"format": FORMAT, "version": VERSION, **identity}
        self.index = Index()
        self.known = 0  # queries that were answered from the log
        self.kept = 0  # queries whose answers were added
        self.damage: list[Bad] = []
        self._pairs: OrderedDict[bytes, int] = OrderedDict()  # places of records, by the pairs that they hold
        self._last: tuple[int, Body] | None = None  # the record that was read last
        self._synced, self._unsynced = time.monotonic(), False
        self._syncing = threading.Lock()
        self._later: threading.Timer | None = None  # forces onto the disk what no later answer does
        self._trouble: OSError | None = None  # which that met
        self._ours = not os.path.lexists(path)  # to be deleted if it remains empty
        self._file = _opened(path)
        release_after_fork(self)
        try:
            self.size = os.fstat(self._file).st_size
            if self.size:
                self._read()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> QueryLog:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Force everything onto the disk and free the file; one that was made and has remained empty is deleted."""
        if self._file < 0:
            return
        with self._syncing:
            trouble = self._trouble
            try:
                os.fsync(self._file)
            except OSError as error:
                trouble = error
            with suppress(OSError):
                if self._ours and os.fstat(self._file).st_size == 0:
                    self.path.unlink()
            self.release()
        if self._later is not None:
            self._later.cancel()
        if trouble is not None:
            warnings.warn(
                f"The log {self.path} could not be forced onto the disk: {trouble.strerror or trouble}. Its last answers "
                "may be missing after a power cut.",
                CoreplanWarning,
                stacklevel=2,
            )

    def release(self) -> None:
        """Free the file."""
        descriptor, self._file = self._file, -1
        if descriptor >= 0:
            os.close(descriptor)

    # What is there.

    def _read(self) -> None:
        records = scanned(self._file, self.size, FIRST + 8 * MANY)
        first = next(records)
        if isinstance(first, Bad) and first.torn:  # the process died while it wrote the first record
            self._bad(first)
            return
        require_head(self.path, self._file, self.identity)
        for found in records:
            if isinstance(found, Bad):
                self._bad(found)
            elif found.kind == ANSWERS:
                k, end = keys_in(found.first)
                for i, key in enumerate(np.frombuffer(found.first[end - 8 * k : end], dtype="<u8").tolist()):
                    self.index.put(key, found.offset << _SHIFT | i)
        if self.damage:
            lost = sum(bad.length for bad in self.damage)
            warnings.warn(
                f"The log {self.path} is damaged: {lost:,} of {self.size:,} bytes, from byte {self.damage[0].offset:,} on, "
                "are no answers. They are left as they are; what is good is used, and new answers are added behind.",
                CoreplanWarning,
                stacklevel=2,
            )

    def _bad(self, found: Bad) -> None:
        """Half a record at the end is dropped, since what comes is written behind; damage stays as it is."""
        if not found.torn:
            self.damage.append(found)
            return
        os.ftruncate(self._file, found.offset)
        self.size = found.offset

    def find(self, what: Asked) -> Answered | None:
        """The answer to what is asked; None if it is not there."""
        place = self.index.get(what.key)
        if place is None:
            return None
        body = self._body(place >> _SHIFT)
        try:
            return None if body is None else body.answer(what, place & (1 << _SHIFT) - 1)
        except (ValueError, TypeError, IndexError):
            return None

    def has(self, what: Asked) -> bool:
        """Whether the answer to what is asked is there."""
        return self.index.get(what.key) is not None

    def _body(self, offset: int) -> Body | None:
        if self._last is not None and self._last[0] == offset:
            return self._last[1]
        try:
            found = body_at(self._file, offset)
            body = None if found is None else Body(found[1])
        except (OSError, ValueError, TypeError):
            return None
        self._last = None if body is None else (offset, body)
        return body

    # What is added.

    def add(self, what: Asked, answer: Answered, *, each: bool = False) -> None:
        """Add an answer, or with `each` those to at most `MANY` pairs one after the other, none of which is there."""
        if not self.size:
            self._append(HEAD, json.dumps(self.identity).encode())
        own = None if each else self._pairs.get(what.pairs)
        record = written(what, answer, each=each, pairs_at=own or 0)
        if record is None:
            return
        keys, parts = record
        offset = self._append(ANSWERS, *parts)
        for i, key in enumerate(keys):
            self.index.put(key, offset << _SHIFT | i)
        if own is None and not each:
            self._pairs[what.pairs] = offset
            if len(self._pairs) > _SAME_PAIRS:
                self._pairs.popitem(last=False)
        self.kept += len(what.actions)

    def _append(self, kind: int, *parts: Any) -> int:
        """Write a record; returns where it begins. A FileError, with the file as it was, if there is no room."""
        offset, record = self.size, framed(kind, *parts)
        length = sum(map(len, record))
        try:
            if self._trouble is not None:
                raise self._trouble
            write_at(self._file, record, offset)
            self.size += length
            self._unsynced = True
            self.sync(now=not offset)
            if not offset:
                files.sync_folder(self.path.parent)
        except OSError as error:
            self.size = offset
            with suppress(OSError):
                os.ftruncate(self._file, offset)
            raise FileError(
                f"The log {self.path} cannot be written: {error.strerror or error}. All answers before are in it. Free some "
                "space, and go on with the same log."
            ) from error
        return offset

    def sync(self, *, now: bool = False) -> None:
        """Force what was written onto the disk, if that is due; else it is done when it is, whoever writes then."""
        due = self._synced + SYNC - time.monotonic()
        if now or due <= 0.0:
            with self._syncing:
                self._force()
        elif self._later is None:
            self._later = threading.Timer(due, self._late)
            self._later.daemon = True
            self._later.start()

    def _force(self) -> None:
        if self._unsynced:
            self._unsynced = False  # first: what is written meanwhile is not synced
            os.fsync(self._file)
        self._synced = time.monotonic()

    def _late(self) -> None:
        """In a thread of its own: the simulator may take hours for the next answer."""
        with self._syncing:
            self._later = None
            if self._file >= 0:
                try:
                    self._force()
                except OSError as error:
                    self._trouble = error


def _opened(path: Path) -> int:
    """The file, open for this process alone."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o666)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL byte
        why = getattr(error, "strerror", None) or error
        raise FileError(f"The log {path} cannot be opened: {why}. Give another file.") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileError(f"The log {path} is not a plain file. Give another one.")
        lock_file(descriptor)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"Another run is writing into the log {path}. Wait until it ends, or give another file."
        ) from None
    return descriptor


def require_head(path: Path, descriptor: int, wanted: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the log's first record says; a FileError if there is none, or if it is not what is wanted."""
    found = body_at(descriptor, 0)
    try:
        head = parse_json(found[1]) if found is not None and found[0] == HEAD else None
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise FileError(
            f"{path} is no query log, or its beginning is damaged. It is left as it is; give another file."
        )
    if head.get("version") != VERSION:
        raise FileError(
            f"The log {path} has version {str(head.get('version'))[:20]} of the format, and this coreplan knows version "
            f"{VERSION}. Use the coreplan that wrote it, or another file."
        )
    if wanted is not None:
        _require_same(path, head, wanted)
    return head


def _require_same(path: Path, head: dict[str, Any], wanted: dict[str, Any]) -> None:
    for name in ("problem", "seed", "actions", "model", "data"):
        if head.get(name) != wanted[name]:
            raise FileError(
                f"The log {path} is that of another question: its {name} is {str(head.get(name))[:80]}, and here it is "
                f"{str(wanted[name])[:80]}. Its answers would be wrong here; give another file."
            )
    if head.get("code") != wanted["code"] and str(head.get("code"))[:5] == wanted["code"][:5]:
        warnings.warn(
            f"The simulator's code is not what it was when the log {path} was begun. Answers in the log are those of then, "
            "and are used. If it would answer differently now, give another file.",
            ReproducibilityWarning,
            stacklevel=2,
        )
