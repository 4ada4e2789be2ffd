"""The certificate: its coverage, the condition it needs, and what it says when it cannot hold."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys

import numpy as np
import pytest

import coreplan
from coreplan import Certificate, CoreSet, InputError, SoftmaxPolicy, certify
from coreplan.base import SHARE
from coreplan.features import one_hot
from coreplan.judge import optimal_values
from coreplan.judge.certificate import condition
from coreplan.judge.certificate.first_half import Basis
from coreplan.problem import Tabular, tabular_model
from helpers.policies import EXACT, near_optimal, uniform


@pytest.mark.parametrize("spec", EXACT)
def test_certificates_cover(spec):
    """8 certificates at 99.9%: two misses would be rarer than 1e-4 even if the bounds were not conservative."""
    problem = coreplan.make(spec)
    for seed, policy in itertools.product(range(4), (near_optimal(problem), uniform(problem))):
        c = certify(problem, None, policy, queries=10_000, confidence=0.999, seed=seed)
        assert c.lower <= c.exact.value + 1e-12 and c.upper >= c.exact.optimum - 1e-12
        assert c.holds and c.queries <= 10_000 and c.initial_draws > 0
        assert c.gap == min(c.upper + c.condition.unseen, 1.0) - c.lower >= c.exact.gap - 1e-12


def test_width_on_random_linear():
    problem = coreplan.make("random-linear")
    c = certify(problem, None, near_optimal(problem), queries=50_000)
    assert c.upper - c.lower <= 0.05 * (c.exact.optimum - c.exact.uniform)
    assert 49_000 <= c.queries <= 50_000
    assert "within" in c.sentence and any("linear" in a for a in c.assumes)


def test_same_seed_same_bits_and_the_simulator_counts():
    problem = coreplan.make("random-linear:compiled=false")
    calls = [0]

    def step(rng, states, actions):
        calls[0] += len(actions)
        return problem.model.step(rng, states, actions)

    model = coreplan.FunctionModel(4, problem.model.initial, step)
    counted = dataclasses.replace(problem, model=model)
    one = certify(counted, None, uniform(problem), queries=5000, seed=4)
    assert calls[0] == one.queries
    compiled = coreplan.make("random-linear")
    two = certify(compiled, None, uniform(compiled), queries=5000, seed=4)
    assert (one.lower, one.upper) == (two.lower, two.upper)
    assert certify(problem, None, uniform(problem), queries=5000, seed=5).lower != one.lower


# The condition.


@pytest.mark.parametrize("positions", [1, 3])
@pytest.mark.parametrize("policy", [near_optimal, uniform])
def test_a_core_without_its_last_positions_is_denied(positions, policy):
    problem = coreplan.make("river-linear")
    core = CoreSet.of(problem)
    keep = core.states < 10 - positions
    c = certify(problem, CoreSet(core.states[keep], core.actions[keep]), policy(problem), queries=10_000)
    assert not c.holds and c.condition.hull_error > 0.1
    assert c.lower <= c.exact.value and "No certificate" in c.sentence
    assert c.gap is None and json.loads(json.dumps(c.as_dict(), allow_nan=False))["gap"] is None


def test_rewards_that_are_not_linear_are_denied():
    """random-linear with a reward that the features do not see: 1 at one action of each state in the half."""
    problem = coreplan.make("random-linear:compiled=false")
    core = CoreSet.of(problem)

    def step(rng, states, actions):
        rewards, y = problem.model.step(rng, states, actions)
        at_core = (states[:, None] == core.states).any(axis=1)
        return np.where(at_core, rewards, 1.0), y

    model = coreplan.FunctionModel(4, problem.model.initial, step)
    other = dataclasses.replace(problem, model=model, tabular=None)
    c = certify(other, None, uniform(problem), queries=20_000)
    assert not c.holds and c.condition.hull_exact and c.condition.excess > 0.1 and c.exact is None
    assert "raised" in " ".join(c.assumes) and c.condition.excess == c.condition.unseen


def misspecified(size):
    """random-linear where, away from the core's states, a share `size` of transitions pays 1 instead: (p, its optimum)."""
    problem = coreplan.make("random-linear:compiled=false")
    core, table = CoreSet.of(problem), problem.tabular()
    seen = np.isin(table.states, core.states)
    r = np.where(seen[:, None], table.r, (1 - size) * table.r + size)

    def step(rng, states, actions):
        rewards, y = problem.model.step(rng, states, actions)
        paid = (rng.random(len(rewards)) < size) & ~np.isin(states, core.states)
        return np.where(paid, 1.0, rewards), y

    model = coreplan.FunctionModel(4, problem.model.initial, step)
    optimum = 0.1 * table.nu0 @ optimal_values(dataclasses.replace(table, r=r), 0.9)[0]
    return dataclasses.replace(problem, model=model, tabular=None), optimum


@pytest.mark.parametrize("seed", range(3))
def test_what_passes_unseen_is_covered_by_what_may_be_unseen(seed):
    """A bonus of 0.04 in rewards passes, and the optimum exceeds upper; upper + unseen covers it, at 99.9% confidence."""
    problem, optimum = misspecified(0.1)
    c = certify(problem, None, uniform(problem), queries=50_000, confidence=0.999, seed=seed)
    assert c.holds and c.upper < optimum <= c.upper + c.condition.unseen
    assert f"{c.condition.unseen:.3g} would have passed unseen" in " ".join(c.assumes)
    assert c.as_dict()["condition"]["unseen"] == c.condition.unseen and "unseen" in c.sentence
    assert c.gap >= min(optimum, c.upper + c.condition.unseen) - c.lower  # the gap contains it


def test_fresh_pairs_are_available_ones():
    """One of them is allowed per state here, and drawn whatever the noise."""
    problem = coreplan.make("random-linear:compiled=false")
    only = dataclasses.replace(problem, core_pairs=None, mask=lambda x: np.arange(4) == x[:, None] % 4)
    for seed in range(5):
        states, actions = condition._fresh_pairs(only, np.arange(60), np.random.default_rng(seed))
        np.testing.assert_array_equal(actions, states % 4)


def test_optimal_pairs_without_chance():
    """State 0 pays .5 for ever; its other action leads to state 1, which pays nothing. The optimum is .5.

    Where the optimal pairs have no chance, the estimate has no noise to weigh the other pairs against; the bound was 1.
    """
    P = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.1, 0.9]])
    table = Tabular(np.arange(2), np.array([[0.5, 0.5], [0.0, 0.0]]), np.array([1.0, 0.0]), P)
    pairs = (np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    problem = coreplan.Problem(tabular_model(table), one_hot(2, 2), 0.9, core_pairs=pairs)
    policy = SoftmaxPolicy(np.array([1.0, 0.0, 0.0, 1.0]), np.inf, problem.features)
    assert 0.5 <= certify(problem, None, policy, queries=20_000).upper <= 0.503


def test_bounds_that_cross_are_no_certificate(monkeypatch):
    problem = coreplan.make("random-linear")
    monkeypatch.setattr(sys.modules["coreplan.judge.certificate.shared"], "shared_bound", lambda *_: 0.1)
    c = certify(problem, None, near_optimal(problem), queries=5000)
    assert c.condition.holds and not c.holds and c.gap is None and "below lower" in c.assumes[-1]


def test_a_certificate_is_read_as_it_was_written():
    """Its exact part has all that an evaluation says, as JSON."""
    problem = coreplan.make("random-linear")
    c = certify(problem, None, uniform(problem), queries=2000)
    record = json.loads(json.dumps(c.as_dict(), allow_nan=False))
    assert record["exact"] == json.loads(json.dumps(coreplan.evaluate(problem, uniform(problem)).as_dict()))
    assert Certificate.from_dict(record) == c
    blind = dataclasses.replace(problem, tabular=None)
    c = certify(blind, None, uniform(problem), queries=2000)
    assert c.as_dict()["exact"] is None and Certificate.from_dict(c.as_dict()) == c


# Queries, memory, units.


@pytest.mark.parametrize("spec", ["random-linear", "river-linear", "random-linear:discount=0.99"])
@pytest.mark.parametrize("queries", [2000, 20_000])
def test_queries_are_spent(spec, queries):
    """All but the remainder of 32 fresh pairs; what rollouts save by being given up goes to more of them."""
    problem = coreplan.make(spec)
    queries = max(queries, 6000 if problem.discount > 0.98 else 0)
    assert queries - 32 < certify(problem, None, uniform(problem), queries=queries).queries <= queries


def test_what_does_not_fit_into_memory_is_said_before_the_first_query(monkeypatch):
    problem = coreplan.make("random-linear:compiled=false")

    def step(rng, states, actions):
        raise AssertionError("queried")

    mute = dataclasses.replace(problem, model=coreplan.FunctionModel(4, problem.model.initial, step))
    monkeypatch.setattr(sys.modules["coreplan.judge.certificate.limits"], "available_memory", lambda: 4e6)
    with pytest.raises(InputError, match=r"GB may be used here.*at least 1,000"):
        certify(mute, None, uniform(problem), queries=20_000)
    assert certify(problem, None, uniform(problem), queries=2000).queries


@pytest.mark.parametrize(("spec", "numbers"), [("random-linear", 4 * 8 + 1), ("river-swim", 2 * (2 * 1) + 1)])
def test_the_memory_that_is_counted(spec, numbers, monkeypatch):
    """A next and an initial state per query, with features and 20 numbers, and six dense systems of the core's size."""
    problem, home = coreplan.make(spec), sys.modules["coreplan.judge.certificate.limits"]
    basis = Basis.of(problem, CoreSet.of(problem))
    needed = 8 * (2 * numbers + 20) * 20_000 + 8 * 6 * len(basis.J) ** 2
    for factor, fits in ((1 + 1e-9, True), (1 - 1e-9, False)):
        monkeypatch.setattr(home, "available_memory", lambda room=factor * needed / SHARE: room)
        if fits:
            home.require_room(problem, basis, 20_000)
        else:
            with pytest.raises(InputError, match=f"about 40,000 states.* {needed / 1e9:.3g} GB; "):
                home.require_room(problem, basis, 20_000)


def test_a_theta_of_ones_own():
    problem = coreplan.make("random-linear")
    policy = near_optimal(problem)
    own = certify(problem, None, policy, theta=policy.theta, queries=20_000)
    poor = certify(problem, None, policy, theta=np.zeros(8), queries=20_000)
    assert own.exact.optimum <= own.upper < own.exact.optimum + 0.05
    assert poor.upper >= poor.exact.optimum


def test_other_reward_units_give_the_same_certificate():
    problem = coreplan.make("random-linear:compiled=false")

    def step(rng, states, actions):
        rewards, y = problem.model.step(rng, states, actions)
        return 10 * rewards - 3, y

    model = coreplan.FunctionModel(4, problem.model.initial, step)
    scaled = dataclasses.replace(problem, model=model, reward_range=(-3, 7), tabular=None)
    a, b = (certify(p, None, uniform(problem), queries=5000) for p in (problem, scaled))
    assert a.lower == pytest.approx(b.lower, abs=1e-9) and a.upper == pytest.approx(b.upper, abs=1e-6)


# Bad input.


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"confidence": 1.0}, "strictly between 0 and 1"),
        ({"confidence": "high"}, "strictly between 0 and 1"),
        ({"queries": 500}, "too few.*at least 1,000"),
        ({"queries": 0.5}, "whole number"),
        ({"theta": np.zeros(3)}, "8 finite numbers"),
        ({"policy": None}, "Plan first"),
        ({"core": "core"}, "CoreSet"),
        ({"problem": "random-linear"}, "Problem"),
    ],
)
def test_bad_wishes(changes, words):
    problem = coreplan.make("random-linear")
    wish = {"problem": problem, "core": None, "policy": uniform(problem)} | changes
    with pytest.raises(InputError, match=words):
        certify(**wish)


def test_foreign_features():
    problem, other = coreplan.make("random-linear"), coreplan.make("random-linear:instance=1")
    with pytest.raises(InputError, match="other features"):
        certify(problem, None, uniform(other))
    bare = SoftmaxPolicy(np.zeros(8), 1.0)
    with pytest.raises(InputError, match="without its features"):
        certify(problem, None, bare)
