"""What a user's function is given is not its own: it is read-only. What it returns is copied: it may keep its arrays."""

from __future__ import annotations

import dataclasses

import numba
import numpy as np
import pytest

import coreplan
from coreplan import CoreSet, FunctionFeatures, FunctionModel, Problem
from coreplan.core import rollout_pool
from coreplan.features import CompiledFeatures, with_terminal
from coreplan.judge import evaluate
from coreplan.planners import PLANNERS
from coreplan.problem import CompiledModel, NoiseModel, ScalarModel
from coreplan.simulate import Simulator
from helpers.runs import plan, planner

RIVER = coreplan.make("river-swim")
FEW = 2000  # queries

# The others need bounds or a table, and are refused before they simulate.
FROM_SAMPLES = sorted(
    n for n, p in PLANNERS.items() if not p.needs_box and not p.needs_table and p.core_of != "all"
)


def river(step=None, initial=None, features=None, **changes):
    """river-swim as NumPy functions, with parts replaced."""
    f, model = RIVER.features, FunctionModel(2, initial or RIVER.model.initial, step or RIVER.model.step)
    phi = FunctionFeatures(features or f.__call__, 2, f.dimension, f.radius, nonzeros=f.nonzeros, name="swim")
    return Problem(model, phi, RIVER.discount, core_pairs=RIVER.core_pairs, **changes)


def shifted(states):
    states -= 2
    return RIVER.features(states + 2)


def emptying(rng, states, actions):
    answer = RIVER.model.step(rng, states, actions)
    states[:] = 0
    return answer


def refused(call, who, kind=coreplan.CoreplanError):
    with pytest.raises(kind, match="changes its input in place") as caught:
        call()
    text = str(caught.value)
    assert who in text and "work on a copy" in text and "read-only" in text and len(text) < 500


@pytest.mark.parametrize("name", FROM_SAMPLES)
def test_a_feature_map_that_changes_its_states(name):
    """Without the refusal the value falls from .67 to .005, and nobody is told."""
    problem = river(features=shifted)
    before = RIVER.core_pairs[0].copy()
    refused(lambda: plan(problem, planner=name, budget=FEW), "The feature map 'swim'", coreplan.FeatureError)
    np.testing.assert_array_equal(RIVER.core_pairs[0], before)


@pytest.mark.parametrize("name", FROM_SAMPLES)
def test_a_simulator_that_changes_its_states(name):
    problem = river(step=emptying)
    refused(lambda: plan(problem, planner=name, budget=FEW), "The simulator's step", coreplan.SimulatorError)


def test_a_simulator_that_changes_its_actions():
    def step(rng, states, actions):
        actions += 0
        return RIVER.model.step(rng, states, actions)

    refused(lambda: plan(river(step), planner=planner(), budget=FEW), "The simulator's step")


def test_a_step_with_noise_that_changes_its_noise():
    def step(states, actions, noise):
        noise *= 0.5
        return np.zeros(len(states)), states

    model = NoiseModel(2, RIVER.model.initial, step, 1)
    problem = dataclasses.replace(river(), model=model)
    refused(lambda: plan(problem, planner="plug-in", budget=FEW), "The simulator's step_with")


def test_masks_ends_baselines_and_policies_that_change_their_states():
    def mask(states):
        states[:] = 0
        return np.ones((len(states), 2), dtype=bool)

    refused(lambda: river(mask=mask), "The mask", coreplan.FeatureError)

    def ends(states):
        states[:] = 0
        return np.zeros(len(states), dtype=bool)

    def rule(states):
        states.sort()
        return np.zeros(len(states), dtype=int)

    policy = coreplan.SoftmaxPolicy.uniform(river().features)
    refused(lambda: evaluate(river(ends=ends), policy, rollouts=4), "`Problem(ends=...)`")
    refused(lambda: coreplan.plan(river(), budget=FEW, baseline=rule), "`baseline`", coreplan.InputError)

    class Acts:
        def act(self, states, rng):
            return rule(states)

    refused(lambda: rollout_pool(river(), Acts(), 20), "policy.act", coreplan.InputError)


def test_an_observation_that_changes_the_state():
    def observe(states):
        states *= 2.0
        return states

    base = FunctionFeatures(lambda x: np.ones((len(x), 2, 1)), 2, 1, 1.0)
    features = with_terminal(base, observe, columns=1)
    states = np.array([[1.0, 0.0], [2.0, 0.0]])
    policy = coreplan.SoftmaxPolicy.uniform(features)
    refused(lambda: policy.act(states, 0), "with terminal", coreplan.FeatureError)
    assert states.tolist() == [[1.0, 0.0], [2.0, 0.0]]


def test_an_error_that_only_speaks_of_writing_stays_what_it_is():
    def step(rng, states, actions):
        raise OSError(30, "read-only file system")

    with pytest.raises(coreplan.SimulatorError, match="raised OSError") as caught:
        plan(river(step), planner=planner(), budget=FEW)
    assert "in place" not in str(caught.value)


def test_core_pairs_are_read_only_and_not_those_of_the_caller():
    states, actions = RIVER.core_pairs[0].copy(), RIVER.core_pairs[1].copy()
    core = CoreSet(states, actions)
    states[:], actions[:] = 0, 0
    np.testing.assert_array_equal(core.states, RIVER.core_pairs[0])
    with pytest.raises(ValueError, match="read-only"):
        core.states[0] = 3
    with pytest.raises(ValueError, match="read-only"):
        core.actions[0] = 1


@numba.njit(cache=True)
def _greedy_step(rng, data, states, actions, rewards, next_states):
    for n in range(len(states)):
        rewards[n] = 0.5 * actions[n]
        next_states[n] = (states[n] + 1) % 6
        states[n] = 0
        actions[n] = 0


@numba.njit(cache=True)
def _initial(rng, data, states):
    for n in range(len(states)):
        states[n] = 0


@numba.njit(cache=True)
def _greedy_features(data, states, out):
    out[:] = 0.0
    for n in range(len(states)):
        for a in range(2):
            out[n, a, 2 * states[n] + a] = 1.0
        states[n] = 5


def test_compiled_code_that_writes_into_its_input_harms_nobody():
    model = CompiledModel(2, initial_kernel=_initial, step_kernel=_greedy_step)
    features = CompiledFeatures(_greedy_features, 2, 12, 1.0)
    pairs = np.repeat(np.arange(6), 2), np.tile([0, 1], 6)
    problem = Problem(model, features, 0.9, core_pairs=pairs)
    core = CoreSet.of(problem)
    assert np.array_equal(core.features(features), np.eye(12))
    found = plan(problem, core, "core-mirror", budget=FEW)
    np.testing.assert_array_equal(core.states, pairs[0])
    best = dataclasses.replace(found.policy, scale=np.inf)
    assert (best.act(np.arange(6)) == 1).all()
    assert evaluate(problem, best, rollouts=50).value == pytest.approx(0.5, abs=1e-3)


def overwriting():
    """A simulator that hands out the same two arrays again and again."""
    rewards, after = np.zeros(4096), np.zeros(4096, dtype=np.int64)

    def step(rng, states, actions):
        n = len(states)
        rewards[:n], after[:n] = RIVER.model.step(rng, states, actions)
        return rewards[:n], after[:n]

    def initial(rng, n):
        after[:n] = RIVER.model.initial(rng, n)
        return after[:n]

    return dataclasses.replace(river(), model=FunctionModel(2, initial, step, block=16))


@pytest.mark.parametrize("name", ["plug-in", "sampled-lp", "grow"])
def test_arrays_that_a_simulator_overwrites_are_copied_in_time(name):
    """With blocks of 16 an ask takes several calls; the answers of the first must survive the second."""
    one = plan(overwriting(), planner=name, budget=FEW, block=16)
    two = plan(river(), planner=name, budget=FEW, block=16)
    assert one.policy.theta.tobytes() == two.policy.theta.tobytes()
    model = FunctionModel(2, RIVER.model.initial, RIVER.model.step, block=16)
    problems = overwriting(), dataclasses.replace(river(), model=model)
    values = [evaluate(problem, one.policy, rollouts=20).value for problem in problems]
    assert values[0] == values[1]


def test_a_simulator_that_returns_its_own_input():
    problem = river(step=lambda rng, states, actions: (np.zeros(len(states)), states))
    simulator = Simulator(problem, CoreSet.of(problem))
    states = simulator.core.states
    after = simulator.step(states, simulator.core.actions)[1]
    assert after.tolist() == states.tolist() and not np.shares_memory(after, states)


def test_one_state_at_a_time_may_be_changed():
    """A ScalarModel hands out copies, since changing one's state is what code of one state does."""

    def step(rng, state, action):
        state += 1
        return 0.0, state % 6

    problem = dataclasses.replace(river(), model=ScalarModel(2, lambda rng: 0, step))
    simulator = Simulator(problem, CoreSet.of(problem))
    assert simulator.step(np.array([0, 5]), np.array([0, 1]))[1].tolist() == [1, 0]
