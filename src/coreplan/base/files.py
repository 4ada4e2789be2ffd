"""Files that cannot execute code when loaded and are never half written: JSON, text, and npz of numbers.

What is read may come from anybody. So only plain files are opened (a pipe would hang, a device has no end), everything is
checked before memory is taken for it, and whatever is wrong is a FileError.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from .errors import FileError
from .lock import lock_file

_META = "meta"  # JSON as an array of bytes, so that the file holds nothing but arrays of numbers
_SUM = "checksum"
_KINDS = "fiub"  # floats, whole numbers, truth values
_LARGEST_TEXT = 1 << 26  # bytes of JSON or text: our own are some kilobytes
_LARGEST_DIRECTORY = 1 << 20  # bytes of an archive's list of members
_MOST_MEMBERS = 1000
_CHUNK = 1 << 20
_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # a pipe without a writer is opened at once, and then refused
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


# Writing.


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file to write into, which takes the place of `path` when the block ends without an error.

    So `path` always holds either all of the old content or all of the new, even after a crash. The new file has a name
    that nobody can guess and is created, never opened, so that nothing planted in the folder is followed or overwritten;
    if `path` itself is a link, the link is replaced and what it points to stays. What killed processes left is cleared up.
    """
    there = os.path.lexists(path)
    try:
        _require_replaceable(path)
        _clear_stale(path)
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _BINARY, 0o666)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL byte
        raise _unwritten(path, error, there) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            if os.name != "nt":
                lock_file(descriptor)  # whoever clears up can tell it from what a killed process left
            yield file
            file.flush()
            os.fsync(descriptor)
            if os.name != "nt":  # still locked
                os.replace(partial, path)
        if os.name == "nt":  # pragma: no cover
            os.replace(partial, path)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, FileError):
            raise _unwritten(path, error, there) from error
        raise
    sync_folder(path.parent)


def _require_replaceable(path: Path) -> None:
    """An OSError if there is something at `path` that is no file: a device must not be replaced by a policy."""
    with suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
            raise OSError(f"it is {_kind(mode)}, not a file")


def _clear_stale(path: Path) -> None:
    """Delete what processes that were killed while they wrote `path` have left; a file that is being written is locked."""
    name = re.compile(re.escape(path.name) + r"(\.[0-9a-f]{8})?\.partial")
    for entry in os.scandir(path.parent):
        if name.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            with suppress(OSError):
                descriptor = os.open(entry.path, os.O_RDWR | _NO_LINK | _NO_WAIT | _BINARY)
                try:
                    lock_file(descriptor)
                    os.unlink(entry.path)
                finally:
                    os.close(descriptor)


def _unwritten(path: Path, error: Exception, there: bool) -> FileError:
    kept = "What was there before is unchanged. " if there and os.path.lexists(path) else ""
    why = getattr(error, "strerror", None) or error
    return FileError(f"Could not write {path}: {why}. {kept}Free some space, or give another folder.")


def sync_folder(folder: Path) -> None:
    """Have the folder's list of files on disk too, where the platform allows it: else a power cut may undo the renaming."""
    if os.name != "nt":
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | _BINARY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` so that `path` always holds either all of the old content or all of the new, even after a crash."""
    with replacing(path) as file:
        file.write(data)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that does not exist yet; FileError if there is anything of that name, even a link to nowhere."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _BINARY, 0o666)
    except FileExistsError:
        raise FileError(
            f"{path} exists, and is left as it is. Give another name, or delete it first."
        ) from None
    except (OSError, ValueError) as error:
        raise _unwritten(path, error, False) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise _unwritten(path, error, False) from error


def append_lines(path: Path, lines: str) -> None:
    """Add whole lines to the end of a file, which is made if there is none; half a line at its end is dropped first."""
    there = os.path.lexists(path)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _NO_WAIT | _BINARY, 0o666)
    except (OSError, ValueError) as error:
        raise _unwritten(path, error, there) from error
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise FileError(f"{path} cannot be written: it is {_kind(mode)}, not a file.")
        try:
            size = os.fstat(descriptor).st_size
            file.seek(max(size - _CHUNK, 0))
            end = file.read(_CHUNK)
            if end and not end.endswith(b"\n"):
                file.truncate(max(size - _CHUNK, 0) + end.rfind(b"\n") + 1)
            file.write(lines.encode())
        except OSError as error:
            raise _unwritten(path, error, there) from error


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON, atomically."""
    write_atomic(path, (json.dumps(value, indent=2) + "\n").encode())


def write_npz(path: Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write arrays of numbers, their description `meta` and a checksum over both, atomically; no array is copied."""
    everything = {_META: np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8), **arrays}
    for name, array in everything.items():
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"'{name}' has dtype {array.dtype}: only numbers are ever written")
    everything = {name: np.asarray(array, order="C") for name, array in everything.items()}
    with replacing(path) as file:
        np.savez(file, **everything, **{_SUM: _checksum(everything)})  # type: ignore[arg-type]


# Reading.


@contextmanager
def regular(path: Path) -> Iterator[BinaryIO]:
    """The file at `path`, open for reading; FileError if there is none, or if it is a folder, a pipe or a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _NO_WAIT | _BINARY)
    except FileNotFoundError:
        raise FileError(f"There is no file {path}.") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL byte
        raise FileError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise FileError(f"{path} cannot be read: it is {_kind(mode)}, not a file.")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def read_text(path: Path) -> str:
    """The text of a file that coreplan wrote; FileError for what it cannot have written."""
    with regular(path) as file:
        try:
            size = os.fstat(
                file.fileno()
            ).st_size  # a read takes the memory that it asks for, whatever is there
            data = file.read(min(size, _LARGEST_TEXT) + 1)
        except OSError as error:
            raise FileError(f"{path} cannot be read: {error.strerror or error}.") from None
    if len(data) > _LARGEST_TEXT:
        raise FileError(f"{path} is larger than any text that coreplan writes ({_LARGEST_TEXT:,} bytes).")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not text ({error.reason} at byte {error.start}).") from None


def first_line(path: Path, longest: int) -> str:
    """The first line of a text file, or as much of it as there are `longest` bytes; FileError for what is no text."""
    with regular(path) as file:
        try:
            return file.readline(longest).decode().rstrip("\n")
        except UnicodeDecodeError:
            raise FileError(f"{path} is not text.") from None
        except OSError as error:
            raise FileError(f"{path} cannot be read: {error.strerror or error}.") from None


def read_json(path: Path) -> Any:
    """The value in a JSON file; FileError for anything that is not JSON as coreplan writes it."""
    text = read_text(path)
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is damaged: it is no JSON that coreplan wrote ({error}).") from None


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError or RecursionError for what `json.dumps` of plain values cannot have written.

    That is a key given twice, of which one would win silently, and half a character (a lone surrogate), which nothing can
    print.
    """
    value = json.loads(text.decode() if isinstance(text, bytes) else text, object_pairs_hook=_unique)
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is given twice")
    return value


def read_npz(path: Path, kind: str, version: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write_npz` wrote; any other file raises a FileError that says what was found."""
    damaged = f"{path} cannot be read as a {kind}: it is damaged, cut short or foreign"
    with regular(path) as file:
        try:
            if file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
                raise FileError(f"{path} is not a {kind}: it is a bare array.")
            arrays = _members(file)
        except FileError:
            raise
        except Exception as error:  # on arbitrary bytes the zip and npy readers raise errors of many kinds
            raise FileError(f"{damaged} ({error}).") from None
    # We keep a checksum of our own, since the zip reader checks its own only if it happens to read to the end.
    checksum = arrays.pop(_SUM, None)
    try:
        meta = parse_json(arrays[_META].tobytes())
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


class _Bounded:
    """A file that gives at most `most` bytes at once: it bounds what the zip reader takes for a list of members."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.seek, self.tell, self.most = file, file.seek, file.tell, _LARGEST_DIRECTORY

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(self.most + 1 if size < 0 else min(size, self.most + 1))
        if len(data) > self.most:
            raise ValueError("its list of members is too long")
        return data

    def seekable(self) -> bool:
        return True


def _members(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """The arrays in an archive as `np.savez` writes it: not compressed, so that no member is larger than the file."""
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(_Bounded(file)) as archive:
        members = archive.infolist()
        names = {member.filename for member in members}
        if len(members) > _MOST_MEMBERS or len(names) < len(members):
            raise ValueError(f"it lists {len(members)} members, of which {len(names)} are different")
        if sum(member.file_size for member in members) > size:
            raise ValueError("its members are larger than the file")
        return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """One member as an array of numbers; its header is checked before memory is taken."""
    name = member.filename
    if not name.endswith(".npy") or "/" in name or "\\" in name:
        raise ValueError(f"it has a member '{name[:80]}'")
    if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
        raise ValueError(f"'{name[:80]}' is compressed or encrypted, which coreplan never does")
    with archive.open(member) as file:
        version = npy.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"'{name[:80]}' has version {version} of the array format")
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = header(file)
        if dtype.kind not in _KINDS:
            raise ValueError(f"'{name[:80]}' has dtype {dtype}: it does not hold numbers")
        count = 1
        for n in shape:
            count *= n
        if min(shape, default=0) < 0 or count * dtype.itemsize != member.file_size - file.tell():
            raise ValueError(f"'{name[:80]}' has shape {str(shape)[:80]} and not as many numbers")
        array: NDArray[Any] = np.empty(count, dtype=dtype)
        _fill(array.view(np.uint8).data, file)
    if dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise ValueError(f"'{name[:80]}' has truth values that are neither true nor false")
    return np.ascontiguousarray(array.reshape(shape[::-1]).T) if fortran else array.reshape(shape)


def _fill(into: memoryview, file: Any) -> None:
    for start in range(0, len(into), _CHUNK):
        part = file.read(min(_CHUNK, len(into) - start))
        into[start : start + len(part)] = part
        if len(part) < min(_CHUNK, len(into) - start):
            raise ValueError("it ends too early")
    file.read(1)  # the zip reader compares its own checksum at the end


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    h = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        shape = array.shape or (1,)  # as the first version of the format had it
        h.update(f"{name} {array.dtype.str} {shape} ".encode())
        h.update(array.reshape(-1).view(np.uint8).data)
    return np.frombuffer(h.digest(), dtype=np.uint8)
