"""The guard around a simulator: answers that are none, and noise that decides nothing."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import coreplan
from coreplan.problem import NoiseModel, ScalarModel, from_pairs
from coreplan.simulate import Guard
from helpers.walks import NOISY, all_steps, problem_of

OLD = np.random.mtrand._rand  # the generator behind np.random.random, np.random.randn, ...


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (0.5, "returned 0.5 for state 0 and action 1, a float. It must return (reward, next_state)"),
        ({"reward": 0.5, "state": 1}, "a dict. It must return (reward, next_state)"),
        (np.array([0.5, 1.0]), "a ndarray. It must return (reward, next_state)"),
        ((0.5, 1, 2), "a tuple of 3. It must return (reward, next_state)"),
        ((1, 2, 3, 4), "a tuple of 4"),
        (([0.5], 1), "whose reward is [0.5], not one number"),
        (("much", 1), "whose reward is 'much', not one number"),
        ((None, 1), "whose reward is None"),
        ((0.5, None), "whose next state is None, not made of numbers"),
        ((0.5, {"x": 1}), "not made of numbers"),
        ((0.5, [1, [2, 3]]), "not made of numbers"),
        ((0.5, [1, 2]), "shape (2,)"),
        ((2.0, 1), "outside the declared range"),
    ],
)
def test_scalar_answers_that_are_none(answer, words):
    model = ScalarModel(2, lambda rng: 0, lambda rng, x, a: answer)
    with pytest.raises(coreplan.SimulatorError) as caught:
        Guard(problem_of(model), np.zeros(1, dtype=int)).step(None, np.array([0, 1]), np.array([1, 1]))
    assert words in str(caught.value)


def test_scalar_initial_states_that_are_none():
    for state in (None, {"x": 1}, "start"):
        model = ScalarModel(2, lambda rng, state=state: state, lambda rng, x, a: (0.5, x))
        with pytest.raises(coreplan.SimulatorError, match=r"initial\(rng\) returned.*one state"):
            Guard(problem_of(model)).initial(np.random.default_rng(0), 3)
    model = ScalarModel(2, lambda rng: (1, 2), lambda rng, x, a: (0.5, x))
    with pytest.raises(coreplan.SimulatorError, match=r"each like \[0.0\]; got shape \(3, 2\)"):
        Guard(problem_of(model), np.zeros((1, 1))).initial(np.random.default_rng(0), 3)


def global_walk(initial, step):
    return Guard(problem_of(coreplan.FunctionModel(2, initial, step)))


def rng_initial(rng, n):
    return rng.integers(5, size=n)


def rng_step(rng, states, actions):
    return rng.random(len(actions)), states


@pytest.mark.parametrize(
    ("initial", "step", "words"),
    [
        (rng_initial, lambda rng, x, a: (OLD.random(len(a)), x), "step draws from np.random,"),
        (lambda rng, n: OLD.randint(5, size=n), rng_step, "initial draws from np.random,"),
        (rng_initial, lambda rng, x, a: (np.full(len(a), random.random()), x), "step draws from Python's random"),
    ],
)  # fmt: skip
def test_global_randomness_is_noticed_once(initial, step, words):
    guard = global_walk(initial, step)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for seed in range(6):
            x = guard.initial(np.random.default_rng(seed), 3)
            guard.step(np.random.default_rng(seed), x, np.ones(3, dtype=int))
    found = [str(w.message) for w in seen if w.category is coreplan.ReproducibilityWarning]
    assert len(found) == 1 and words in found[0] and "rng" in found[0]


def test_noise_from_the_generator_is_no_global_randomness():
    """Neither the simulator's own noise nor what others draw between two calls."""
    guard = global_walk(rng_initial, rng_step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(4):
            x = guard.initial(np.random.default_rng(seed), 3)
            OLD.random(), random.random()
            guard.step(np.random.default_rng(seed), x, np.ones(3, dtype=int))


def test_guard_checks_a_step_with_noise_as_it_checks_a_step():
    guard = Guard(NOISY["function"]())
    guard.initial(np.random.default_rng(0), 3)
    states, actions, noise = np.array([0, 4]), np.array([1, 1]), np.array([[0.1], [0.9]])
    rewards, after = guard.step_with(states, actions, noise)
    assert rewards.tolist() == [0.25, 0.75] and after.tolist() == [1, 3]
    for bad, words in (
        (noise[:1], "shape (2, 1), got (1, 1)"),
        (noise + 0.5, "[0, 1)"),
        (noise * np.nan, "[0, 1)"),
    ):
        with pytest.raises(coreplan.InputError) as caught:
            guard.step_with(states, actions, bad)
        assert words in str(caught.value)

    def wrong(x, a, noise):
        return np.full(len(x), 7.0), x

    guard = Guard(problem_of(NoiseModel(2, lambda rng, n: np.zeros(n, int), wrong, 1)), states)
    with pytest.raises(coreplan.SimulatorError, match="outside the declared range"):
        guard.step_with(states, actions, noise)

    def raising(x, a, noise):
        raise KeyError("lost")

    guard = Guard(problem_of(NoiseModel(2, lambda rng, n: np.zeros(n, int), raising, 1)), states)
    with pytest.raises(
        coreplan.SimulatorError, match=r"step_with raised KeyError.*2 pairs, the first with state 0"
    ):
        guard.step_with(states, actions, noise)


def test_a_step_that_is_no_function_of_its_noise_is_found_once():
    calls = []

    def step(states, actions, noise):
        calls.append(len(states))
        return np.full(len(states), 0.5), np.full(len(states), len(calls) % 5)

    model = NoiseModel(2, lambda rng, n: np.zeros(n, dtype=np.int64), step, 1)
    batch = np.array([0, 1]), np.array([0, 0]), np.array([[0.1], [0.2]])
    with pytest.raises(coreplan.SimulatorError, match="two answers to state 0 and action 0"):
        Guard(problem_of(model), batch[0]).step_with(*batch)
    guard = Guard(NOISY["function"](), batch[0])
    guard.problem.model._step = lambda *arguments: calls.append(0) or all_steps(*arguments)
    calls.clear()
    for _ in range(3):
        guard.step_with(*batch)
    assert len(calls) == 4  # twice the first time


def test_an_unavailable_pair_is_never_simulated():
    problem = from_pairs([1.0, 2.0, 3.0], np.eye(2)[[0, 1, 1]], 0.9, [0, 0, 1], [0, 1, 0])
    with pytest.raises(coreplan.SimulatorError, match="reward nan for state 1 and action 1"):
        Guard(problem).step(np.random.default_rng(0), np.array([1]), np.array([1]))
