"""Ways to bring a simulator: scalar functions, functions of noise, kernels with a noise form; and their checks."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from numba import njit

import coreplan
from coreplan.problem import NoiseModel, ScalarModel, from_matrices, one_hot
from coreplan.simulate import Guard
from mutants import mutant


def problem_of(model, n_states=5):
    return coreplan.Problem(model, one_hot(n_states, model.n_actions), 0.9)


# A walk on 0..4: action 1 goes right with probability 0.8, action 0 left; the reward is the new place over 4.


def one_step(rng, state, action):
    right = (rng.random() < 0.8) == (action == 1)
    state = int(min(max(state + (1 if right else -1), 0), 4))
    return state / 4, state


def all_steps(states, actions, noise):
    right = (noise[:, 0] < 0.8) == (actions == 1)
    states = np.clip(states + np.where(right, 1, -1), 0, 4)
    return states / 4, states


def scalar_walk():
    return ScalarModel(2, lambda rng: int(5 * rng.random()), one_step)


def noise_walk():
    return NoiseModel(2, lambda noise: (5 * noise[:, 0]).astype(np.int64), all_steps, 1, 1)


def test_scalar_batched_and_noise_forms_give_the_same_bits():
    """One uniform a query, in the order of the batch: three ways to write a model, one run."""
    batched = coreplan.FunctionModel(
        2,
        lambda rng, n: (5 * rng.random(n)).astype(np.int64),
        lambda rng, x, a: all_steps(x, a, rng.random((len(x), 1))),
    )
    planner = coreplan.PrimalDual(K=9, eta=1e-3, beta=0.1, alpha=0.1, output="last")
    runs = [
        coreplan.plan(problem_of(model), planner=planner, budget=500)
        for model in (scalar_walk(), batched, noise_walk())
    ]
    assert runs[0].policy.theta.any()
    for run in runs[1:]:
        np.testing.assert_array_equal(run.policy.theta, runs[0].policy.theta)


def test_scalar_states_may_be_arrays_and_may_be_changed_in_place():
    kept = np.zeros(2)

    def step(rng, state, action):
        state += action  # in place
        kept[:] = state
        return 0.5, kept  # the same array every time

    model = ScalarModel(3, lambda rng: np.zeros(2), step)
    states = np.array([[1.0, 2.0], [3.0, 4.0]])
    rewards, after = model.step(np.random.default_rng(0), states, np.array([1, 2]))
    np.testing.assert_array_equal(after, [[2, 3], [5, 6]])
    np.testing.assert_array_equal(states, [[1, 2], [3, 4]])
    assert model.initial(np.random.default_rng(0), 4).shape == (4, 2) and rewards.tolist() == [0.5, 0.5]


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


def test_scalar_states_of_two_shapes():
    model = ScalarModel(2, lambda rng: 0, lambda rng, x, a: (0.0, [0] * (int(x) + 1)))
    with pytest.raises(coreplan.SimulatorError, match=r"one shape, got \(1,\) and \(2,\)"):
        model.step(None, np.array([0, 1]), np.array([0, 0]))


NOISY = {
    "function": lambda: problem_of(noise_walk()),
    "inventory": lambda: coreplan.make("inventory"),
    "river-swim": lambda: coreplan.make("river-swim"),
    "matrices": lambda: from_matrices(
        np.random.default_rng(0).dirichlet(np.ones(6), (3, 6)), np.arange(6.0), 0.9
    ),
}


def compare_with_stream(model, core):
    states, actions = core
    k = model.noise_dimension
    rewards, after = model.step(np.random.default_rng(7), states, actions)
    noise = np.random.default_rng(7).random((len(actions), k))
    same = model.step_with(states, actions, noise)
    np.testing.assert_array_equal(same[0], rewards)
    np.testing.assert_array_equal(same[1], after)


@pytest.mark.parametrize("name", NOISY)
def test_step_with_the_streams_uniforms_is_step(name):
    problem = NOISY[name]()
    compare_with_stream(problem.model, problem.core_pairs)


def test_the_comparison_notices_swapped_uniforms(tmp_path, monkeypatch):
    module = importlib.import_module("coreplan.problem.zoo.inventory")
    swap = ("noise[n, 0], noise[n, 1]", "noise[n, 1], noise[n, 0]")
    broken = mutant(module, *swap, tmp_path, monkeypatch)
    problem = broken.inventory()
    with pytest.raises(AssertionError):
        compare_with_stream(problem.model, problem.core_pairs)


def test_inventory_draws_as_it_always_did():
    """Two uniforms a query in the order of the batch, inverted by hand."""
    problem = coreplan.make("inventory")
    states, actions = problem.core_pairs
    states = np.floor(states)
    rng = np.random.default_rng(3)
    _, after = problem.model.step(rng, states, actions)
    u = np.random.default_rng(3).random((len(actions), 2))
    _, demand1, demand2, orders, cap = problem.model.data
    for i, cumulative in enumerate((demand1, demand2)):
        demand = np.searchsorted(cumulative, u[:, i], side="right")
        want = np.maximum(np.minimum(states[:, i] + orders[actions, i], cap) - demand, 0)
        np.testing.assert_array_equal(after[:, i], want)


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


def test_models_without_a_noise_form():
    problem = coreplan.make("mountain-car:grid=5")
    assert problem.model.noise_dimension is None
    for call in (problem.model.step_with, Guard(problem).step_with):
        with pytest.raises(coreplan.InputError, match="noise_kernel"):
            call(np.zeros((1, 2)), np.zeros(1, dtype=int), np.zeros((1, 1)))


@njit
def _nothing(rng, data, states):
    pass


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ScalarModel(0, None, None), "`ScalarModel(n_actions=...)`"),
        (lambda: NoiseModel(2, None, None, 0), "`NoiseModel(noise_dimension=...)`"),
        (lambda: NoiseModel(2, None, None, 1, 0.5), "`NoiseModel(initial_noise_dimension=...)`"),
        (lambda: coreplan.CompiledModel(2, _nothing, _nothing, noise_dimension=2), "together, or neither"),
        (
            lambda: coreplan.CompiledModel(2, _nothing, _nothing, noise_kernel=len, noise_dimension=2),
            "must be a Numba function",
        ),
    ],
)
def test_bad_models(make, words):
    with pytest.raises(coreplan.InputError) as caught:
        make()
    assert words in str(caught.value)
