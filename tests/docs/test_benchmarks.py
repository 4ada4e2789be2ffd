"""Every benchmark can be imported: its names exist. Running them takes minutes to hours."""

from __future__ import annotations

import importlib.util

import pytest

from helpers.places import ROOT

PROGRAMS = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_benchmarks_import(path):
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.__doc__
