"""Ends of episodes in `Grow`: they are noticed from samples, restart chains, and are worth exactly what they pay."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan import FunctionFeatures, FunctionModel, Grow, Problem
from coreplan.base.files import read_npz, write_npz
from coreplan.problem import Sparse
from coreplan.run.folder import KIND, VERSION
from coreplan.sampled import ends
from helpers.mutants import mutant
from helpers.runs import plan

N, LENGTH, GAMMA, PAID = 200, 6, 0.9, 0.25


def corridor(leaves=0.0):
    """Cells 0 to 4; action 1 leads on, 0 back to the start. Cell 5 pays PAID for ever; it is left with some probability."""

    def step(rng, states, actions):
        end = states == LENGTH - 1
        y = np.where(actions == 1, np.minimum(states + 1, LENGTH - 1), 0)
        stays = rng.random(len(states)) >= leaves
        return np.where(end, PAID, 0.0), np.where(end, np.where(stays, LENGTH - 1, 0), y)

    def phi(states):
        """One-hot pairs, and one feature for the last cell whatever the action."""
        return np.eye(2 * LENGTH - 1)[np.minimum(2 * states[:, None] + np.arange(2), 2 * LENGTH - 2)]

    model = FunctionModel(2, lambda rng, n: np.zeros(n, dtype=np.int64), step)
    return Problem(model, FunctionFeatures(phi, 2, 2 * LENGTH - 1, 1.0), GAMMA)


def last_state(problem, tmp_path, budget=2000):
    result = plan(problem, planner=Grow(), budget=budget, seed=1, out=tmp_path)
    arrays, meta = read_npz(tmp_path / "checkpoint.npz", KIND, VERSION)
    return result, {k.removeprefix("state."): v for k, v in arrays.items()}, arrays, meta


def test_the_end_of_a_corridor_is_noticed_and_chains_leave_it(tmp_path):
    result, state, _, _ = last_state(corridor(), tmp_path)
    assert state["end_rewards"].tolist() == [PAID]
    assert state["end_index"][0, state["end_weight"][0] != 0].tolist() == [2 * LENGTH - 2, 2 * LENGTH - 1]
    assert (result.policy.act(np.arange(LENGTH - 1), 0) == 1).all()
    at = (state["states"][state["filled"] // 2 :] == LENGTH - 1).mean()
    assert (
        0 < at < 2 / LENGTH
    )  # one visit per episode of at least LENGTH states, and not four horizons of them


def test_values_before_an_end_are_exact():
    """One-hot features: V = gamma^k PAID / (1 - gamma) k steps before the end, which has a value of its own."""
    problem = corridor()
    result = coreplan.plan(problem, planner=Grow(ridge=1e-9, horizon=1.0), budget=2000, seed=1)
    assert result.believed == pytest.approx(GAMMA ** (LENGTH - 1) * PAID, abs=2e-4)


def test_a_state_that_is_left_is_no_end(tmp_path):
    _, state, _, _ = last_state(corridor(leaves=0.1), tmp_path)
    assert len(state["end_rewards"]) == 0


def test_damaged_ends_are_refused(tmp_path):
    problem = corridor()
    _, _, arrays, meta = last_state(problem, tmp_path)
    for name, change in {
        "end_rewards": lambda a: a + 0.1,
        "end_weight": lambda a: a[:0],
        "end_index": lambda a: a + 1,
    }.items():
        key = f"state.{name}"
        write_npz(tmp_path / "checkpoint.npz", {**arrays, key: change(arrays[key])}, meta)
        with pytest.raises(coreplan.FileError, match="damaged"):
            plan(problem, planner=Grow(), budget=2500, out=tmp_path, resume=True)


def samples(elsewhere=(), other_reward=()):
    """Two actions, one-hot features of five states: state 4 stays, the others lead on; state 3 has one feature, too."""
    states = np.arange(N) % 5
    to = np.minimum(states + 1, 4)
    to[list(elsewhere)] = 0
    rewards = np.where(states == 4, PAID, 0.5)
    rewards[list(other_reward)] = 0.9
    number = np.where(states >= 3, 2 * states, 2 * states + np.arange(N) // 5 % 2)
    next_number = np.where(to[:, None] >= 3, 2 * to[:, None], 2 * to[:, None] + np.arange(2))
    pair = Sparse(number[:, None].astype(np.int32), np.ones((N, 1)))
    return pair, Sparse(next_number[:, :, None].astype(np.int32), np.ones((N, 2, 1))), rewards


def ends_are_right(module):
    pair, next_phi, rewards = samples()
    found = module.noticed(pair, next_phi, rewards)
    assert found.index.tolist() == [[8]] and found.rewards.tolist() == [PAID]
    seen = module.exits(pair, next_phi, found)
    assert (seen.inside == (np.arange(N) % 5 == 4)).all()
    assert (seen.ended == (np.arange(N) % 5 >= 3)).all() and (seen.rewards == PAID * seen.ended).all()
    assert len(module.noticed(*samples(elsewhere=[199])).rewards) == 0  # it was left once
    assert len(module.noticed(*samples(other_reward=[4])).rewards) == 0
    few = (Sparse(p.index[:100], p.weight[:100]) for p in (pair, next_phi))
    assert len(module.noticed(*few, rewards[:100]).rewards) == 0  # twenty samples are too few
    theta = np.arange(10.0)
    module.completed(theta, found, np.arange(10) == 8, GAMMA)
    assert (
        theta[8] == pytest.approx(PAID / (1 - GAMMA))
        and (np.delete(theta, 8) == np.delete(np.arange(10.0), 8)).all()
    )


def test_ends_of_samples():
    ends_are_right(ends)


FAULTS = {
    "one sample is enough": ("LEAST = 30", "LEAST = 1"),
    "leaving is overlooked": ("not stays[n] or rewards[n] != reward", "rewards[n] != reward"),
    "rewards are overlooked": ("not stays[n] or rewards[n] != reward", "not stays[n]"),
    "one action is enough": ("                return False", "                return True"),
    "the value of one step": ("reward / (1.0 - discount)", "reward"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_ends_are_noticed(fault, tmp_path, monkeypatch):
    with pytest.raises(AssertionError):
        ends_are_right(mutant(ends, *FAULTS[fault], tmp_path, monkeypatch))
