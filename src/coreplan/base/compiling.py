"""A folder in which Numba may keep compiled code, where it finds none by itself."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings

from .errors import CoreplanWarning, FileError


def ensure_cache() -> None:
    """Give Numba a temporary folder if it finds no folder that it can write to; it would refuse to declare a kernel.

    It looks beside the sources, and in the user's own cache folder: both may be closed in containers and on clusters. What
    is in a cache is executed, so the folder is new, has a name that nobody can foresee, and is open to this user only. It is
    deleted when the process ends.
    """
    if _can_cache():
        return
    try:
        folder = tempfile.mkdtemp(prefix="coreplan-numba-")  # mode 0700
    except OSError as error:
        raise FileError(
            "Numba finds no folder in which it can keep compiled code, and no temporary folder can be made "
            f"({error.strerror or error}). Set the environment variable NUMBA_CACHE_DIR to a folder that you can write to."
        ) from None
    atexit.register(_delete, folder, os.getpid())
    os.environ["NUMBA_CACHE_DIR"] = folder  # processes that this one starts use it, too
    from numba.core import config

    config.reload_config()
    warnings.warn(
        f"Numba finds no folder that it can write to. Compiled code is kept in {folder} until this process ends, so each "
        "process compiles anew, for some seconds. Set NUMBA_CACHE_DIR to a folder of your own to keep it.",
        CoreplanWarning,
        stacklevel=3,
    )


def _can_cache() -> bool:
    """Whether Numba finds a folder."""
    from numba import njit

    try:
        njit(cache=True)(_probe)
    except RuntimeError:  # "cannot cache function"
        return False
    return True


def _probe() -> None:
    """What is declared, and never compiled, to find out."""


def _delete(folder: str, process: int) -> None:
    if os.getpid() == process:  # not in a fork of it
        shutil.rmtree(folder, ignore_errors=True)
