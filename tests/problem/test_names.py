"""Names of coordinates, actions and the reward: checked, kept by every change of a problem, and said in messages."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import coreplan
from coreplan.base import InputError, SimulatorError
from coreplan.problem import ZOO, FunctionModel, Problem, interpolation, make, with_horizon
from coreplan.simulate import Simulator

STATE, ACTION, REWARD = ("position", "velocity"), ("brake", "go"), "metres"


def small(step=None, **more):
    def stay(rng, states, actions):
        return np.zeros(len(states)), states

    model = FunctionModel(2, lambda rng, n: np.full((n, 2), 0.5), step or stay)
    return Problem(model, interpolation([0.0, 0.0], [1.0, 1.0], [2, 2], 2), 0.9, **more)


def named(**more):
    return small(**{"state_names": STATE, "action_names": list(ACTION), "reward_name": REWARD} | more)


def given(problem):
    return problem.state_names, problem.action_names, problem.reward_name


def test_names_are_kept_by_every_change_of_a_problem():
    problem = named()
    assert given(problem) == (STATE, ACTION, REWARD)
    mask = lambda states: np.ones((len(states), 2), dtype=bool)  # noqa: E731
    clocked = with_horizon(problem, 5)
    for changed in (
        dataclasses.replace(problem, name="other"),
        dataclasses.replace(problem, mask=mask),
        clocked,
        dataclasses.replace(clocked, name="other"),
        dataclasses.replace(clocked, discount=0.5),
        with_horizon(clocked, 7, discount=1.0),
        dataclasses.replace(clocked, mask=mask),
    ):
        assert given(changed) == (STATE, ACTION, REWARD)


def test_columns_that_coreplan_appends_have_names_too():
    assert with_horizon(named(), 5).names.columns(4) == [*STATE, "step", "ended"]
    assert named().names.columns(2) == [*STATE]
    assert small().names.columns(2) == ["state[0]", "state[1]"]


@pytest.mark.parametrize(
    ("names", "part"),
    [
        (
            {"state_names": ("position",)},
            "list of 2 names, one for each of a state's 2 numbers; got 1 of them",
        ),
        ({"state_names": "ab"}, "list of 2 names"),
        ({"action_names": ("a", "b", "c")}, "one for each of 2 actions; got 3 of them"),
        ({"action_names": ("go", "go")}, "has 'go' twice"),
        ({"action_names": ("go", "st\x1bop")}, "can be printed"),
        ({"action_names": ("go", " ")}, "empty name"),
        ({"state_names": ("position", 3)}, "must be a text"),
        ({"reward_name": ""}, "empty name"),
        ({"reward_name": "a\nb"}, "in one line"),
    ],
)
def test_names_are_checked(names, part):
    with pytest.raises(InputError, match=part):
        small(**names)


def test_states_without_numbers_have_no_coordinates_to_name():
    model = FunctionModel(2, lambda rng, n: np.full(n, "here"), lambda rng, x, a: (np.zeros(len(x)), x))
    phi = coreplan.FunctionFeatures(lambda states: np.ones((len(states), 2, 1)), 2, 1, 1.0)
    with pytest.raises(InputError, match="states must be numbers"):
        Problem(model, phi, 0.9, state_names=("place",))


def test_a_message_names_the_pair():
    def bad(rng, states, actions):
        return np.full(len(states), np.nan), states

    simulator = Simulator(named(step=bad))
    with pytest.raises(
        SimulatorError, match=r"for state \(position: 0\.5, velocity: 0\.25\) and action 1 \(go\)"
    ):
        simulator.step(np.array([[0.5, 0.25]]), np.array([1]))
    with pytest.raises(SimulatorError, match=r"for state \[0\.5, 0\.25\] and action 1;"):
        Simulator(small(step=bad)).step(np.array([[0.5, 0.25]]), np.array([1]))


def test_the_warning_of_states_outside_the_box_names_the_coordinate():
    def away(rng, states, actions):
        return np.zeros(len(states)), states + np.array([0.0, 3.0])

    with pytest.warns(coreplan.CoverageWarning, match="coordinate 1, velocity"):
        coreplan.plan(named(step=away), budget=200, reality=0.0)


def test_a_run_keeps_the_names_and_resumes_under_other_ones(tmp_path):
    coreplan.plan(named(), budget=200, out=tmp_path)
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["names"] == {"state": [*STATE], "action": [*ACTION], "reward": REWARD}
    coreplan.plan(small(), budget=300, out=tmp_path, resume=True)  # names are no part of what a run is
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["names"] == {"state": None, "action": None, "reward": None}


@pytest.mark.parametrize("name", ["cart-pole", "acrobot"])
def test_a_problem_whose_own_last_column_is_taken_over_by_coreplan_has_a_name_less(name):
    with_grid, alone = make(name), make(f"{name}:features=none")
    assert with_grid.state_names[:4] == alone.state_names
    assert alone.names.columns(5) == [*alone.state_names, "ended"]


def test_abstract_problems_have_no_names_and_the_others_do():
    problems = {name: make(name) for name in ZOO}  # each checks its own names
    without = {name for name, problem in problems.items() if problem.state_names is None}
    assert without == {"random-linear", "river-linear", "hard-linear"}
    assert problems["inventory"].names.action_said(5) == "5 (order 6 and 12)"
    assert problems["mountain-car"].state_names == ("position", "velocity")
