"""Features crossed with time: convex in both, exact at the nodes, and clocks and horizons that are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coreplan
from coreplan.features import BoxWatch, TimeFeatures, dense, outside_box
from coreplan.problem import (
    FunctionModel,
    Problem,
    alive,
    at_time,
    checked,
    interpolation,
    one_hot,
    tile_coding,
    with_horizon,
)


def still(initial, n_actions=2):
    """A model that stays where it is and pays nothing."""
    return FunctionModel(n_actions, lambda rng, n: initial(n), lambda rng, x, a: (np.zeros(len(x)), x))


def problem(**changes):
    fields = {
        "model": still(lambda n: np.full((n, 1), 0.5)),
        "features": interpolation([0.0], [1.0], [4], 2),
        "discount": 0.9,
    }
    return Problem(**{**fields, **changes})


def values(features, rows):
    return dense(checked(features, rows), features.dimension)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 30), st.data())
def test_time_and_state_are_interpolated_separately(n, data):
    """psi(t) (x) phi(x), with hat functions psi of the nodes in time, written naively here."""
    nodes = data.draw(st.one_of(st.none(), st.integers(2, n)) if n > 1 else st.none())
    x, t = data.draw(st.floats(0.0, 1.0)), data.draw(st.integers(0, n - 1))
    p = problem(horizon=n, horizon_nodes=nodes)
    times = np.rint(np.linspace(0, n - 1, nodes or n))
    assert len(set(times)) == (nodes or n)
    hats = [np.interp(t, times, np.eye(len(times))[j]) if n > 1 else 1.0 for j in range(len(times))]
    want = np.kron(hats, values(interpolation([0.0], [1.0], [4], 2), np.array([[x]]))[0])
    phi = values(p.features, at_time([[x]], t))[0]
    np.testing.assert_allclose(phi[:, :-1], want, atol=1e-12)
    assert not phi[:, -1].any()
    np.testing.assert_allclose(phi.sum(axis=1), 1.0, atol=1e-12)
    assert p.features.nonzeros == (2 if len(times) == n else 4)


@pytest.mark.parametrize("nodes", [None, 3])
def test_the_core_set_is_exact_by_construction(nodes):
    p = problem(horizon=7, horizon_nodes=nodes)
    core = coreplan.CoreSet.of(p)
    assert len(core) == p.features.dimension == (nodes or 7) * 8 + 1
    np.testing.assert_allclose(dense(core.features(p.features), len(core)), np.eye(len(core)), atol=1e-12)


def test_a_core_set_that_was_given_is_repeated_too():
    states, actions = np.array([[0.0], [0.25], [1.0]]), np.array([0, 1, 1])
    p = problem(horizon=3, core_pairs=(states, actions))
    rows, chosen = p.core_pairs
    np.testing.assert_array_equal(rows[:-1, 0], [0, 0.25, 1] * 3)
    np.testing.assert_array_equal(rows[:-1, 1], np.repeat([0, 1, 2], 3))
    np.testing.assert_array_equal(rows[-1], [0, 0, 1])
    np.testing.assert_array_equal(chosen, [0, 1, 1] * 3 + [0])


def test_features_without_a_core_set_still_have_none():
    assert problem(features=tile_coding([0.0], [1.0], [4], 3, 2), horizon=3).core_pairs is None


def test_as_many_nodes_as_steps_are_the_exact_features():
    rows = at_time(np.linspace(0, 1, 6)[:, None], np.arange(6))
    exact, all_nodes = problem(horizon=6).features, problem(horizon=6, horizon_nodes=6).features
    np.testing.assert_array_equal(values(exact, rows), values(all_nodes, rows))
    assert coreplan.problem.fingerprint(exact) == coreplan.problem.fingerprint(all_nodes)
    assert coreplan.problem.fingerprint(exact) != coreplan.problem.fingerprint(problem(horizon=7).features)


def test_the_watch_over_the_box_sees_through_the_clock():
    features = problem(horizon=5).features
    assert isinstance(features.base, TimeFeatures)
    assert outside_box(features, at_time([[0.5], [1.0]], [0, 4])) is None
    found = outside_box(features, np.vstack([at_time([[0.5], [1.4]], 2), [0.0, 0.0, 1.0]]))
    assert (found.outside, found.coordinate, found.value) == (1, 0, 1.4)
    assert BoxWatch(features).left > 0


def test_at_time():
    np.testing.assert_array_equal(at_time([3, 4], [0, 2]), [[3, 0, 0], [4, 2, 0]])
    np.testing.assert_array_equal(at_time(np.zeros((1, 2, 2)), 7), [[0, 0, 0, 0, 7, 0]])
    with pytest.raises(coreplan.InputError, match="one per state, here 2"):
        at_time([3, 4], [1, 2, 3])
    with pytest.raises(coreplan.InputError, match=r"x\[None\]"):
        at_time(3, 1)


def test_a_policy_takes_no_state_without_its_clock():
    """`alive(x)` has as many numbers as (x, t): taken for step 0, it would be a silent mistake."""
    policy = coreplan.SoftmaxPolicy.uniform(problem(horizon=5).features)
    assert policy.probabilities(at_time([[0.5], [0.2]], [0, 4])).shape == (2, 2)
    assert policy.act(at_time([[0.5]], 3)[0], 0) in (0, 1)  # one state
    for states in ([[0.5]], alive([[0.5]]), [0.5, 3.0], 0.5, np.zeros((1, 1, 3))):
        with pytest.raises(coreplan.InputError, match=r"at_time\(states, t\), of shape \(n, 3\)"):
            policy.act(np.asarray(states), 0)


@pytest.mark.parametrize("t", [-1, 5, 2.5, np.nan])
def test_clocks_that_show_no_step(t):
    with pytest.raises(coreplan.FeatureError, match="a whole number from 0 to 4"):
        problem(horizon=5).features(at_time([[0.5]], t))


def names(n):
    return np.full(n, "start")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"horizon": 0}, "whole number of at least 1, got 0"),
        ({"horizon": -3}, "got -3"),
        ({"horizon": 2.5}, "got 2.5"),
        ({"horizon": float("nan")}, "got nan"),
        ({"horizon": True}, "got True"),
        ({"horizon": "30"}, "got '30'"),
        ({"discount": 1.0}, "Problem(discount=1, horizon=n)"),
        ({"discount": 1.5, "horizon": 3}, "got 1.5"),
        ({"horizon": 5, "horizon_nodes": 1}, "at least 2, got 1"),
        ({"horizon": 5, "horizon_nodes": 6}, "give a horizon of at least 6; it is 5"),
        ({"horizon_nodes": 4}, "it is None"),
        ({"horizon": 3, "model": still(names)}, "states must be numbers"),
        ({"horizon": 3, "model": still(lambda n: 1 / 0)}, "raised ZeroDivisionError"),
        (
            {"horizon": 3, "core_pairs": (np.zeros((2, 3)), np.zeros(2, dtype=int))},
            "(m, 1), without the clock",
        ),
        ({"horizon": 10**9, "horizon_nodes": None}, "GB"),
    ],
)
def test_bad_input(changes, words):
    with pytest.raises(coreplan.CoreplanError) as caught:
        problem(**changes)
    assert words in str(caught.value)


def test_a_core_set_that_does_not_fit_into_memory_is_refused_with_its_numbers(monkeypatch):
    monkeypatch.setattr("coreplan.problem.horizon.available_memory", lambda: 2e6)
    with pytest.raises(
        coreplan.InputError, match=r"8 core pairs and 8 features at 5,000 steps are 40,000 pairs"
    ) as caught:
        problem(horizon=5000)
    assert "horizon_nodes=10" in str(caught.value)
    assert len(problem(horizon=5000, horizon_nodes=10).core_pairs[1]) == 81


def test_rewards_outside_the_range_are_named_in_the_users_units():
    model = FunctionModel(2, lambda rng, n: np.zeros((n, 1)), lambda rng, x, a: (np.full(len(x), 1.5), x))
    with pytest.raises(coreplan.SimulatorError, match=r"reward 1.5 for state \[0.0\].*range \[0, 1\]"):
        coreplan.plan(problem(model=model, horizon=4, discount=1.0), budget=500)


def test_numbers_that_a_row_would_round_are_refused():
    base = Problem(still(lambda n: np.full(n, 2**60)), one_hot(3, 2), 0.9)
    with pytest.raises(coreplan.SimulatorError, match=r"beyond 2\^53"):
        with_horizon(base, 3).model.initial(np.random.default_rng(0), 1)
