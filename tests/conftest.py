"""Numba's cache looks only at the file of the cached function; a changed callee elsewhere leaves it stale.

Tests send signals to themselves, so none may be ignored, as `nohup` and jobs in the background ignore them.
"""

import os
import signal
from pathlib import Path

import pytest

import coreplan

SOURCE = Path(coreplan.__file__).parent

pytest.register_assert_rewrite("helpers")  # an assertion there tells its numbers, too


def pytest_configure(config: pytest.Config) -> None:
    for name, usual in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
            signal.signal(getattr(signal, name), usual)
    if hasattr(config, "workerinput"):
        return  # a worker of pytest-xdist: its master has done it
    # What a kernel calls is a kernel: changes of other files leave the caches good.
    newest = max(p.stat().st_mtime for p in SOURCE.rglob("*.py") if b"njit" in p.read_bytes())
    elsewhere = os.environ.get("NUMBA_CACHE_DIR")  # as `make test-oldest` has it
    for folder in (SOURCE, Path(elsewhere)) if elsewhere else (SOURCE,):
        for cached in folder.rglob("*.nb[ic]"):
            if cached.stat().st_mtime < newest:
                cached.unlink()
