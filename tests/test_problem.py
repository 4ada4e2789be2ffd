"""Problems: the zoo against its own exact description, features against closed forms, bad input."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import coreplan
from coreplan.features import dense
from coreplan.judge import optimal_values
from coreplan.judge.exact import normalised
from coreplan.problem import ZOO, checked, interpolation, interpolation_core, parse_value
from coreplan.problem.zoo.random_linear import _dirichlet

ENUMERABLE = [
    "random-linear",
    "river-swim",
    "river-swim-long",
    "river-linear",
    "random-linear:states=500,lazy=true",
]
ALL = [
    *ENUMERABLE,
    "mountain-car:grid=11",
    "random-linear:states=10**15,lazy=true",
    "random-linear:compiled=false",
]


def transition_matrix(problem):
    table = problem.tabular()
    P = table.P if table.factors is None else table.factors[0] @ table.factors[1]
    P = P.toarray() if hasattr(P, "toarray") else np.asarray(P)
    return table, P.reshape(table.n_states, table.n_actions, table.n_states)


@pytest.mark.parametrize("spec", ENUMERABLE)
def test_the_simulator_follows_its_description(spec):
    """Chi-square of 20,000 next states from a few pairs, threshold at 1e-9 each: a false alarm over all pairs
    and problems is rarer than one in a million; rewards are compared exactly."""
    problem = coreplan.make(spec)
    table, P = transition_matrix(problem)
    rng = np.random.default_rng(11)
    for x, a in [(0, 0), (1, 1), (table.n_states - 1, problem.n_actions - 1)]:
        n = 20_000
        rewards, y = problem.model.step(rng, np.full(n, x), np.full(n, a))
        np.testing.assert_allclose(rewards, table.r[x, a], atol=1e-12)
        assert_follows(np.bincount(y, minlength=table.n_states), P[x, a])
    assert_follows(np.bincount(problem.model.initial(rng, 20_000), minlength=table.n_states), table.nu0)


def assert_follows(counts, p):
    assert counts[p == 0].sum() == 0
    big = p * counts.sum() >= 5
    observed, expected = counts[big], p[big] * counts.sum()
    rest = counts.sum() - observed.sum(), counts.sum() - expected.sum()
    if rest[1] >= 5:
        observed, expected = np.append(observed, rest[0]), np.append(expected, rest[1])
    if len(observed) > 1:
        assert ((observed - expected) ** 2 / expected).sum() < stats.chi2.ppf(1 - 1e-9, len(observed) - 1)


@pytest.mark.parametrize("spec", ["random-linear", "river-linear", "random-linear:states=500,lazy=true"])
def test_linear_mdp_with_an_exact_core(spec):
    """Phi is stochastic, the core features are the unit vectors, P = Phi W, r = Phi vartheta (def:linMDP)."""
    problem = coreplan.make(spec)
    table, P = transition_matrix(problem)
    d = problem.features.dimension
    Phi = dense(problem.features(table.states), d).reshape(-1, d)
    assert Phi.min() >= 0
    np.testing.assert_allclose(Phi.sum(axis=1), 1.0, atol=1e-12)
    core = coreplan.CoreSet.of(problem)
    np.testing.assert_allclose(dense(core.features(problem.features), d), np.eye(d), atol=1e-12)
    r = table.r.ravel()
    assert np.linalg.norm(Phi @ np.linalg.lstsq(Phi, r, rcond=None)[0] - r) < 1e-9
    assert r.min() >= 0 and r.max() <= 1
    flat = P.reshape(len(r), -1)
    rows = core.states * problem.n_actions + core.actions
    np.testing.assert_allclose(Phi @ flat[rows], flat, atol=1e-12)  # B U P = P through the core alone


@pytest.mark.parametrize("spec", ENUMERABLE)
def test_optimum_by_an_independent_method(spec):
    """Policy iteration on factors or solves, against plain value iteration on the dense matrix."""
    problem = coreplan.make(spec)
    table, P = transition_matrix(problem)
    V = np.zeros(table.n_states)
    for _ in range(math.ceil(math.log(1e-10 * (1 - problem.discount)) / math.log(problem.discount))):
        V = (table.r + problem.discount * P @ V).max(axis=1)
    best, Q = optimal_values(table, problem.discount)
    np.testing.assert_allclose(best, V, atol=1e-8)
    np.testing.assert_allclose(Q.max(axis=1), best, atol=1e-9)


def test_river_swim_closed_form():
    """Two states, always right: V = r + gamma P V solved by hand."""
    problem = coreplan.make("river-swim:states=2,discount=0.9")
    table = problem.tabular()
    P = np.array([[0.1, 0.9], [0.1, 0.9]])
    V = np.linalg.solve(np.eye(2) - 0.9 * P, [0.0, 1.0])
    assert normalised(table, optimal_values(table, 0.9)[0], 0.9) == pytest.approx(0.1 * V[0], abs=1e-12)


@pytest.mark.parametrize("spec", ALL)
def test_same_name_same_problem(spec):
    a, b = coreplan.make(spec), coreplan.make(spec)
    x = a.model.initial(np.random.default_rng(0), 50)
    actions = np.arange(50) % a.n_actions
    for p in (a, b):
        assert (p.model.initial(np.random.default_rng(0), 50) == x).all()
    one = a.model.step(np.random.default_rng(1), x, actions)
    two = b.model.step(np.random.default_rng(1), x, actions)
    assert (one[0] == two[0]).all() and (one[1] == two[1]).all()
    checked(a.features, one[1])


def test_instances_differ():
    a, b = coreplan.make("random-linear"), coreplan.make("random-linear:instance=3")
    assert not np.array_equal(a.tabular().r, b.tabular().r)


def test_lazy_dirichlet_has_the_right_marginals():
    """phi_1 ~ Beta(0.3, 2.1) for d = 8: Kolmogorov-Smirnov over 20,000 hashed draws, threshold at p = 1e-7."""
    out, first = np.empty(8), np.empty(20_000)
    for i in range(len(first)):
        _dirichlet(np.uint64(i * 7919 + 1), out)
        first[i] = out[0]
        assert abs(out.sum() - 1) < 1e-12
    assert stats.kstest(first, stats.beta(0.3, 2.1).cdf).pvalue > 1e-7


def test_lazy_is_a_function_of_the_pair_and_knows_its_core():
    problem = coreplan.make("random-linear:states=2^62,lazy=true")
    x = np.array([0, 1, 2**62 - 1, 12345678901234567])
    np.testing.assert_array_equal(problem.features(x), problem.features(x[::-1])[::-1])
    core = coreplan.CoreSet.of(problem)
    np.testing.assert_array_equal(core.features(problem.features), np.eye(8))
    with pytest.raises(coreplan.FeatureError, match="not finite"):
        checked(problem.features, np.array([2**62]))


def test_mountain_car_follows_gymnasium():
    """Three transitions worked out from the published dynamics, the left wall and the goal."""
    step = coreplan.make("mountain-car:grid=5").model.step
    x = np.array([[-0.5, 0.0], [-1.19, -0.05], [0.49, 0.06], [0.55, 0.0]])
    rewards, y = step(np.random.default_rng(0), x, np.array([2, 0, 1, 1]))
    v = 0.001 - 0.0025 * math.cos(-1.5)
    np.testing.assert_allclose(y[0], [-0.5 + v, v], rtol=1e-14)
    np.testing.assert_array_equal(y[1], [-1.2, 0.0])
    np.testing.assert_array_equal(y[2:], [[0.6, 0.07]] * 2)
    np.testing.assert_array_equal(rewards, [-1, -1, -1, 0])


# Interpolation.


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 3), st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_interpolation_is_exact_on_multilinear_functions(D, nodes, seed):
    rng = np.random.default_rng(seed)
    low, high = -rng.random(D) - 0.1, rng.random(D) + 0.1
    features = interpolation(low, high, [nodes] * D, 2)
    states, actions = interpolation_core(low, high, [nodes] * D, 2)
    d = features.dimension
    core = dense(features(states), d)[np.arange(len(states)), actions]
    np.testing.assert_allclose(core, np.eye(d), atol=1e-12)
    corners = rng.normal(size=(2,) * D)

    def f(x):  # multilinear in every coordinate
        value = np.zeros(len(x))
        for c in np.ndindex(corners.shape):
            value += corners[c] * np.prod(x ** np.array(c), axis=1)
        return value

    x = low + (high - low) * rng.random((20, D))
    phi = dense(features(x), d)
    assert phi.min() >= 0
    np.testing.assert_allclose(phi.sum(axis=2), 1.0, atol=1e-12)
    theta = f(states) * (1 + actions)
    np.testing.assert_allclose(phi @ theta, np.outer(f(x), [1, 2]), atol=1e-9)


def test_interpolation_clips_and_refuses_nan():
    features = interpolation([0.0], [1.0], [3], 1)
    outside = dense(features(np.array([[-5.0], [9.0]])), 3)[:, 0]
    np.testing.assert_array_equal(outside, [[1, 0, 0], [0, 0, 1]])
    with pytest.raises(coreplan.FeatureError, match="not finite"):
        checked(features, np.array([[np.nan]]))


# Names and parameters.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("15", 15),
        ("-3", -3),
        ("10**15", 10**15),
        ("2^40", 2**40),
        ("0.99", 0.99),
        ("1e6", 1e6),
        ("true", True),
        ("x", "x"),
    ],
)
def test_parse_value(text, value):
    assert parse_value(text) == value and type(parse_value(text)) is type(value)


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_a_clear_error(text):
    parse_value(text)
    for spec in (text, f"random-linear:{text}"):
        try:
            problem = coreplan.make(spec)
        except coreplan.InputError as error:
            assert str(error)
        else:
            assert isinstance(problem, coreplan.Problem)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("river-linaer", "Did you mean 'river-linear'"),
        ("river-linear:l=3", "no parameter 'l'"),
        ("river-linear:L", "parameter=value"),
        ("river-linear:L=2.5", "whole number, got '2.5'"),
        ("random-linear:lazy=1", "true or false"),
        ("random-linear:discount=1.0", "strictly between 0 and 1"),
        ("random-linear:states=2^63,lazy=true", "2^62"),
        ("random-linear:states=10**9", "lazy=true"),
        ("random-linear:states=1,actions=2", "at least d = 8 pairs"),
        ("mountain-car:grid=1", "from 2 to 1000 nodes a side, got 1"),
        ("river-swim:states=1", "from 2 to 2000, got 1"),
        ("random-linear:d=0", "d=...)` must be a whole number of at least 1, got 0"),
        ("random-linear:instance=-1", "cannot be built"),
        ("mountain-car:grid=100000", "got 100000"),
    ],
)
def test_bad_names(spec, words):
    with pytest.raises(coreplan.InputError) as caught:
        coreplan.make(spec)
    assert words in str(caught.value)


def test_every_problem_is_documented():
    for name, factory in ZOO.items():
        assert factory.__doc__, name


# Bad declarations.


def tiny(**changes):
    arguments = {
        "model": coreplan.FunctionModel(
            2, lambda rng, n: np.zeros(n), lambda rng, x, a: (np.zeros(len(x)), x)
        ),
        "features": coreplan.FunctionFeatures(lambda x: np.ones((len(x), 2, 3)) / 2, 2, 3, radius=1.0),
        "discount": 0.9,
    }
    return coreplan.Problem(**{**arguments, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"discount": 1.0}, "strictly between 0 and 1, got 1.0"),
        ({"discount": 0}, "strictly between"),
        ({"discount": "0.9"}, "finite numbers, got '0.9'"),
        ({"discount": float("nan")}, "finite"),
        ({"reward_range": (1, 0)}, "(lowest, highest)"),
        ({"reward_range": 1}, "(lowest, highest)"),
        ({"reward_range": (0, float("inf"))}, "finite"),
        ({"model": object()}, "n_actions, initial(rng, n) and step"),
        ({"features": lambda x: x}, "FunctionFeatures"),
    ],
)
def test_bad_problems(changes, words):
    with pytest.raises(coreplan.InputError) as caught:
        tiny(**changes)
    assert words in str(caught.value)


def test_actions_must_agree():
    model = coreplan.FunctionModel(3, lambda rng, n: np.zeros(n), lambda rng, x, a: (np.zeros(len(x)), x))
    with pytest.raises(coreplan.InputError, match="3 actions and the features 2"):
        tiny(model=model)


@pytest.mark.parametrize("kind", [coreplan.CompiledModel, coreplan.CompiledFeatures])
def test_kernels_must_be_compiled(kind):
    arguments = (2, print, print) if kind is coreplan.CompiledModel else (print, 2, 3, 1.0)
    with pytest.raises(coreplan.InputError, match="Numba function"):
        kind(*arguments)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ones((5, 2, 4)), "must have shape (5, 2, 3)"),
        (np.ones((4, 2, 3)), "must have shape (5, 2, 3)"),
        (np.full((5, 2, 3), np.nan), "not finite"),
        (np.full((5, 2, 3), np.inf), "not finite"),
        (np.full((5, 2, 3), 0.1 + 0j), "must be real numbers, got dtype complex128"),
        ([[1, 2], [3]], "cannot be read as one array"),
        (np.full((5, 2, 3), 0.6), "norm 1.03923, above the declared radius R = 1"),
    ],
)
def test_bad_features(values, words):
    features = coreplan.FunctionFeatures(lambda x: values, 2, 3, radius=1.0)
    with pytest.raises(coreplan.FeatureError) as caught:
        checked(features, np.arange(5))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("index", "weight", "words"),
    [
        (np.full((5, 2, 1), 3), np.ones((5, 2, 1)), "each must be from 0 to"),
        (np.full((5, 2, 1), -1), np.ones((5, 2, 1)), "indices [-1]"),
        (np.zeros((5, 2, 1), int), np.full((5, 2, 1), np.nan), "not finite"),
        (np.zeros((5, 2, 1)), np.ones((5, 2, 1)), "must be whole numbers"),
        (np.zeros((5, 2, 2), int), np.ones((5, 2, 2)), "must have shape (5, 2, 1)"),
    ],
)
def test_bad_sparse_features(index, weight, words):
    features = coreplan.FunctionFeatures(lambda x: (index, weight), 2, 3, radius=1.0, nonzeros=1)
    with pytest.raises(coreplan.FeatureError) as caught:
        checked(features, np.arange(5))
    assert words in str(caught.value)


def test_a_coordinate_named_twice():
    index, weight = np.zeros((5, 2, 2), int), np.full((5, 2, 2), 0.5)
    features = coreplan.FunctionFeatures(lambda x: (index, weight), 2, 3, radius=1.0, nonzeros=2)
    with pytest.raises(coreplan.FeatureError, match="name a coordinate twice"):
        checked(features, np.arange(5))


def test_any_feature_class_is_checked():
    """A class of the user's own goes through the same checks: kernels never read past an array."""

    class Mine:
        n_actions, dimension, radius, nonzeros, description = 2, 3, 1.0, None, {}

        def __call__(self, states):
            return np.zeros((len(states), 2, 100_000))

    with pytest.raises(coreplan.FeatureError, match=r"must have shape \(5, 2, 3\)"):
        checked(Mine(), np.arange(5))


def test_a_map_that_reuses_its_output_is_copied():
    out = np.zeros((5, 2, 3))

    def reuse(x):
        out[...] = x[:, None, None] / 10
        return out

    features = coreplan.FunctionFeatures(reuse, 2, 3, radius=1.0)
    first = checked(features, np.arange(5))
    checked(features, np.zeros(5))
    assert first[4, 0, 0] == 0.4


@pytest.mark.parametrize(
    ("spec", "states", "words"),
    [
        ("mountain-car:grid=3", np.array([[0.5]]), r"needs states of shape \(n, 2\), got \(1, 1\)"),
        ("mountain-car:grid=3", np.array([0.5]), "needs states of shape"),
        ("river-swim", np.array([[3]]), "needs states of shape"),
        ("river-swim", np.array([3.7]), "dtype int64, got float64"),
    ],
)
def test_states_of_the_wrong_shape_never_reach_a_kernel(spec, states, words):
    problem = coreplan.make(spec)
    with pytest.raises(coreplan.InputError, match=words):
        coreplan.SoftmaxPolicy.uniform(problem.features).act(states, 0)
    with pytest.raises(coreplan.InputError, match=words):
        problem.model.step(np.random.default_rng(0), states, np.zeros(1, dtype=int))


def test_raising_features():
    def broken(x):
        raise ZeroDivisionError("oh")

    with pytest.raises(coreplan.FeatureError, match=r"'.*broken' raised ZeroDivisionError: oh"):
        checked(coreplan.FunctionFeatures(broken, 2, 3, 1.0), np.arange(5))


@pytest.mark.parametrize(
    ("states", "actions", "words"),
    [
        (np.empty(0), np.empty(0, dtype=int), "m >= 1"),
        (np.array([1, 2, 1]), np.array([0, 0, 0]), "Core pairs 0 and 2 are the same"),
        (np.array([1, 2]), np.array([0, 0, 0]), "as many actions"),
        (np.array([1, 2]), np.array([0.0, 1.0]), "whole numbers"),
        (np.array([0.0, -0.0]), np.array([0, 0]), "are the same"),
        (np.array([None, 2]), np.array([0, 0]), "Python objects"),
    ],
)
def test_bad_core_sets(states, actions, words):
    with pytest.raises(coreplan.InputError) as caught:
        coreplan.CoreSet(states, actions)
    assert words in str(caught.value)


def test_core_action_out_of_range():
    problem = coreplan.make("river-swim")
    with pytest.raises(coreplan.InputError, match="action 2; actions run from 0 to 1"):
        coreplan.CoreSet(np.array([0]), np.array([2])).features(problem.features)


def test_a_row_that_is_no_distribution():
    P = np.array([[1.0, 0.0], [0.5, 0.4]])
    with pytest.raises(coreplan.InputError, match=r"P\(\.\|x=1, a=0\) sums to 0.9"):
        coreplan.problem.Tabular(np.arange(2), np.zeros((2, 1)), np.array([1.0, 0.0]), P=P)


def test_kernels_have_no_python_objects():
    """Nothing in a compiled model or feature map closes over arrays: data travels as arguments."""
    for spec in ("random-linear", "river-swim", "mountain-car:grid=3"):
        problem = coreplan.make(spec)
        for kernel in (problem.model.initial_kernel, problem.model.step_kernel, problem.features.kernel):
            assert isinstance(kernel, numba.core.dispatcher.Dispatcher)
            assert kernel.py_func.__closure__ is None


def test_mountain_car_is_solved_through_its_core():
    """Value iteration on the core's transitions (they are deterministic) with the interpolation features:
    about 100 steps to the goal on the 61 x 61 grid, as published for such grids; value = discount^steps."""
    problem = coreplan.make("mountain-car")
    core = coreplan.CoreSet.of(problem)
    rewards, y = problem.model.step(np.random.default_rng(0), core.states, core.actions)
    phi, theta = problem.features(y), np.zeros(problem.features.dimension)
    for _ in range(1200):
        theta = (
            rewards
            + 1.0
            + problem.discount * np.einsum("nak,nak->na", phi.weight, theta[phi.index]).max(axis=1)
        )
    policy = coreplan.SoftmaxPolicy(theta, np.inf, problem.features)
    result = coreplan.evaluate(problem, policy, rollouts=200)
    steps = math.log(result.value) / math.log(problem.discount)
    assert 90 < steps < 105
    assert result.high - result.low < 0.02 and result.optimum is None
