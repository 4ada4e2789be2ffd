"""Finite horizons against backward induction, written here once more: values, policies, units, ends and masks."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import coreplan
from coreplan.features import dense
from coreplan.problem import (
    ClockModel,
    CompiledModel,
    NoiseModel,
    ScalarModel,
    alive,
    at_time,
    fingerprint,
    from_matrices,
    interpolation,
    one_hot,
    with_horizon,
    with_terminal,
)


def induction(P, R, n, discount, pick=lambda Q: Q.max(axis=1), ends=()):
    """V_0 of n steps, in the units of R `[S, A]`: V_n = 0, V_t = pick(R + discount P V_{t+1}); P is `[A, S, S]`."""
    V = np.zeros(len(R))
    for _ in range(n):
        V = pick(R + discount * np.einsum("axy,y->xa", P, V))
        V[list(ends)] = 0.0
    return V


def random_mdp(seed, S=5, A=3):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(S, 0.5), (A, S)), rng.normal(-1.0, 3.0, (S, A))


@pytest.mark.parametrize("discount", [1.0, 0.999, 0.8])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_optimum_and_uniform_value_are_those_of_backward_induction(n, discount):
    for seed in range(5):
        P, R = random_mdp(seed)
        problem = with_horizon(from_matrices(P, R, 0.5), n, discount=discount)
        judged = coreplan.evaluate(problem, coreplan.SoftmaxPolicy.uniform(problem.features))
        best, mean = (
            induction(P, R, n, discount).mean(),
            induction(P, R, n, discount, lambda Q: Q.mean(axis=1)).mean(),
        )
        assert problem.to_return_units(judged.optimum) == pytest.approx(best, abs=1e-9)
        assert problem.to_return_units(judged.value) == pytest.approx(mean, abs=1e-9)
        weight = math.fsum(discount**t for t in range(n))
        assert problem.to_reward_units(judged.value) == pytest.approx(mean / weight, abs=1e-9)


def test_factors_of_a_linear_mdp_are_unrolled_too():
    base = coreplan.make("random-linear:states=12,d=3")
    table = base.tabular()
    A = base.n_actions
    P = np.asarray(table.factors[0] @ table.factors[1]).reshape(12, A, 12).transpose(1, 0, 2)
    problem = with_horizon(base, 6, discount=1.0)
    judged = coreplan.evaluate(problem, coreplan.SoftmaxPolicy.uniform(problem.features))
    assert problem.to_return_units(judged.optimum) == pytest.approx(
        table.nu0 @ induction(P, table.r, 6, 1.0), abs=1e-9
    )


def test_a_plan_reaches_the_optimum_with_a_policy_that_sees_the_clock():
    """Store or sell: a unit in store earns 1.5 times as much a step later, so that only the last step sells."""
    worth = 1.5 ** np.arange(6)  # states 0..5: the worth; 6: sold
    P, R = np.zeros((2, 7, 7)), np.zeros((7, 2))
    for x in range(6):
        P[0, x, min(x + 1, 5)] = P[1, x, 6] = 1.0
        R[x, 1] = worth[x]
    P[:, 6, 6] = 1.0
    problem = with_horizon(from_matrices(P, R, 0.9, nu0=np.eye(7)[0]), 5, discount=1.0)
    result = coreplan.plan(problem, evaluate=True)
    assert problem.to_return_units(result.evaluation.value) == pytest.approx(worth[4], abs=1e-9)
    rows = at_time(np.arange(5), np.arange(5))  # worth x at step x
    np.testing.assert_array_equal(result.policy.act(rows, 0), [0, 0, 0, 0, 1])
    assert result.policy.act(at_time([1], 4), 0) == 1  # the same place at the last step: sell


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_plans_of_random_problems_reach_one_per_cent(discount):
    for seed in range(3):
        P, R = random_mdp(seed)
        result = coreplan.plan(with_horizon(from_matrices(P, R, 0.5), 6, discount=discount), evaluate=True)
        assert result.evaluation.sub < 0.02


def test_simulated_returns_are_those_of_the_table():
    """A deterministic walk round a ring, rolled out by hand: the discounted sum inside is the plain sum outside."""
    P = np.roll(np.eye(4), 1, axis=1)[None]
    R = np.array([[3.0], [-5.0], [2.0], [7.0]])
    problem = with_horizon(from_matrices(P, R, 0.9, nu0=np.eye(4)[1]), 6, discount=1.0)
    rng, total, low, high = np.random.default_rng(0), 0.0, *problem.reward_range
    states = problem.model.initial(rng, 1)
    for t in range(60):
        rewards, states = problem.model.step(rng, states, np.zeros(1, dtype=int))
        assert low <= rewards[0] <= high
        total += problem.discount**t * rewards[0]
    assert total == pytest.approx(-5 + 2 + 7 + 3 - 5 + 2, abs=1e-9)
    assert states.tolist() == [[0.0, 0.0, 1.0]]
    assert problem.discount == 6 / 7 and high <= 7 * math.e and low >= -5 * math.e


# Ends and masks of the problem's own.


def walk_with_end():
    """A walk on 0..4 that ends by itself at 4, paying 10 there and -1 a step; states `[x, ended]`."""

    def initial(rng, n):
        return alive(np.zeros((n, 1)))

    def step(rng, states, actions):
        x, over = states[:, 0], states[:, 1] != 0
        y = np.clip(x + np.where(rng.random(len(x)) < 0.8, 2 * actions - 1, 0), 0, 4)
        there = y == 4
        after = np.column_stack([np.where(there | over, 0.0, y), there | over])
        return np.where(over, 0.0, np.where(there, 10.0, -1.0)), after

    P = np.zeros((2, 5, 5))
    R = np.zeros((5, 2))
    for x in range(4):
        for a in range(2):
            y = min(max(x + 2 * a - 1, 0), 4)
            P[a, x, y] += 0.8
            P[a, x, x] += 0.2
            R[x, a] = 0.8 * 10 - 0.2 if y == 4 else -1.0
    P[:, 4, 4] = 1.0
    features = with_terminal(interpolation([0.0], [4.0], [5], 2))
    model = coreplan.FunctionModel(2, initial, step)
    return coreplan.Problem(model, features, 0.9, reward_range=(-1.0, 10.0)), P, R


def test_an_end_of_the_problems_own_is_the_same_end():
    base, P, R = walk_with_end()
    problem = with_horizon(base, 8, discount=1.0)
    assert problem.features.dimension == 8 * 10 + 1  # not a second coordinate for the end at every step
    core = coreplan.CoreSet.of(problem)
    phi = dense(core.features(problem.features), problem.features.dimension)
    np.testing.assert_array_equal(phi, np.eye(81))
    result = coreplan.plan(problem, budget=81 * 400)
    earned = coreplan.evaluate(problem, result.policy, rollouts=20_000)
    best = induction(P, R, 8, 1.0, ends=[4])[0]
    # Each return lies in [-8, 10], so 20,000 of them average to within 6 * 9 / sqrt(20,000) = .4 but for one in 10^8.
    assert problem.to_return_units(earned.value) == pytest.approx(best, abs=0.4)


def test_ends_that_a_function_tells_hold_with_a_clock_too():
    base = from_matrices(*random_mdp(0), 0.9)
    problem = dataclasses.replace(base, ends=lambda states: states == 3, horizon=4, discount=1.0)
    rows = np.vstack([at_time([2, 3, 3], [0, 0, 3]), [0.0, 0.0, 1.0]])
    assert problem.ended(rows).tolist() == [False, True, True, True]
    assert dataclasses.replace(problem, name="copy").ends is problem.ends
    assert with_horizon(base, 4).ended(rows).tolist() == [False, False, False, True]


def test_rollouts_stop_at_the_horizon():
    problem = dataclasses.replace(coreplan.make("pendulum:grid=5"), horizon=6, discount=1.0)
    judged = coreplan.evaluate(problem, coreplan.SoftmaxPolicy.uniform(problem.features), rollouts=50)
    assert judged.queries == 50 * 6
    assert problem.to_return_units(judged.high) < 0


@pytest.mark.parametrize("nodes", [None, 3])
def test_masks_hold_at_every_step(nodes):
    P, R = random_mdp(7, S=4, A=3)
    allowed = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1]], dtype=bool)
    base = from_matrices(P, R, 0.9)
    problem = dataclasses.replace(
        base, mask=lambda states: allowed[states], horizon=5, discount=1.0, horizon_nodes=nodes
    )
    result = coreplan.plan(problem, evaluate=True)
    for t in range(5):
        probabilities = result.policy.probabilities(at_time(np.arange(4), t))
        assert (probabilities[~allowed] == 0).all()
    best = induction(P, R, 5, 1.0, lambda Q: np.where(allowed, Q, -np.inf).max(axis=1)).mean()
    assert problem.to_return_units(result.evaluation.optimum) == pytest.approx(best, abs=1e-9)
    assert len(problem.core_pairs[1]) == (nodes or 5) * allowed.sum() + 1


# Copies.


def test_a_copy_with_another_name_is_not_wrapped_again():
    problem = with_horizon(from_matrices(*random_mdp(0), 0.9), 5)
    copy = dataclasses.replace(problem, name="other")
    assert (
        copy.model is problem.model
        and copy.features is problem.features
        and copy.core_pairs is problem.core_pairs
    )


def test_copies_with_another_discount_range_or_horizon_start_from_the_problem_without_a_clock():
    base = from_matrices(*random_mdp(0), 0.9)
    once = dataclasses.replace(base, horizon=5, discount=1.0)
    for changes in ({"discount": 0.7}, {"horizon": 9}, {"reward_range": (-50.0, 50.0)}, {"horizon_nodes": 3}):
        copy = dataclasses.replace(once, **changes)
        fresh = dataclasses.replace(base, **{"horizon": 5, "discount": 1.0, **changes})
        assert (copy.discount, copy.reward_range) == (fresh.discount, fresh.reward_range)
        assert fingerprint(copy.features) == fingerprint(fresh.features)
        assert len(copy.core_pairs[1]) == len(fresh.core_pairs[1])
        np.testing.assert_array_equal(copy.tabular().r, fresh.tabular().r)
    plain = dataclasses.replace(dataclasses.replace(base, horizon=5), horizon=None)
    assert plain.model is base.model and plain.features is base.features and plain.discount == 0.9


def test_another_model_of_states_with_a_clock_is_left_alone():
    problem = with_horizon(from_matrices(*random_mdp(0), 0.9), 5)
    model = coreplan.FunctionModel(3, problem.model.initial, problem.model.step)
    copy = dataclasses.replace(problem, model=model, tabular=None)
    assert copy.model is model and copy.features is problem.features
    assert coreplan.plan(copy, budget=500).queries > 0


# Kinds of models and states.


def test_a_function_of_its_noise_stays_one():
    def step(states, actions, noise):
        y = np.clip(states + np.where(noise[:, 0] < 0.7, 2 * actions - 1, 0), 0, 4)
        return y / 4.0, y

    base = coreplan.Problem(NoiseModel(2, lambda rng, n: np.full(n, 2), step, 1), one_hot(5, 2), 0.9)
    problem = with_horizon(base, 4)
    states = np.vstack([at_time([3, 0], [0, 3]), [0.0, 0.0, 1.0]])
    rewards, after = problem.model.step_with(states, np.array([1, 1, 0]), np.array([[0.1], [0.9], [0.5]]))
    np.testing.assert_array_equal(rewards, [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(after, [[4, 1, 0], [0, 0, 1], [0, 0, 1]])
    sobol = coreplan.PlugIn(noise="sobol")  # which refuses models that are not
    assert coreplan.plan(problem, planner=sobol, budget=2000).queries > 0


def test_states_may_be_arrays_of_any_shape_and_kind():
    def step(rng, state, action):
        assert state.shape == (2, 2) and state.dtype == np.int8
        return float(state[0, 0]), ((state + action) % 3).astype(np.int8)

    def phi(states):
        assert states.shape[1:] == (2, 2) and states.dtype == np.int8
        return np.repeat(np.eye(3)[states[:, 0, 0]][:, None], 2, axis=1) * [[[1], [0.5]]]

    model = ScalarModel(2, lambda rng: np.full((2, 2), 1, dtype=np.int8), step)
    base = coreplan.Problem(model, coreplan.FunctionFeatures(phi, 2, 3, 1.0), 0.9, reward_range=(0, 2))
    problem = with_horizon(base, 3, discount=1.0)
    assert (problem.features.dimension, problem.features.nonzeros, problem.model.block) == (10, 3, 64)
    judged = coreplan.evaluate(
        problem, coreplan.SoftmaxPolicy(np.zeros(10), math.inf, problem.features), rollouts=5
    )
    assert problem.to_return_units(judged.value) == pytest.approx(3.0, abs=0.01)  # action 0 stays: 1 + 1 + 1


def test_a_compiled_model_keeps_its_form():
    problem = coreplan.make("pendulum:grid=5,horizon=10")
    assert isinstance(problem.model, ClockModel) and isinstance(problem.model.base, CompiledModel)
    assert not problem.compiled
    assert problem.model.rows.shape == (2,)
    assert coreplan.plan(problem, budget=5000).queries > 0


def test_policies_are_saved_and_found_again_by_name(tmp_path):
    problem = coreplan.make("river-swim:horizon=8,discount=1")
    result = coreplan.plan(problem, out=tmp_path / "run")
    again = coreplan.load_policy(tmp_path / "run")
    rows = at_time(np.arange(6), 3)
    np.testing.assert_array_equal(again.probabilities(rows), result.policy.probabilities(rows))
    with pytest.raises(coreplan.FileError, match="other features"):
        coreplan.load_policy(tmp_path / "run", coreplan.make("river-swim:horizon=9,discount=1"))
