"""Ctrl-C while commands import, compile, plan and print: one line at most, exit code 130, never a traceback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from coreplan.__main__ import main as start
from coreplan.cli import main

STARTED = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Stop(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Stop())
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["coreplan", "plan", "random-linear"]
from coreplan.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "numpy", "numba", "coreplan.run"])
def test_ctrl_c_during_import_is_one_line(module):
    done = subprocess.run(
        [sys.executable, "-c", STARTED.format(module=module)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


def test_an_interrupt_that_python_has_wrapped_is_one_line(monkeypatch, capsys):
    """As in the making of a class, by Python 3.11."""

    def wrapped():
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr("coreplan.cli.main", wrapped)
    with pytest.raises(SystemExit) as caught:
        start()
    assert caught.value.code == 130 and capsys.readouterr() == ("", "Interrupted.\n")


@pytest.mark.parametrize(
    ("command", "function"),
    [
        (["plan", "river-swim", "--out", "new"], "coreplan.run.loop.CompiledLoop.warm_up"),
        (["plan", "river-swim", "--out", "new"], "coreplan.planning.defaults.choose"),
        (["check", "river-swim"], "coreplan.judge.check"),
        (["bench", "throughput"], "coreplan.bench.throughput"),
        (["verify"], "coreplan.theory.verify"),
    ],
)
def test_ctrl_c_elsewhere_is_one_line(command, function, tmp_path, monkeypatch, capsys):
    def interrupted(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(function, interrupted)
    if "choose" in function:
        monkeypatch.setattr("coreplan.planning.plans.choose", interrupted)
    monkeypatch.setattr(sys, "argv", ["coreplan", *command])
    if command[0] == "plan":  # a planner that runs in the compiled loop
        sys.argv += ["--planner", "core-mirror"]
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130 and capsys.readouterr() == ("", "Interrupted.\n")
    assert not (tmp_path / "new" / "run.json").exists()


MINE = """
import os
from dataclasses import replace
import coreplan

def problem():
    base = coreplan.make("river-swim")
    def step(rng, states, actions):
        os.kill(os.getpid(), {number})
        return base.model.step(rng, states, actions)
    return replace(base, model=coreplan.FunctionModel(2, base.model.initial, step), tabular=None)
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_every_signal_has_an_exit_code_of_its_own(name, code, tmp_path, monkeypatch, capsys):
    (tmp_path / f"stops_by_{name}.py").write_text(MINE.format(number=int(getattr(signal, name))))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "argv", ["coreplan", "plan", f"stops_by_{name}:problem", "--json", "--out", "run"]
    )
    with pytest.raises(SystemExit) as caught:
        main()
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert caught.value.code == code and err == "No evaluation: It was interrupted.\n"
    assert record["status"] == "interrupted" and record["queries"] > 0
