"""Action masks: forbidden actions get probability zero everywhere, in every form, in both loops."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy import sparse

import coreplan
from coreplan.features import Sparse, first_fault
from coreplan.features import kernels as softmax_module
from coreplan.judge import optimal_values, value_function
from coreplan.planners.primal_dual import kernels as primal_dual_kernels
from coreplan.planners.primal_dual import planner as primal_dual
from coreplan.problem import (
    UNAVAILABLE,
    MaskedFeatures,
    Tabular,
    available,
    checked,
    fingerprint,
    from_pairs,
    one_hot,
    tabular_model,
)
from coreplan.theory import Enumerated
from coreplan.theory.naive import algorithm_1
from mutants import mutant

S, A = 6, 4
RNG = np.random.default_rng(0)
ALLOWED = RNG.random((S, A)) < 0.5
ALLOWED[np.arange(S), [1, 2, 3, 3, 2, 1]] = True
ALLOWED[0] = [False, True, False, True]  # action 0 unavailable
ALLOWED[1] = [True, False, False, False]  # one left, and the last actions unavailable
TABLE = Tabular(np.arange(S), RNG.random((S, A)), np.full(S, 1 / S), P=RNG.dirichlet(np.ones(S), S * A))


def mask(states):
    return ALLOWED[states]


def features_of(kind):
    phi = np.random.default_rng(1).normal(size=(S, A, 5)) / 10
    if kind == "dense":
        return coreplan.FunctionFeatures(lambda x: phi[x], A, 5, 1.0)
    return one_hot(S, A)


def masked_problem(kind="sparse", **more):
    features = features_of(kind)
    pairs = None if kind == "sparse" else tuple(np.argwhere(ALLOWED).T.copy())
    return coreplan.Problem(
        tabular_model(TABLE), features, 0.9, core_pairs=pairs, tabular=lambda: TABLE, mask=mask, **more
    )


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0, math.inf])
def test_a_policy_is_the_softmax_over_what_is_available(kind, scale):
    problem = masked_problem(kind)
    theta = np.random.default_rng(2).normal(size=problem.features.dimension)
    policy = coreplan.SoftmaxPolicy(theta, scale, problem.features)
    p = policy.probabilities(np.arange(S))
    phi = features_of(kind)(np.arange(S))
    q = phi @ theta if kind == "dense" else theta.reshape(S, A)
    for x in range(S):
        those = np.flatnonzero(ALLOWED[x])
        e = (
            np.exp(scale * (q[x, those] - q[x, those].max()))
            if scale < math.inf
            else (q[x, those] == q[x, those].max())
        )
        np.testing.assert_allclose(p[x, those], e / e.sum(), atol=1e-12)
    assert (p[~ALLOWED] == 0.0).all()
    x = np.tile(np.arange(S), 2000)
    assert ALLOWED[x, policy.act(x, 0)].all()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_uniform_over_what_is_available(kind):
    p = coreplan.SoftmaxPolicy.uniform(masked_problem(kind).features).probabilities(np.arange(S))
    np.testing.assert_allclose(p, ALLOWED / ALLOWED.sum(axis=1, keepdims=True), atol=1e-15)


def three_actions(values):
    """Dense features `[1, A, 1]` with scores `values`, None where unavailable."""
    return np.array([[[UNAVAILABLE if v is None else v] for v in values]])


def chosen(module, values, u, scale=1.0):
    return module.choose(three_actions(values), 0, np.ones(1), scale, u, np.empty(len(values)))


HARD = [
    ([None, 0.0, None], 0.0),
    ([None, 0.0, None], 1.0),  # u = 1 stands for rounding at the upper end
    ([0.0, None, None], np.nextafter(1.0, 0.0)),
    ([0.0, None, None], 1.0),
    ([0.1, 0.2, None], 1.0),
    ([0.0, -1e9, None], 1.0),  # probability 0 by underflow, and unavailable
]


@pytest.mark.parametrize(("values", "u"), HARD)
def test_rounding_never_leads_to_an_action_of_probability_zero(values, u):
    p = np.empty(3)
    softmax_module.softmax(three_actions(values), 0, np.ones(1), 1.0, p)
    assert p[chosen(softmax_module, values, u)] > 0
    assert values[chosen(softmax_module, values, u, math.inf)] is not None


def test_the_hard_cases_notice_the_old_end_of_choose(tmp_path, monkeypatch):
    old = mutant(softmax_module, "while p[last] == 0.0:", "while False:", tmp_path, monkeypatch)
    assert any(values[chosen(old, values, u)] is None for values, u in HARD)


def test_overflow_of_the_mark_does_no_harm():
    """The mark times a large theta is infinite; it is looked at before it is used."""
    for theta in (1e10, -1e10):
        p = np.empty(2)
        phi = np.array([[[UNAVAILABLE, 0.0], [1.0, 1.0]]])
        softmax_module.softmax(phi, 0, np.array([theta, 1.0]), 1.0, p)
        assert p.tolist() == [0.0, 1.0]


# Checks.


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_marked_rows_pass_the_check_and_a_closed_state_does_not(form):
    phi = np.zeros((3, 2, 2))
    phi[1, 0] = phi[2, 1] = [UNAVAILABLE, 0.0]

    def give(phi):
        return Sparse(np.tile([0, 1], (3, 2, 1)), phi) if form == "sparse" else phi

    assert first_fault(give(phi), 2, 1.0) == -1
    np.testing.assert_array_equal(available(give(phi)), [[True, True], [False, True], [True, False]])
    phi[2, 0] = [UNAVAILABLE, 0.0]
    assert first_fault(give(phi), 2, 1.0) == 5
    phi[2, 0] = [-1e300, 0.0]  # long, but no mark
    assert first_fault(give(phi), 2, 1.0) == 4
    features = coreplan.FunctionFeatures(lambda x: give(phi), 2, 2, 1.0, 2 if form == "sparse" else None)
    phi[2] = phi[1, 0]
    with pytest.raises(coreplan.FeatureError, match=r"forbids every action of state 9; each state needs"):
        checked(features, np.array([7, 8, 9]))


def test_an_index_out_of_place_is_no_mask():
    phi = Sparse(np.array([[[5], [0]]]), np.array([[[UNAVAILABLE], [1.0]]]))
    assert first_fault(phi, 2, 1.0) == 0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x: ALLOWED[x].astype(int), "int64 (24, 4)"),
        (lambda x: ALLOWED[x][:, :2], "bool (24, 2)"),
        (lambda x: ALLOWED[0], "bool (4,)"),
    ],
)
def test_a_mask_is_checked(wrong, words):
    with pytest.raises(coreplan.FeatureError) as caught:
        coreplan.Problem(tabular_model(TABLE), one_hot(S, A), 0.9, mask=wrong)
    assert words in str(caught.value)


def test_a_mask_that_raises():
    def lost(states):
        raise KeyError("lost")

    with pytest.raises(
        coreplan.FeatureError, match=r"The mask raised KeyError: 'lost' \(on a batch of 24 states"
    ):
        coreplan.Problem(tabular_model(TABLE), one_hot(S, A), 0.9, mask=lost)


@pytest.mark.parametrize(
    "pairs", [(np.array([1]), np.array([0, 0])), (3, 4), (np.array([1]), np.array([0.5]))]
)
def test_core_pairs_that_are_none_are_refused_as_without_a_mask(pairs):
    problem = coreplan.Problem(tabular_model(TABLE), one_hot(S, A), 0.9, mask=mask, core_pairs=pairs)
    with pytest.raises(coreplan.InputError, match="CoreSet"):
        coreplan.CoreSet.of(problem)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"available": ALLOWED.astype(int)}, "must be bool of shape (6, 4), got int64"),
        ({"available": ALLOWED[:3]}, "must be bool of shape (6, 4)"),
        ({"available": ALLOWED & (np.arange(S) != 4)[:, None]}, "No action of state 4 is available"),
        ({"available": ALLOWED, "P": np.eye(S)}, "P must have shape (24, 6)"),
    ],
)
def test_bad_tables(changes, words):
    with pytest.raises(coreplan.InputError) as caught:
        dataclasses.replace(TABLE, **changes)
    assert words in str(caught.value)


def test_a_mask_is_a_function():
    with pytest.raises(coreplan.InputError, match=r"mask\(states\) -> bool \[n, A\]"):
        coreplan.Problem(tabular_model(TABLE), one_hot(S, A), 0.9, mask=ALLOWED)


# Core sets, fingerprints, tables.


def test_the_carried_core_loses_its_forbidden_pairs():
    states, actions = masked_problem().core_pairs
    np.testing.assert_array_equal(np.stack([states, actions], axis=1), np.argwhere(ALLOWED))


def test_forbidden_core_pairs_are_named():
    for make in (
        lambda: coreplan.Problem(tabular_model(TABLE), one_hot(S, A), 0.9, mask=mask,
                                 core_pairs=(np.array([1, 1]), np.array([0, 2]))),
        lambda: coreplan.CoreSet(np.array([1, 1]), np.array([0, 2])).features(masked_problem().features),
    ):  # fmt: skip
        with pytest.raises(coreplan.InputError, match="Core pair 1, state 1 and action 2, is unavailable"):
            make()


def test_fingerprints_differ_and_a_policy_keeps_its_own(tmp_path):
    problem = masked_problem()
    assert fingerprint(problem.features) != fingerprint(one_hot(S, A))
    policy = coreplan.SoftmaxPolicy.uniform(problem.features)
    policy.save(tmp_path / "p.npz")
    assert coreplan.load_policy(tmp_path / "p.npz", problem).features is problem.features
    with pytest.raises(coreplan.FileError, match="other features"):
        coreplan.load_policy(
            tmp_path / "p.npz", dataclasses.replace(problem, features=one_hot(S, A), mask=None)
        )


def test_a_copy_is_masked_once():
    problem = masked_problem()
    copy = dataclasses.replace(problem, name="copy")
    assert copy.features is problem.features and isinstance(copy.features.features, coreplan.CompiledFeatures)
    twice = MaskedFeatures(problem.features, lambda x: np.ones((len(x), A), dtype=bool))
    np.testing.assert_array_equal(available(checked(twice, np.arange(S))), ALLOWED)  # both masks hold


def brute_force(table, discount, allowed):
    """The best stationary policy, all of them tried: `[S]`."""
    best = np.full(S, -np.inf)
    for choice in itertools.product(*(np.flatnonzero(row) for row in allowed)):
        best = np.maximum(best, value_function(table, np.eye(A)[list(choice)], discount))
    return best


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_the_optimum_respects_the_mask(form):
    P, r = np.array(TABLE.P), TABLE.r.copy()
    P[~ALLOWED.ravel()], r[~ALLOWED] = np.nan, np.inf  # ignored, whatever it is
    table = Tabular(TABLE.states, r, TABLE.nu0, P=form(P), available=ALLOWED)
    V, Q = optimal_values(table, 0.9)
    np.testing.assert_allclose(V, brute_force(table, 0.9, ALLOWED), atol=1e-10)
    assert (Q[~ALLOWED] == -np.inf).all() and np.isfinite(Q[ALLOWED]).all()
    free = optimal_values(TABLE, 0.9)[0]
    assert (free > V).all()
    with pytest.raises(coreplan.InputError, match=r"pi\(a=0\|x=0\) is 0.25, but action 0 is unavailable"):
        value_function(table, np.full((S, A), 0.25), 0.9)


def test_factors_may_be_masked():
    factors = (sparse.identity(S * A, format="csr"), np.array(TABLE.P))
    one = Tabular(TABLE.states, TABLE.r, TABLE.nu0, factors=factors, available=ALLOWED)
    two = Tabular(TABLE.states, TABLE.r, TABLE.nu0, P=TABLE.P, available=ALLOWED)
    np.testing.assert_allclose(optimal_values(one, 0.9)[0], optimal_values(two, 0.9)[0], atol=1e-10)


def test_an_evaluation_knows_the_mask():
    problem = masked_problem()
    judged = coreplan.evaluate(problem, coreplan.SoftmaxPolicy.uniform(problem.features))
    table = Tabular(TABLE.states, TABLE.r, TABLE.nu0, P=TABLE.P, available=ALLOWED)
    assert judged.optimum == pytest.approx(0.1 * TABLE.nu0 @ brute_force(table, 0.9, ALLOWED))
    assert judged.value == judged.uniform < judged.optimum


def test_theory_refuses_masks():
    with pytest.raises(coreplan.InputError, match="masks actions"):
        Enumerated.of(masked_problem())
    with pytest.raises(
        coreplan.InputError, match="masks actions"
    ):  # features marked by hand, no mask declared
        marked = dataclasses.replace(masked_problem(), mask=None, tabular=lambda: TABLE)
        Enumerated.of(marked)


# Planning, in both loops.

RATES = {"K": 9, "eta": 1e-3, "beta": 0.1, "alpha": 0.05, "D": 20.0}


def both(budget):
    """One problem with one coordinate a pair: masked by a function (NumPy loop) and by marks in a table (compiled)."""
    s, a = np.nonzero(ALLOWED)
    compiled = from_pairs(TABLE.r[s, a], TABLE.P[s * A + a], 0.9, s, a)
    number = np.where(ALLOWED, np.cumsum(ALLOWED).reshape(S, A) - 1, 0)[:, :, None]
    plain = coreplan.FunctionFeatures(
        lambda x: (number[x], np.ones((len(x), A, 1))), A, int(ALLOWED.sum()), 1.0, nonzeros=1
    )
    python = coreplan.Problem(
        compiled.model, plain, 0.9, compiled.reward_range, core_pairs=compiled.core_pairs, mask=mask
    )
    assert compiled.compiled and not python.compiled
    planner = coreplan.PrimalDual(**RATES, output="last")
    return [coreplan.plan(p, planner=planner, budget=budget, seed=3) for p in (compiled, python)]


def test_both_loops_give_the_same_bits_under_a_mask():
    compiled, python = both(3_000)
    assert np.isfinite(compiled.policy.theta).all() and compiled.policy.theta.any()
    np.testing.assert_array_equal(compiled.policy.theta, python.policy.theta)
    assert (compiled.policy.probabilities(np.arange(S))[~ALLOWED] == 0).all()


@pytest.mark.parametrize("kind", ["dense", "sparse", "compiled"])
def test_every_iterate_equals_the_naive_loop_under_a_mask(kind):
    s, a = np.nonzero(ALLOWED)
    problem = (
        masked_problem(kind)
        if kind != "compiled"
        else from_pairs(TABLE.r[s, a], TABLE.P[s * A + a], 0.9, s, a)
    )
    want = algorithm_1(problem, T=40, **RATES, seed=3)
    planner = coreplan.PrimalDual(**RATES, output="last")
    got = coreplan.plan(problem, planner=planner, budget=40 * 10, seed=3).policy.theta
    np.testing.assert_allclose(got, np.sum(want.thetas, axis=0), rtol=1e-9, atol=1e-9)


def test_the_naive_loop_notices_a_mask_that_is_dropped():
    """A policy over all actions, though the core set is the masked one, comes out elsewhere."""
    masked = masked_problem("dense")
    free = dataclasses.replace(masked, features=masked.features.features, mask=None, tabular=None)
    thetas = [np.sum(algorithm_1(p, T=40, **RATES, seed=3).thetas, axis=0) for p in (masked, free)]
    assert np.abs(thetas[0] - thetas[1]).max() > 1e-3


def test_a_value_that_weighs_forbidden_actions_is_noticed(tmp_path, monkeypatch):
    broken = mutant(primal_dual_kernels, "if p[a] > 0.0:", "if True:", tmp_path, monkeypatch)
    monkeypatch.setattr(primal_dual, "kernels", broken)
    assert not np.isfinite(both(100)[1].trace["temporal_difference"][-1])  # 0 times minus infinity


def test_planning_under_a_mask_closes_most_of_the_gap():
    problem = masked_problem()
    planner = coreplan.PrimalDual(K=20, eta=1e-3, beta=0.1, alpha=0.05, output="greedy")
    result = coreplan.plan(problem, planner=planner, budget=100_000)
    assert coreplan.evaluate(problem, result.policy).sub < 0.3


def test_one_available_action_everywhere_leaves_no_choice():
    """Then every policy is the same one, and the temporal differences still see finite numbers."""
    only = np.arange(S) % A
    problem = coreplan.Problem(
        tabular_model(TABLE), one_hot(S, A), 0.9, tabular=lambda: TABLE,
        mask=lambda x: np.arange(A) == only[x][:, None],
    )  # fmt: skip
    result = coreplan.plan(problem, planner=coreplan.PrimalDual(**RATES), budget=2_000)
    judged = coreplan.evaluate(problem, result.policy)
    assert judged.gap == pytest.approx(0.0, abs=1e-12) and np.isfinite(result.policy.theta).all()
    assert len(problem.core_pairs[1]) == S


def test_pools_and_checks_keep_to_the_mask():
    """Forbidden pairs are neither simulated nor put into a pool."""
    from coreplan.core import rollout_pool, uniform_pool
    from coreplan.problem import one_hot

    def mask(states):
        return np.stack([states % 2 == 0, np.ones(len(states), dtype=bool)], axis=1)

    def step(rng, states, actions):
        assert mask(states)[np.arange(len(states)), actions].all()
        return rng.random(len(states)), rng.integers(0, 6, len(states))

    model = coreplan.FunctionModel(2, lambda rng, n: rng.integers(0, 6, n), step)
    problem = coreplan.Problem(model, one_hot(6, 2), 0.9, mask=mask)
    for pool in (
        rollout_pool(problem, None, 200, actions="all"),
        rollout_pool(problem, None, 200),
        uniform_pool(problem, 50, box=(0, 5)),
        uniform_pool(problem, 50, box=(0, 5), actions="all"),
    ):
        assert mask(pool.states)[np.arange(len(pool)), pool.actions].all()
    assert coreplan.check(problem, queries=2000)["hull error"].light == "green"


def test_a_mask_may_be_added_to_a_problem_with_a_carried_core():
    import dataclasses

    problem = coreplan.make("river-swim")
    masked = dataclasses.replace(problem, mask=lambda states: np.stack([states > 0, states >= 0], axis=1))
    assert len(masked.core_pairs[1]) == len(problem.core_pairs[1]) - 1
