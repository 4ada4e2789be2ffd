"""Writing a run's files so that a disk that is full, or a folder that is gone, does not end a run that can go on."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from ..base import (
    CoreplanError,
    CoreplanWarning,
    text_of,
)
from ..run import RunFolder


class Keeping:
    """The files of a run, by name. One that cannot be written is tried again with the next one, in the same order.

    Without a folder nothing is kept. `trouble` says why the last attempt failed; it is empty if everything is on disk.
    """

    def __init__(self, folder: RunFolder | None) -> None:
        self.folder, self.trouble = folder, ""
        self._writes: dict[
            str, Callable[[], None]
        ] = {}  # every file's latest content, in the order of writing
        self._pending: set[str] = set()
        self._warned = False

    def begin(self, **writes: Callable[[], None]) -> None:
        """The first files. A folder that cannot be written at all raises FileError, before any query is made."""
        if self.folder is not None:
            self._add(writes)
            self._write()

    def __call__(self, **writes: Callable[[], None]) -> None:
        """Write files, and those that could not be written before; warns once if that fails."""
        if self.folder is None:
            return
        self._add(writes)
        try:
            self._write()
            self.trouble = ""
        except Exception as error:  # a full disk, a folder without permission, no memory for the archive
            self.trouble = (
                str(error)
                if isinstance(error, CoreplanError)
                else f"{type(error).__name__}: {text_of(error)}"
            )
            if not self._warned:
                self._warned = True
                self._warn(f"{self.trouble} The run goes on, and tries again at its next checkpoint.")

    def end(self) -> str:
        """A last attempt; returns why the folder does not hold the plan, after a warning, or nothing if it does."""
        if self._pending:
            self()
        if self.trouble:
            self._warn(
                f"The plan is complete, but its folder is not: {self.trouble} Keep what the run returned, for example by "
                "plan.policy.save(file)."
            )
        return self.trouble

    def _add(self, writes: dict[str, Callable[[], None]]) -> None:
        for name, write in writes.items():
            self._writes.pop(name, None)  # its place is now at the end
            self._writes[name] = write
            self._pending.add(name)

    def _write(self) -> None:
        assert self.folder is not None
        if self.folder.regained():  # it was deleted: everything that stood there is written again
            self._pending |= set(self._writes)
        for name in [name for name in self._writes if name in self._pending]:
            self._writes[name]()
            self._pending.discard(name)

    def _warn(self, message: str) -> None:
        warnings.warn(message, CoreplanWarning, stacklevel=4)
