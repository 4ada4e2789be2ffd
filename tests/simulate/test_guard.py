"""The guard around a simulator: answers that are none, and noise that decides nothing."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan.problem import NoiseModel, ScalarModel, from_pairs
from coreplan.simulate import Guard
from helpers.walks import NOISY, all_steps, problem_of


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (0.5, "(reward, next_state)"),
        ((0.5, 1, 2), "(reward, next_state)"),
        (([0.5], 1), "one number as reward"),
        (("much", 1), "The simulator's step raised ValueError"),
        ((0.5, None), "array of numbers"),
        ((0.5, [1, 2]), "shape (2,)"),
        ((2.0, 1), "outside the declared range"),
    ],
)
def test_scalar_answers_that_are_none(answer, words):
    model = ScalarModel(2, lambda rng: 0, lambda rng, x, a: answer)
    with pytest.raises(coreplan.SimulatorError) as caught:
        Guard(problem_of(model), np.zeros(1, dtype=int)).step(None, np.array([0, 1]), np.array([1, 1]))
    assert words in str(caught.value)


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
    with pytest.raises(coreplan.SimulatorError, match="two answers to state 0, action 0"):
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
