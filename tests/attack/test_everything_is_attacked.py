"""Whoever adds a public callable, a command or a file format adds its generator, or one of these tests fails."""

from __future__ import annotations

import inspect

import pytest

import coreplan
from coreplan import bench, run
from coreplan.core import CORE_FILE
from coreplan.planners import PLANNERS
from coreplan.policy import POLICY_FILE
from helpers.attack import tables
from helpers.attack.calls import CALLS, LEFT_OUT, callable_of, public
from helpers.attack.commands import LINES, tree
from helpers.attack.simulators import SETTINGS
from helpers.attack.stored import FORMATS
from helpers.runs import numpy_problem


def test_every_public_callable_has_a_valid_call():
    found = set(public())
    called = {name if name in found else name.rpartition(".")[0] for name in CALLS}
    assert found - called - LEFT_OUT.keys() == set(), (
        "add a call to helpers/attack/calls.py, or say why there is none"
    )
    assert (called | LEFT_OUT.keys()) - found == set(), "helpers/attack/calls.py speaks of what is gone"
    assert called & LEFT_OUT.keys() == set()


@pytest.mark.parametrize("name", CALLS)
def test_valid_calls_name_parameters_that_exist(name):
    known = inspect.signature(callable_of(name)).parameters
    assert CALLS[name]().keys() <= known.keys()


def test_every_command_has_a_valid_line():
    assert tree().keys() == LINES.keys()


def test_every_file_format_is_mutated(tmp_path):
    """What a run leaves behind, and every name of a file that the parts declare."""
    core = coreplan.CoreSet.of(numpy_problem())
    other = coreplan.CoreSet(core.states[::-1], core.actions[::-1])
    coreplan.plan(numpy_problem(), core=other, budget=4_000, out=tmp_path, evaluate=10, certify=True)
    left = {path.name for path in tmp_path.iterdir()} - {".lock"}
    declared = {value for name, value in vars(run).items() if name.endswith("_FILE")} | {
        CORE_FILE,
        POLICY_FILE,
    }
    assert left | declared == set(FORMATS)


def test_every_format_of_a_comparison_is_mutated(tmp_path):
    tables.compared(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} - {".lock"} == set(tables.FORMATS)
    assert {value for name, value in vars(bench).items() if name.endswith("_FILE")} == set(tables.FORMATS)


def test_every_planner_is_attacked():
    assert SETTINGS.keys() == PLANNERS.keys()
