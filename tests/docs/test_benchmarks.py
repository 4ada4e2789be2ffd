"""Every benchmark can be imported: its names exist. Running them takes minutes to hours."""

from __future__ import annotations

import pytest

from helpers.places import ROOT, benchmark

PROGRAMS = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_benchmarks_import(path):
    assert benchmark(path.stem).__doc__
