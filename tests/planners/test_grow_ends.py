"""Ends of episodes in `Grow`: they are noticed from samples, restart chains, and are worth exactly what they pay."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan import FunctionFeatures, FunctionModel, Grow, Problem
from coreplan.base.files import read_npz, write_npz
from coreplan.planners import doubts
from coreplan.planners.grow.state import alike, noisy
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
    assert state["end_index"][0, 0, state["end_weight"][0, 0] != 0].tolist() == [
        2 * LENGTH - 2,
        2 * LENGTH - 1,
    ]
    assert (result.policy.act(np.arange(LENGTH - 1), 0) == 1).all()
    at = (state["states"][state["filled"] // 2 :] == LENGTH - 1).mean()
    assert (
        0 < at < 2 / LENGTH
    )  # one visit per episode of at least LENGTH states, and not four horizons of them


@pytest.mark.parametrize("spec", ["cart-pole:features=polynomial", "cart-pole:grid=3"])
def test_the_ends_of_the_zoo_are_noticed(spec, tmp_path):
    """One feature for the fallen pole beside coordinates of weight 0, and one feature per action."""
    _, state, _, _ = last_state(coreplan.make(spec), tmp_path)
    assert len(state["end_rewards"]) == 1


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


def samples(elsewhere=(), other_reward=(), own=False, n=N):
    """Two actions, one-hot features of five states: state 4 stays, the others lead on; state 3 has one feature, too.

    Rows have a second index, of weight 0, that differs between actions. `own`: state 4 has a feature per action.
    """
    states, actions = np.arange(n) % 5, np.arange(n) // 5 % 2
    to = np.minimum(states + 1, 4)
    to[list(elsewhere)] = 0
    rewards = np.where(states == 4, PAID, 0.5)
    rewards[list(other_reward)] = 0.9

    def phi(x, a):
        number = np.where((x == 3) | ((x == 4) & (not own)), 2 * x, 2 * x + a)
        index = np.stack([number, np.broadcast_to(a, number.shape)], axis=-1)
        return Sparse(index.astype(np.int32), np.tile([1.0, 0.0], (*number.shape, 1)))

    return phi(states, actions), actions, phi(to[:, None], np.arange(2)), rewards, states == to


def ends_are_right(module):
    for own in (False, True):
        pair, actions, next_phi, rewards, same = samples(own=own)
        found = module.noticed(pair, actions, next_phi, rewards, same)
        assert found.index[:, :, 0].tolist() == [[8, 9 if own else 8]] and found.rewards.tolist() == [PAID]
        seen = module.exits(pair, next_phi, found)
        assert (seen.inside == (np.arange(N) % 5 == 4)).all()
        assert (seen.ended == (np.arange(N) % 5 >= 3)).all() and (seen.rewards == PAID * seen.ended).all()
        assert len(module.noticed(*samples(elsewhere=[199], own=own)).rewards) == 0  # it was left once
        assert len(module.noticed(*samples(other_reward=[4], own=own)).rewards) == 0
        assert len(module.noticed(*samples(own=own, n=100)).rewards) == 0  # twenty samples are too few
        moved = module.noticed(pair, actions, next_phi, rewards, np.zeros(N, dtype=bool))
        assert len(moved.rewards) == (0 if own else 1)  # features per action may be too coarse to show a move
        theta, free = np.arange(11.0), np.isin(np.arange(11), (8, 9))
        module.completed(theta, found, free, GAMMA)
        assert theta[8] == pytest.approx(PAID / (1 - GAMMA)) and theta[9] == (
            pytest.approx(theta[8]) if own else 9
        )
        assert (theta[~free] == np.arange(11.0)[~free]).all()


def test_ends_of_samples():
    ends_are_right(ends)


FAULTS = {
    "one sample is enough": ("LEAST = 30", "LEAST = 1"),
    "leaving is overlooked": ("[at[~stays], _several(at, rewards)]", "[_several(at, rewards)]"),
    "rewards are overlooked": ("[at[~stays], _several(at, rewards)]", "[at[~stays]]"),
    "one action is enough": ("| (to == 0)).all(axis=1)", "| (to == 0)).any(axis=1)"),
    "indices of weight 0 count": ("if weight[n, a, k] != 0.0:", "if True:"),
    "moves that features do not show": ("(shared | same)", "(shared | True)"),
    "features per action are no end": ("(shared | same)", "shared"),
    "the value of one step": ("reward / (1.0 - discount)", "reward"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_ends_are_noticed(fault, tmp_path, monkeypatch):
    with pytest.raises(AssertionError):
        ends_are_right(mutant(ends, *FAULTS[fault], tmp_path, monkeypatch))


@pytest.mark.parametrize(("leaves", "expected"), [(0.0, False), (0.1, True)])
def test_noise_is_noticed(leaves, expected, tmp_path):
    """The first pairs are asked twice, and these cells are visited hundreds of times."""
    _, state, _, _ = last_state(corridor(leaves), tmp_path)
    chosen = type("Samples", (), state)
    assert noisy(chosen, int(state["filled"])) == expected
    first = state["states"][:2], state["actions"][:2]
    pairs = len(state["kind"]) * 2
    assert all(
        (a == state[name][pairs : pairs + 2]).all()
        for a, name in zip(first, ("states", "actions"), strict=True)
    )


@pytest.mark.parametrize(("leaves", "ridge", "acting"), [(0.0, 1e-3, 1), (0.1, 1e-2, 2)])
def test_without_noise_the_ridge_is_smaller_and_fewer_chains_are_greedy(leaves, ridge, acting, tmp_path):
    _, state, _, _ = last_state(corridor(leaves), tmp_path)
    chosen = type("Samples", (), {**state, "filled": int(state["filled"])})
    assert Grow()._ridge(chosen) == ridge and Grow(ridge=0.5)._ridge(chosen) == 0.5
    assert np.bincount(state["kind"], minlength=3).tolist() == [3 - acting, acting, 1]


def test_the_advice_fits_the_features():
    """Features of its own for each action are no cure where each action has them."""
    index, weight = np.zeros((4, 2, 2), dtype=np.int32), np.tile([1.0, 0.0], (4, 2, 1))
    index[:, 1, 1] = 7  # of weight 0
    assert alike(index, weight) and "features of its own" in doubts.no_gain(True).reason
    index[:3, 1, 0] = 5
    assert not alike(index, weight) and "features of its own" not in doubts.no_gain(False).reason
