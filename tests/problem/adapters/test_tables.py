"""Toy text: environments with a table against QuantEcon, closed forms and their own draws."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import coreplan
from coreplan.judge import policy_value
from coreplan.problem import from_gymnasium
from coreplan.problem.adapters import tables
from helpers.environments import BENCH
from helpers.mutants import mutant

TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
CLIFF = "CliffWalking-v1" if "CliffWalking-v1" in gymnasium.registry else "CliffWalking-v0"


def quantecon_optimum(env, discount, start):
    """E[V*] in the environment's own rewards, from its table and an independent solver."""
    from quantecon.markov import DiscreteDP

    P = env.unwrapped.P
    S, A = len(P), len(P[0])
    R, Q = np.zeros((S + 1, A)), np.zeros((S + 1, A, S + 1))
    Q[S, :, S] = 1.0
    for s in range(S):
        for a in range(A):
            for p, y, r, done in P[s][a]:
                R[s, a] += p * r
                Q[s, a, S if done else y] += p
    V = DiscreteDP(R, Q, discount).solve(method="policy_iteration").v
    return float(start @ V[:S])


@pytest.mark.parametrize(("name", "samples"), [("FrozenLake-v1", 1000), (TAXI, 1), (CLIFF, 1)])
def test_toy_text_planned_against_quantecon(name, samples):
    """The exact value of a policy planned from samples, within 1e-3 normalised of the optimum."""
    problem = from_gymnasium(name, discount=0.95)
    policy = BENCH["sampled_value_iteration"](problem, samples)
    judged = coreplan.evaluate(problem, policy)
    env = gymnasium.make(name)
    best = quantecon_optimum(env, 0.95, env.unwrapped.initial_state_distrib)
    low, high = problem.reward_range
    assert judged.exact
    assert judged.optimum == pytest.approx((0.05 * best - low) / (high - low), abs=1e-9)
    assert judged.optimum - 1e-3 <= judged.value <= judged.optimum + 1e-9


def test_cliff_walking_has_its_closed_form():
    """13 steps of -1 and then nothing: (1 - gamma) times the return is -(1 - gamma^13), in the user's units."""
    problem = from_gymnasium(CLIFF, discount=0.95)
    assert problem.reward_range == (-100.0, 0.0) and problem.compiled
    optimum = coreplan.evaluate(problem, coreplan.SoftmaxPolicy.uniform(problem.features)).optimum
    assert problem.to_reward_units(optimum) == pytest.approx(-(1 - 0.95**13))


def test_the_compiled_table_draws_what_the_environment_draws():
    """Successors of every pair of FrozenLake: frequencies of 9,000 draws are within 6 standard deviations of P,
    rarer than 1e-8 for each of some 200 entries."""
    problem = from_gymnasium("FrozenLake-v1", discount=0.9)
    table, n = problem.tabular(), 9000
    P = np.asarray(table.P.todense())
    for z in range(0, len(P), 5):
        x, a = divmod(z, 4)
        _, y = problem.model.step(np.random.default_rng(z), np.full(n, x), np.full(n, a))
        found = np.bincount(y, minlength=len(P[0])) / n
        assert (np.abs(found - P[z]) <= 6 * np.sqrt(P[z] * (1 - P[z]) / n) + 1e-12).all()


def test_policy_values_are_exact_through_the_table():
    """The uniform policy on FrozenLake: the table's value against a plain power sum over its matrix."""
    problem = from_gymnasium("FrozenLake-v1", discount=0.9)
    table = problem.tabular()
    P = np.asarray(table.P.todense()).reshape(17, 4, 17).mean(axis=1)
    V, r = np.zeros(17), table.r.mean(axis=1)
    for _ in range(400):
        V = r + 0.9 * P @ V
    uniform = coreplan.SoftmaxPolicy.uniform(problem.features)
    assert policy_value(table, uniform, 0.9) == pytest.approx(0.1 * table.nu0 @ V, abs=1e-12)


def test_tables_that_the_environment_does_not_follow_are_refused():
    gym = pytest.importorskip("gymnasium")
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

    class Paid(FrozenLakeEnv):
        def step(self, action):
            state, reward, *rest = super().step(action)
            return state, reward - 0.5, *rest

    assert issubclass(Paid, gym.Env)
    with pytest.raises(coreplan.InputError, match="does not do what its table"):
        coreplan.from_gymnasium(Paid())


# Deliberate faults.


FAULTS = [
    (tables, "np.where(rows[:, 5] != 0, S, target)", "target"),  # ends that do not end
    (tables, "np.full(A, S)", "np.full(A, 0)"),  # an end that starts again
    (tables, "low, high = reward_bounds(given, found, name)", "low, high = found"),  # an end that pays -1
]


@pytest.mark.parametrize(("module", "old", "new"), FAULTS)
def test_faults_in_tables_are_noticed(module, old, new, tmp_path, monkeypatch):
    broken = mutant(module, old, new, tmp_path, monkeypatch)
    env = gymnasium.make(CLIFF).unwrapped
    problem = broken.from_tables(env, None, 0.95, "broken")
    optimum = coreplan.evaluate(problem, coreplan.SoftmaxPolicy.uniform(problem.features)).optimum
    assert problem.to_reward_units(optimum) != pytest.approx(-(1 - 0.95**13))
