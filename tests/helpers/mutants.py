"""Modules of coreplan broken on purpose: one place of the source changed, loaded beside the original."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path


def mutant(module, old, new, tmp_path, monkeypatch):
    """A copy of `module` with `old` replaced by `new`, which must stand in exactly one place.

    Its file is named after its text: Python's and Numba's caches know a file by its path, size and time of change, and would
    take two mutants of one size, written one after the other, for the same.
    """
    source = Path(module.__file__).read_text()
    assert source.count(old) == 1, "the fault must change exactly one place"
    text = source.replace(old, new)
    stem = f"mutant_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    path = tmp_path / f"{stem}.py"
    path.write_text(text)
    name = f"{module.__package__}.{stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    copy = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, copy)
    spec.loader.exec_module(copy)
    return copy
