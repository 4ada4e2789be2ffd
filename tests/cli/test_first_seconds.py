"""The first seconds: help, version and a bare import answer without loading a compiler or a solver."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer

from coreplan.cli import app

HEAVY = {"numba", "scipy", "llvmlite", "jax", "gymnasium", "sklearn"}


def modules_after(code):
    """The top-level modules loaded in a new process by `code`, and what it prints."""
    report = "print('\\n' + json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", f"import json, sys\n{code}\n{report}"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *printed, names = done.stdout.splitlines()
    return set(json.loads(names)), "\n".join(printed)


def modules_after_command(*arguments):
    return modules_after(f"""
sys.argv = {["coreplan", *arguments]!r}
from coreplan.cli import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
""")


def paths(command, path=()):
    """Every command and group of the command line, as the words that are typed."""
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from paths(inner, (*path, name))


COMMANDS = list(paths(typer.main.get_command(app)))


def test_the_commands_are_found():
    assert {(), ("plan",), ("verify",), ("bench",), ("bench", "throughput")} <= set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "coreplan")
def test_help_loads_nothing_heavy(path):
    names, printed = modules_after_command(*path, "--help")
    assert "Usage:" in printed and " ".join(path) in printed
    assert not names & HEAVY


def test_the_version_loads_nothing_heavy():
    names, printed = modules_after_command("--version")
    assert printed.strip().startswith("0.")
    assert not names & HEAVY


@pytest.mark.parametrize("module", ["coreplan", "coreplan.base", "coreplan.cli"])
def test_a_bare_import_loads_nothing_heavy(module):
    names, _ = modules_after(f"import {module}")
    assert "coreplan" in names and not names & HEAVY


def test_looking_around_loads_nothing_heavy():
    names, _ = modules_after("import coreplan\ndir(coreplan)\nassert not hasattr(coreplan, 'plann')")
    assert not names & HEAVY


def test_the_measurement_sees_what_is_heavy():
    names, _ = modules_after("import coreplan\ncoreplan.plan")
    assert {"numba", "llvmlite", "scipy"} <= names
