"""Where Numba finds no folder for compiled code, coreplan gives it one, and only this user's."""

import os
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from coreplan.base import CoreplanWarning, FileError, compiling
from helpers.places import ROOT

# Tests may run as root, whom no permission stops. So Numba is told that it can write in temporary folders only.
CLOSED = """
import os, sys, tempfile, warnings
from numba.core import caching

def ensure_cache_path(self, inner=caching._CacheLocator.ensure_cache_path):
    if not self.get_cache_path().startswith(os.path.join(tempfile.gettempdir(), "coreplan-numba-")):
        raise PermissionError(13, "Permission denied")
    inner(self)

for locator in vars(caching).values():
    if isinstance(locator, type) and "ensure_cache_path" in vars(locator):
        locator.ensure_cache_path = ensure_cache_path
"""


def closed(code, tmp_path, **environment):
    """Run code where Numba finds no folder, without a home; its temporary folders are in `tmp_path`."""
    around = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR")}
    around |= {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT / "src")} | environment
    command = [sys.executable, "-c", CLOSED + textwrap.dedent(code)]
    return subprocess.run(command, env=around, capture_output=True, text=True, timeout=200)


PARTS = (
    "features",
    "problem",
    "simulate",
    "core",
    "sampled",
    "policy",
    "planners",
    "run",
    "judge",
    "planning",
    "theory",
)


def test_every_part_can_be_imported_where_nothing_can_be_written(tmp_path):
    """Each as the first: all of them import `features` before they declare a kernel."""
    done = closed(
        f"""
        from importlib import import_module
        for part in {PARTS}:
            for name in [name for name in sys.modules if name.partition(".")[0] == "coreplan"]:
                del sys.modules[name]
            os.environ.pop("NUMBA_CACHE_DIR", None)
            caching.config.reload_config()
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                import_module("coreplan." + part)
            assert ["NUMBA_CACHE_DIR" in str(w.message) for w in seen if "Numba" in str(w.message)] == [True], part
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_compiled_code_is_kept_for_the_process_and_only_for_its_user(tmp_path):
    done = closed(
        """
        import coreplan
        import numpy as np
        coreplan.make("river-swim").features(np.arange(2))
        folder = os.environ["NUMBA_CACHE_DIR"]
        print(oct(os.stat(folder).st_mode & 0o777), os.stat(folder).st_uid == os.getuid())
        print(sum(name.endswith(".nbc") for _, _, names in os.walk(folder) for name in names) > 0)
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["0o700", "True", "True"]
    assert "Set NUMBA_CACHE_DIR" in done.stderr
    assert not list(tmp_path.glob("coreplan-numba-*"))  # it is gone with the process


def test_where_a_folder_is_found_nothing_changes(monkeypatch):
    monkeypatch.setattr(tempfile, "mkdtemp", None)  # would raise
    before = os.environ.get("NUMBA_CACHE_DIR")
    compiling.ensure_cache()
    assert os.environ.get("NUMBA_CACHE_DIR") == before


def test_a_folder_of_ones_own_that_cannot_be_used(tmp_path):
    """NUMBA_CACHE_DIR is a file: Numba looks elsewhere, and where it finds nothing coreplan helps."""
    (tmp_path / "file").write_text("")
    done = closed("import coreplan.features", tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "file"))
    assert done.returncode == 0 and "Set NUMBA_CACHE_DIR" in done.stderr, done.stderr[-2000:]


def test_no_temporary_folder_either(monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compiling, "_can_cache", lambda: False)
    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(FileError, match=r"No space left on device.*NUMBA_CACHE_DIR"):
        compiling.ensure_cache()


def test_a_new_folder_each_time_so_that_nobody_can_plant_code(tmp_path, monkeypatch):
    from numba.core import config

    before = os.environ.get("NUMBA_CACHE_DIR", "")
    monkeypatch.setenv("NUMBA_CACHE_DIR", before)
    monkeypatch.setattr(compiling, "_can_cache", lambda: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = []
    for _ in range(2):
        with pytest.warns(CoreplanWarning, match="compiles anew"):
            compiling.ensure_cache()
        found.append(Path(os.environ["NUMBA_CACHE_DIR"]))
    assert found[0] != found[1] and all(stat.S_IMODE(f.stat().st_mode) == 0o700 for f in found)
    monkeypatch.undo()
    config.reload_config()
