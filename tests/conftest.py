"""Numba's cache looks only at the file of the cached function; a changed callee elsewhere leaves it stale."""

from pathlib import Path

import pytest

import coreplan

SOURCE = Path(coreplan.__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    newest = max(p.stat().st_mtime for p in SOURCE.rglob("*.py"))
    for cached in SOURCE.rglob("*.nb[ic]"):
        if cached.stat().st_mtime < newest:
            cached.unlink()
