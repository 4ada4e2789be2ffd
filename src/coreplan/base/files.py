"""Files that cannot execute code when loaded and are never half written (npz of numbers, JSON, text), and a folder lock."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import FileError

_META = "meta"  # JSON as an array of bytes, so that the file holds nothing but arrays of numbers
_SUM = "checksum"


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` so that `path` always holds either all of the old content or all of the new, even after a crash."""
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise FileError(
            f"Could not write {path}: {error.strerror or error}. What was there before is unchanged. "
            "Free some space, or give another folder."
        ) from error


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON, atomically."""
    write_atomic(path, (json.dumps(value, indent=2) + "\n").encode())


def write_npz(path: Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write arrays of numbers, their description `meta` and a checksum over both, atomically."""
    everything = {_META: np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8), **arrays}
    for name, array in everything.items():
        if array.dtype.kind not in "fiub":
            raise TypeError(f"'{name}' has dtype {array.dtype}: only numbers are ever written")
    buffer = io.BytesIO()
    np.savez(buffer, **everything, **{_SUM: _checksum(everything)})  # type: ignore[arg-type]
    write_atomic(path, buffer.getvalue())


def read_npz(path: Path, kind: str, version: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write_npz` wrote; any other file raises a FileError that says what was found."""
    damaged = f"{path} cannot be read as a {kind}: it is damaged, cut short or foreign"
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise FileError(f"{path} is not a {kind}: it is a bare array.")
        with archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise FileError(f"There is no file {path}.") from None
    except FileError:
        raise
    except Exception as error:  # on arbitrary bytes the zip, zlib and npy readers raise errors of many kinds
        raise FileError(f"{damaged} ({error}).") from None
    # We keep a checksum of our own, since the zip reader checks its own only if it happens to read to the end.
    checksum = arrays.pop(_SUM, None)
    try:
        meta = json.loads(arrays[_META].tobytes())
    except (KeyError, ValueError, RecursionError):
        raise FileError(f"{path} is not a {kind}: it has no description that coreplan wrote.") from None
    if not isinstance(meta, dict) or meta.get("format") != kind:
        raise FileError(f"{path} is not a {kind}.")
    if meta.get("version") != version:
        raise FileError(
            f"{path} has version {meta.get('version')!r} of the format; this coreplan reads version {version}. "
            "Use the coreplan that wrote it, or plan again."
        )
    if checksum is None or not np.array_equal(checksum, _checksum(arrays)):
        raise FileError(f"{damaged} (its checksum is wrong).")
    del arrays[_META]
    return arrays, meta


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    h = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        h.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        h.update(array.tobytes())
    return np.frombuffer(h.digest(), dtype=np.uint8)


class FolderLock:
    """An OS lock on a folder. The system frees it when the process dies, however it dies."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = open(folder / ".lock", "a+b")  # noqa: SIM115 (held, not scoped)
        except OSError as error:
            raise FileError(
                f"Cannot write into the folder {folder}: {error.strerror or error}. Give a folder that is writable."
            ) from error
        try:
            _lock(self._file.fileno())
        except OSError:
            self._file.close()
            raise FileError(
                f"Another run is writing into {folder}. Wait until it ends, or give another folder."
            ) from None

        _HELD.add(self)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the lock."""
        _HELD.discard(self)
        self._file.close()


_HELD: set[FolderLock] = set()


def _after_fork() -> None:
    for lock in list(_HELD):
        lock.close()  # a worker that the simulator forks must not go on holding the lock after this process ends


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

if os.name == "nt":  # pragma: no cover
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
