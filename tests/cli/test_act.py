"""`coreplan act`: what a policy does in a state that somebody types."""

from __future__ import annotations

import json

import numpy as np
import pytest

import coreplan
from coreplan.base import InputError
from coreplan.problem import ZOO, at_time, make, typed_state
from helpers.commands import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("act") / "run"
    coreplan.plan(make("inventory:grid=3"), budget=300, out=out)
    return out


def test_it_prints_probabilities_scores_and_names(folder):
    policy, x = coreplan.load_policy(folder), np.array([3.0, 12.0])
    record = json.loads(run("act", folder, "--state", "3, 12", "--json").stdout)
    assert record["probabilities"] == policy.probabilities(x).tolist()
    assert record["q_values"] == policy.q_values(x).tolist()
    assert record["action"] == policy.act(x) == np.argmax(record["q_values"])
    assert record["state"] == [3.0, 12.0] and record["problem"] == "inventory:grid=3"
    assert record["names"]["action"][5] == "order 6 and 12" and record["names"]["reward"] == "profit"
    by_name = run("act", folder, "--state", "stock of product 2=12, stock of product 1=3", "--json")
    assert json.loads(by_name.stdout) == record
    table = run("act", folder / "policy.npz", "--state", "3, 12").stdout
    assert "stock of product 2: 12.0" in " ".join(table.split()) and "order 6 and 12" in table


@pytest.mark.parametrize(
    ("state", "part"),
    [
        ("3", "is 2 numbers (stock of product 1, stock of product 2); got 1"),
        ("3, x", "'x' in the state '3, x' is no finite number"),
        ("3, nan", "is no finite number"),
        ("", "A state is at least one number"),
        ("stock of product 1=3", "The state lacks 'stock of product 2'"),
        ("stock=3, x=1", "There is no coordinate 'stock'."),
        ("stock of product 1=3, stock of product 1=3", "is given twice"),
    ],
)
def test_a_state_that_is_none_is_refused(state, part):
    with pytest.raises(InputError) as caught:
        typed_state(state, make("inventory"))
    assert part in str(caught.value)


def test_a_policy_on_a_tree_needs_no_problem(tmp_path):
    """And its run remembers what things are called."""
    box = make("mountain-car:features=none")
    problem = coreplan.Problem(
        box.model,
        None,
        0.99,
        reward_range=(-1, 0),
        box=box.bounds,
        state_names=["place", "pace"],
        ends=box.ends,
    )
    coreplan.plan(problem, budget=3_000, reality=0, out=tmp_path)
    record = json.loads(run("act", tmp_path, "--state", "pace=0.01, place=-0.5", "--json").stdout)
    assert record["state"] == [-0.5, 0.01] and len(record["probabilities"]) == 3


def test_with_a_horizon_the_step_is_an_option(tmp_path):
    coreplan.plan(make("river-swim:horizon=5"), budget=500, reality=0, out=tmp_path)
    policy = coreplan.load_policy(tmp_path)
    record = json.loads(run("act", tmp_path, "--state", "2", "--step", "4", "--json").stdout)
    assert record["q_values"] == policy.q_values(at_time([2], 4))[0].tolist()
    answer = run("act", tmp_path, "--state", "2", "--step", "5", code=2)
    assert "steps are 0 to 4, got 5" in answer.stderr


def test_every_state_of_the_zoo_can_be_typed():
    for name in ZOO:
        problem = make(name)
        x = problem.model.initial(np.random.default_rng(0), 1)
        typed = typed_state(str(np.asarray(x[0]).ravel().tolist()), problem)
        assert typed.dtype == x.dtype and np.array_equal(typed, x), name


def test_whole_states_take_whole_numbers():
    with pytest.raises(InputError, match="are whole numbers; got"):
        typed_state("0.5", make("river-swim"))
    with pytest.raises(InputError, match="have no names"):
        typed_state("x=1", make("random-linear"))
