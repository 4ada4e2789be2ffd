"""A lock on a folder, so that it has one writer."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol
from weakref import WeakSet

from .errors import FileError

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class FolderLock:
    """An OS lock on a folder. The system frees it when the process dies, however it dies.

    It is held on the file `.lock`, into which nothing is ever written; a link, pipe or device of that name is refused.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
        except (OSError, ValueError) as error:  # ValueError: a name with a NUL byte
            why = getattr(error, "strerror", None) or error
            raise FileError(
                f"Cannot write into the folder {folder}: {why}. Give a folder that is writable."
            ) from error
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            os.close(self._file)
            raise FileError(f"{folder / '.lock'} is not a plain file. Delete it, or give another folder.")
        try:
            lock_file(self._file)
        except OSError:
            os.close(self._file)
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

    def regained(self) -> bool:
        """Whether somebody has deleted the folder, and it is made and locked again; FileError if that fails."""
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._file), os.stat(self.folder / ".lock", follow_symlinks=False)):
                return False
        again = FolderLock(self.folder)
        _HELD.discard(again)
        os.close(self._file)
        self._file = again._file
        return True

    def close(self) -> None:
        """Free the lock."""
        if self in _HELD:
            _HELD.discard(self)
            os.close(self._file)


_HELD: set[FolderLock] = set()
_OPEN: WeakSet[Releases] = WeakSet()


class Releases(Protocol):
    """Something that holds a locked file."""

    def release(self) -> None:
        """Close the file and do nothing else."""


def release_after_fork(held: Releases) -> None:
    """Have this process's children release what it holds: a lock lasts as long as anybody has the file open."""
    _OPEN.add(held)


def _after_fork() -> None:
    for held in list(_HELD):
        held.close()  # a worker that the simulator forks must not go on holding the lock after this process ends
    for other in list(_OPEN):
        other.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

if os.name == "nt":  # pragma: no cover
    import msvcrt

    def lock_file(descriptor: int) -> None:
        """Lock an open file, or raise OSError if another process holds it."""
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
else:
    import fcntl

    def lock_file(descriptor: int) -> None:
        """Lock an open file, or raise OSError if another process holds it."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
