"""Modules of coreplan broken on purpose: one place of the source changed, loaded beside the original."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def mutant(module, old, new, tmp_path, monkeypatch):
    """A copy of `module` with `old` replaced by `new`, which must stand in exactly one place."""
    source = Path(module.__file__).read_text()
    assert source.count(old) == 1, "the fault must change exactly one place"
    path = tmp_path / "mutant.py"
    path.write_text(source.replace(old, new))
    name = f"{module.__package__}.mutant"
    spec = importlib.util.spec_from_file_location(name, path)
    copy = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, copy)
    spec.loader.exec_module(copy)
    return copy
