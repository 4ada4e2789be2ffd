"""`evaluate` and `compare_policies`: numbers that can be quoted."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import coreplan
from coreplan import FunctionModel, Problem, SoftmaxPolicy, compare_policies, evaluate
from coreplan.judge import Evaluation
from coreplan.problem import from_matrices, one_hot
from helpers.masked import masked_problem


def random_mdp(rng, discount, ends):
    """A small MDP with sparse transitions and rewards; if `ends`, state 0 is the end."""
    X, A = int(rng.integers(3, 9)), int(rng.integers(2, 4))
    P, r = rng.dirichlet(np.full(X, 0.3), size=(A, X)), rng.random((X, A)) * (rng.random((X, A)) < 0.4)
    if ends:
        P[:, 0], r[0] = np.eye(X)[0], 0.0
    problem = from_matrices(P, r, discount)
    return dataclasses.replace(problem, ends=lambda states: states == 0) if ends else problem


def some_policy(problem, rng):
    return SoftmaxPolicy(rng.normal(size=problem.features.dimension), 1.0, problem.features)


def test_intervals_hold_the_exact_value():
    """200 intervals at 95%: if each missed with probability .05, more than 26 misses were rarer than one in a million."""
    rng, misses, discounts = np.random.default_rng(11), 0, (0.9, 0.99, 0.999, 0.9999)
    for k in range(200):
        problem = random_mdp(rng, discounts[k % 4], ends=k % 8 >= 4)
        policy = some_policy(problem, rng)
        exact, found = (
            evaluate(problem, policy),
            evaluate(problem, policy, exact=False, queries=2_000, seed=k),
        )
        assert exact.exact and not found.exact and 0 < found.queries <= 2_000
        assert found.low <= found.value <= found.high and found.low < found.high
        misses += not found.low <= exact.value <= found.high
    assert misses <= 26


def season(steps, discount):
    """Pays 1 for so many steps, then ends: the state counts them."""

    def step(rng, states, actions):
        return (states < steps).astype(float), np.minimum(states + 1, steps)

    model = FunctionModel(1, lambda rng, n: np.zeros(n, dtype=np.int64), step)
    return Problem(model, one_hot(steps + 1, 1), discount, ends=lambda states: states == steps)


@pytest.mark.parametrize("discount", [0.9, 0.999, 0.9999])
def test_a_season_is_worth_what_it_pays(discount):
    """Rollouts stop at the end, and what they could have earned after it adds nothing."""
    found = evaluate(season(30, discount), 0, rollouts=40)
    assert found.queries == 30 * 40
    assert found.value == pytest.approx(1 - discount**30, rel=1e-12)
    assert found.returns.value == pytest.approx((1 - discount**30) / (1 - discount), rel=1e-9)
    assert found.low < found.value < found.high  # forty equal returns leave room for what was not seen


def test_the_neglected_tail_widens_upwards_only():
    """With queries for 20 steps per rollout only, the mean is below the value, and the interval holds it."""
    problem = dataclasses.replace(season(30, 0.99), ends=None)
    found = evaluate(problem, 0, queries=1_000)
    assert found.rollouts == 50 and found.value == pytest.approx(1 - 0.99**20)
    assert found.low < 1 - 0.99**20 < 1 - 0.99**30 < found.high and found.high > 0.99**20


def test_relative_goes_on_until_the_interval_is_narrow():
    problem = dataclasses.replace(coreplan.make("random-linear"), tabular=None)
    policy = SoftmaxPolicy.uniform(problem.features)
    found = evaluate(problem, policy, relative=0.02)
    value, low, high = found.returns
    assert (high - low) / 2 <= 0.02 * abs(value)
    assert found.rollouts > evaluate(problem, policy, relative=0.05).rollouts
    short = evaluate(problem, policy, relative=1e-6, queries=20_000)
    assert short.queries <= 20_000 and (short.high - short.low) / 2 > 1e-6


def test_an_evaluation_survives_json():
    import json

    found = evaluate(season(3, 0.9), 0, rollouts=5)
    assert Evaluation.from_dict(json.loads(json.dumps(found.as_dict()))) == found


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"rollouts": 5, "queries": 10}, "not both"),
        ({"relative": 0.0}, "relative"),
        ({"queries": 1}, "queries"),
        ({"exact": True}, "enumerated"),
    ],
)
def test_wishes_that_make_no_sense(wish, words):
    with pytest.raises(coreplan.InputError, match=words):
        evaluate(season(3, 0.9), 0, **wish)


# Comparisons.


def test_a_policy_compared_with_itself_differs_by_nothing():
    problem = dataclasses.replace(coreplan.make("random-linear"), tabular=None)
    policy = some_policy(problem, np.random.default_rng(0))
    found = compare_policies(problem, policy, policy, queries=20_000)
    assert found.difference == 0.0 and found.better == "" and found.low < 0 < found.high
    assert found.queries <= 20_000


def test_the_paired_difference_holds_the_exact_one():
    """40 intervals at 99.99%: two misses would be rarer than one in 10^5."""
    problem = coreplan.make("river-linear")
    rng, misses = np.random.default_rng(3), 0
    for seed in range(40):
        a, b = some_policy(problem, rng), some_policy(problem, rng)
        exact = compare_policies(problem, a, b)
        found = compare_policies(problem, a, b, exact=False, queries=20_000, confidence=0.9999, seed=seed)
        assert exact.difference == pytest.approx(
            evaluate(problem, a).value - evaluate(problem, b).value, abs=1e-12
        )
        misses += not found.low <= exact.difference <= found.high
    assert misses <= 1


def test_noise_is_common_to_both():
    """Two rules that nearly agree: their difference scatters over seeds many times less than that of separate rollouts."""
    problem = dataclasses.replace(coreplan.make("inventory"), tabular=None)
    rule = lambda states: np.where(states.sum(axis=1) < 20, 8, 0)  # noqa: E731
    nearly = lambda states: np.where(states.sum(axis=1) < 21, 8, 0)  # noqa: E731
    found = [compare_policies(problem, rule, nearly, queries=10_000, seed=s) for s in range(20)]
    assert all(abs(f.a - f.b - f.difference) < 1e-12 for f in found)
    apart = [f.a - g.b for f, g in itertools.pairwise(found)]
    assert np.std([f.difference for f in found]) < np.std(apart) / 3


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (7, "7` is no action: actions are 0 to 3"),
        ("left", "must be a policy, a function"),
        (lambda states: np.zeros(len(states)), r"whole numbers in an array of shape"),
        (lambda states: np.zeros((len(states), 2), dtype=int), "whole numbers"),
        (lambda states: np.full(len(states), 4), "returned the action 4 for state"),
        (lambda states: 1 / 0, "raised ZeroDivisionError"),
    ],
)
def test_rules_that_do_not_act(rule, words):
    problem = dataclasses.replace(coreplan.make("random-linear"), tabular=None)
    with pytest.raises(coreplan.InputError, match=words):
        compare_policies(problem, rule, 0, queries=1_000)


def test_a_rule_may_not_take_what_a_mask_forbids():
    problem = dataclasses.replace(masked_problem(), tabular=None)
    forbidden = problem.mask
    rule = lambda states: np.argmin(forbidden(states), axis=1)  # noqa: E731
    with pytest.raises(coreplan.InputError, match="which the mask forbids there"):
        evaluate(problem, rule, rollouts=50)
