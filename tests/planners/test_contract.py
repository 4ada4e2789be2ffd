"""Every planner of the registry keeps the contract, and so does the worked one of docs/add-a-planner.md."""

from __future__ import annotations

import re

import pytest

import coreplan
from coreplan.planners import PLANNERS, registry
from coreplan.planners.testing import CHECKS, check_planner, planner_checks
from helpers.places import ROOT

RELATIVES = {planner.name for planner in registry.RELATIVES}
PAGE = ROOT / "docs" / "add-a-planner.md"


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("planner", PLANNERS)
def test_registered_planners(planner, name):
    few = {"budget": 600} if planner in RELATIVES else {}  # there are many of them
    dict(planner_checks(PLANNERS[planner](), **few))[name]()


def worked():
    """The first Python block of the page: the planner."""
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)[0]
    return code


def test_the_worked_planner():
    """It is at most 45 lines long, passes the contract, and plans."""
    code = worked()
    assert len([line for line in code.splitlines() if line.strip()]) <= 45
    names = {}
    exec(compile(code, str(PAGE), "exec"), names)
    planner = names["AveragedBackups"]()
    check_planner(planner)
    problem = coreplan.make("random-linear")
    result = coreplan.plan(problem, planner=planner, budget=4000, seed=0)
    assert planner.name == "averaged-backups"
    assert coreplan.evaluate(problem, result.policy).sub < 0.05


BROKEN = {
    "same seed same bits": ("np.zeros(self.setup.m)", "np.random.rand(self.setup.m)"),
    "who simulates changes nothing": ("np.zeros(self.setup.m)", "np.random.rand(self.setup.m)"),
    "kill and resume": ("sweeps=0)", "sweeps=0)\n    hidden = [0]"),
    "read out is finite": ("np.inf if state.sweeps else 1.0", "1.0 if state.sweeps < 3 else np.nan"),
    "looking changes nothing": ("return ReadOut(", "state.q[0] += 1\n        return ReadOut("),
    "settings round trip": ("speed: float = 1.0", "speed: object = frozenset()"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_contract_notices(name):
    """One deliberate fault per check: the check of that name fails."""
    old, new = BROKEN[name]
    code = worked()
    assert old in code
    code = code.replace(old, new, 1)
    if name == "kill and resume":  # something that a checkpoint does not hold
        code = code.replace(
            "        gamma = self.setup.discount\n",
            "        gamma = self.setup.discount\n        self.hidden[0] += 1\n",
            1,
        )
        code = code.replace("answers.rewards + gamma * V", "answers.rewards / self.hidden[0] + gamma * V", 1)
    names = {}
    exec(compile(code, "broken", "exec"), names)
    planner = names["AveragedBackups"]()
    with pytest.raises((AssertionError, coreplan.CoreplanError, TypeError)):
        dict(planner_checks(planner))[name]()


def test_a_resolved_planner_can_be_used_for_another_problem():
    """What was derived from one setup does not follow it to the next."""
    first = coreplan.plan(coreplan.make("random-linear"), planner=coreplan.CoreMirror(), budget=400)
    other = coreplan.make("river-swim")
    again = coreplan.plan(other, planner=first.planner, budget=1200, seed=1)
    fresh = coreplan.plan(other, planner=coreplan.CoreMirror(), budget=1200, seed=1)
    assert again.policy.theta.tobytes() == fresh.policy.theta.tobytes()


FIELDS = {
    "a number, where it was a whole number": ("sweeps=state.sweeps + 1)", "sweeps=state.sweeps + 0.5)"),
    r"float32 \(8,\), where it was": ("return State(q=q,", "return State(q=q.astype(np.float32),"),
    r"float64 \(9,\), where it was": ("return State(q=q,", "return State(q=np.append(q, 0.0),"),
    "the core pairs 0, 1, ": ("np.arange(self.setup.m), sweep", "np.arange(self.setup.m)[::-1], sweep"),
    "cannot be its columns: queries": (
        "    def _theta",
        '    def numbers(self, state):\n        return {"queries": 1.0}\n\n    def _theta',
    ),
    "settings that no file can hold": ("speed: float = 1.0", "speed: object = object()"),
    "where `size` says 1": (
        "    def _theta",
        "    def size(self, state):\n        return 1\n\n    def _theta",
    ),
}


@pytest.mark.parametrize("words", FIELDS)
def test_what_a_checkpoint_or_a_trace_cannot_hold_is_refused_before_it_costs(words, tmp_path):
    """One paragraph that names the field, before a query is made."""
    old, new = FIELDS[words]
    code = worked()
    assert old in code
    names = {}
    exec(compile(code.replace(old, new, 1), "broken", "exec"), names)
    calls, base = [], coreplan.make("random-linear:compiled=false")

    def step(rng, x, a):
        calls.append(len(a))
        return base.model.step(rng, x, a)

    problem = coreplan.Problem(
        coreplan.FunctionModel(4, base.model.initial, step), base.features, 0.9, core_pairs=base.core_pairs
    )
    with pytest.raises(coreplan.InputError, match=words):
        coreplan.plan(problem, planner=names["AveragedBackups"](), budget=400, out=tmp_path)
    assert sum(calls) == 0
