"""Ways to bring a simulator: scalar functions, functions of noise, kernels with a noise form; and their checks."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from numba import njit

import coreplan
from coreplan.problem import NoiseModel, ScalarModel
from coreplan.simulate import Guard
from helpers.mutants import mutant
from helpers.walks import NOISY, all_steps, noise_walk, problem_of, scalar_walk


def test_scalar_batched_and_noise_forms_give_the_same_bits():
    """One uniform a query, in the order of the batch: three ways to write a model, one run."""
    batched = coreplan.FunctionModel(
        2,
        lambda rng, n: (5 * rng.random(n)).astype(np.int64),
        lambda rng, x, a: all_steps(x, a, rng.random((len(x), 1))),
    )
    planner = coreplan.PrimalDual(K=9, eta=1e-3, beta=0.1, alpha=0.1, output="last")
    runs = [
        coreplan.plan(problem_of(model), planner=planner, budget=500, block=100)
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


def test_scalar_states_of_two_shapes():
    model = ScalarModel(2, lambda rng: [0] * int(rng.integers(1, 3)), lambda rng, x, a: (0.0, [0] * int(a)))
    with pytest.raises(coreplan.SimulatorError, match=r"one shape, got \(1,\) and \(2,\)"):
        model.initial(np.random.default_rng(0), 50)
    with pytest.raises(coreplan.SimulatorError, match=r"shape \(2,\) where the state has shape \(1,\)"):
        model.step(None, np.array([[0], [1]]), np.array([1, 2]))


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
        (lambda: NoiseModel(2, None, None, -1), "`NoiseModel(noise_dimension=...)`"),
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
