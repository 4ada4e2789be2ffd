"""`make dist`: what is in the archives, and a new user's first commands with the wheel in an empty environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BESIDES = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml"}  # in the source archive
LIMIT = 120.0  # seconds that a new user may wait for a certified policy, on a machine with nothing else to do


def sources() -> set[str]:
    """Every file of the package, from its root, without what Python and Numba cache."""
    package = ROOT / "src" / "coreplan"
    return {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def check_contents(wheel: Path, archive: Path) -> None:
    """An AssertionError unless both hold all files of the package, and the wheel no others."""
    with zipfile.ZipFile(wheel) as opened:
        packed = {name for name in opened.namelist() if ".dist-info/" not in name}
    assert packed == sources(), f"the wheel differs from src/: {sorted(packed ^ sources())[:10]}"
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    wanted = BESIDES | {f"src/{name}" for name in sources()}
    assert wanted <= names, f"the source archive lacks {sorted(wanted - names)[:10]}"
    print(
        f"{wheel.name}: {len(packed)} files, {wheel.stat().st_size / 1e3:,.0f} kB; {archive.name} has them too"
    )


def run(folder: Path, *command: str) -> str:
    """Run a command in an empty folder; what it printed, after a line with the command and its time."""
    begin, before = time.perf_counter(), os.times()
    clean = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "NUMBA", "COREPLAN"))
    }
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    took, after = time.perf_counter() - begin, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    words = " ".join(Path(word).name if "/" in word else word for word in command)
    print(f"{took:7.1f} s  ({cpu:.1f} s of processor time)  {words}", flush=True)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-2000:]}"
    run.seconds = getattr(run, "seconds", 0.0) + took  # type: ignore[attr-defined]
    return done.stdout


def main(folder: str) -> None:
    (wheel,), (archive,) = Path(folder).resolve().glob("*.whl"), Path(folder).resolve().glob("*.tar.gz")
    check_contents(wheel, archive)
    with tempfile.TemporaryDirectory() as name:
        place, here = Path(name) / "environment", Path(name) / "empty"
        here.mkdir()
        venv.create(place, with_pip=True)
        python, coreplan = str(place / "bin" / "python"), str(place / "bin" / "coreplan")
        run(here, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
        run(here, coreplan, "new", "my_problem.py")
        found = json.loads(run(here, coreplan, "plan", "my_problem.py:problem", "--certify", "--json"))
        certificate = found["certificate"]
        assert certificate["holds"] and certificate["lower"] > found["uniform_earned"][2], found
        seconds = run.seconds  # type: ignore[attr-defined]
        print(f"{seconds:7.1f} s  from `pip install` to a policy worth at least {certificate['lower']:.4f} (uniform "
              f"{found['uniform_earned'][0]:.4f}), in three commands")  # fmt: skip
        if seconds > LIMIT:  # said, not failed: the machine may be busy, and the network slow
            print(f"That is more than {LIMIT:g} s.")
        version = run(here, coreplan, "--version").strip()
        assert version in wheel.name, (version, wheel.name)
        where = run(here, python, "-c", "import coreplan; print(coreplan.__file__)")
        assert str(place) in where, where
        assert json.loads(run(here, coreplan, "plan", "random-linear", "--json"))["sub"] < 0.05
        assert "Author: coreplan developers" in run(here, python, "-m", "pip", "show", "coreplan")
    print("The package works.")


if __name__ == "__main__":
    main(*sys.argv[1:])
