"""Problems from explicit matrices: every format against QuantEcon's solver, terminal states, and clear refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import coreplan
from coreplan.judge import optimal_values
from coreplan.judge.exact import normalised
from coreplan.problem import from_matrices, from_pairs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports
    from quantecon.markov import DiscreteDP


def instance(seed, S=7, A=3):
    """P `[A, S, S]` with zeros in it, R `[A, S, S]`."""
    rng = np.random.default_rng(seed)
    P = rng.random((A, S, S)) * (rng.random((A, S, S)) < 0.5) + 0.01 * np.eye(S)
    return P / P.sum(axis=2, keepdims=True), rng.normal(scale=3.0, size=(A, S, S))


def optimum(problem):
    """V* in the user's rewards, `[S]`, by our own policy iteration on the problem's table."""
    V = optimal_values(problem.tabular(), problem.discount)[0]
    low, high = problem.reward_range
    return low / (1 - problem.discount) + (high - low) * V


def quantecon(r, P, discount=0.9):
    """The same by QuantEcon: r `[S, A]`, P `[A, S, S]`."""
    return DiscreteDP(r, P.transpose(1, 0, 2), discount).solve(method="policy_iteration").v


def formats(P, R):
    S = P.shape[1]
    r = (P * R).sum(axis=2).T  # [S, A]
    one = P.transpose(1, 0, 2).reshape(-1, S)
    return {
        "arrays": (P, R),
        "expected rewards": (P, r),
        "lists": (list(P), list(R)),
        "sparse lists": ([sparse.csr_matrix(p) for p in P], [sparse.csc_matrix(q) for q in R]),
        "sparse and dense": (tuple(sparse.csr_matrix(p) for p in P), R),
        "objects": (np.array([sparse.coo_matrix(p) for p in P], dtype=object), r),
        "one matrix": (one, r),
        "one sparse matrix": (sparse.csr_matrix(one), r),
    }


@pytest.mark.parametrize("seed", range(3))
def test_every_format_agrees_with_quantecon(seed):
    P, R = instance(seed)
    want = quantecon((P * R).sum(axis=2).T, P)
    for name, (p, r) in formats(P, R).items():
        np.testing.assert_allclose(optimum(from_matrices(p, r, 0.9)), want, atol=1e-9, err_msg=name)


def test_rewards_of_states():
    P, R = instance(3)
    r = R[0, 0]
    want = quantecon(np.repeat(r[:, None], 3, axis=1), P)
    np.testing.assert_allclose(optimum(from_matrices(P, r, 0.9)), want, atol=1e-9)


def pairs(seed, S=8, A=4):
    P, R = instance(seed, S, A)
    rng = np.random.default_rng(100 + seed)
    keep = rng.random((S, A)) < 0.5
    keep[np.arange(S), rng.integers(A, size=S)] = True
    s, a = np.nonzero(keep)
    order = rng.permutation(len(s))  # in no order
    s, a = s[order], a[order]
    return (P * R).sum(axis=2)[a, s], P[a, s], s, a, keep


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_pairs_agree_with_quantecon(seed, form):
    r, Q, s, a, keep = pairs(seed)
    by = np.lexsort((a, s))  # QuantEcon wants them sorted
    want = DiscreteDP(r[by], sparse.csr_matrix(Q[by]), 0.9, s[by], a[by]).solve(method="policy_iteration").v
    problem = from_pairs(r, form(Q), 0.9, s, a)
    np.testing.assert_allclose(optimum(problem), want, atol=1e-9)
    uniform = coreplan.SoftmaxPolicy.uniform(problem.features).probabilities(np.arange(8))
    np.testing.assert_array_equal(uniform, keep / keep.sum(axis=1, keepdims=True))
    assert len(coreplan.CoreSet.of(problem)) == problem.features.dimension == len(r)


def test_the_simulator_follows_the_matrices():
    """20,000 draws a pair: frequencies within 0.03 of P, over 6 standard deviations (0.0035 at most) away from an alarm."""
    P, R = instance(1, S=4, A=2)
    problem = from_matrices(P, R, 0.9)
    rng = np.random.default_rng(0)
    for s in range(4):
        for a in range(2):
            r, y = problem.model.step(rng, np.full(20_000, s), np.full(20_000, a))
            assert r == pytest.approx(P[a, s] @ R[a, s])
            np.testing.assert_allclose(np.bincount(y, minlength=4) / 20_000, P[a, s], atol=0.03)


def test_terminal_states_end_the_process():
    """A walk of three steps at -1 each into a terminal state: V = -(1 + g + g^2), whatever the matrix says of the end."""
    P = np.zeros((1, 4, 4))
    P[0, [0, 1, 2], [1, 2, 3]] = 1.0
    P[0, 3, 0] = 1.0
    for p in (P, [sparse.csr_matrix(P[0])]):
        problem = from_matrices(p, np.array([-1.0, -1.0, -1.0, -5.0]), 0.5, nu0=[1, 0, 0, 0], terminal=[3])
        assert problem.reward_range == (-1.0, 0.0)
        np.testing.assert_allclose(optimum(problem), [-1.75, -1.5, -1.0, 0.0], atol=1e-12)


def test_a_terminal_state_needs_no_pairs():
    problem = from_pairs([2.0], [[0.0, 1.0]], 0.5, [0], [0], terminal=[1])
    np.testing.assert_allclose(optimum(problem), [2.0, 0.0], atol=1e-12)


def test_constant_rewards():
    problem = from_matrices(np.full((2, 3, 3), 1 / 3), np.full(3, 4.0), 0.9)
    assert problem.reward_range == (4.0, 5.0)
    np.testing.assert_allclose(optimum(problem), 40.0)


def test_a_plan_comes_close_to_the_optimum():
    """The default planner with about 500 samples per pair: its loss is estimated to be below 1e-3 of the scale."""
    r, Q, s, a, _ = pairs(0)
    problem = from_pairs(r, Q, 0.9, s, a)
    assert problem.compiled
    result = coreplan.plan(problem, budget=500 * len(problem.core_pairs[1]))
    judged = coreplan.evaluate(problem, result.policy)
    assert judged.sub < 0.02, judged


def test_features_of_ones_own():
    P, R = instance(0, S=6, A=2)
    features = coreplan.problem.aggregation(np.array([0, 0, 1, 1, 2, 2]), 2)
    problem = from_matrices(P, R, 0.9, features=features)
    assert problem.features.dimension == 6 and len(problem.core_pairs[1]) == 6
    masked = from_pairs([1.0, 2.0, 3.0], np.eye(2)[[0, 1, 1]], 0.9, [0, 0, 1], [0, 1, 0],
                        features=coreplan.problem.one_hot(2, 2))  # fmt: skip
    p = coreplan.SoftmaxPolicy.uniform(masked.features).probabilities(np.arange(2))
    np.testing.assert_array_equal(p, [[0.5, 0.5], [1.0, 0.0]])
    np.testing.assert_allclose(optimum(masked), [2.0 + 0.9 * 30.0, 30.0])


def test_the_value_of_a_policy_is_normalised():
    P, R = instance(2)
    problem = from_matrices(P, R, 0.9, nu0=np.eye(7)[2])
    V = optimal_values(problem.tabular(), 0.9)[0]
    assert normalised(problem.tabular(), V, 0.9) == pytest.approx(0.1 * V[2])


P2 = np.full((2, 3, 3), 1 / 3)


def changed(at, value):
    P = P2.copy()
    P[at] = value
    return P


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: from_matrices(changed((1, 2, 0), 0.5), np.ones((3, 2)), 0.9), "P(.|x=2, a=1) sums to 1.16"),
        (lambda: from_matrices(changed((1, 2), [-1, 1, 1]), np.ones((3, 2)), 0.9), "P(.|x=2, a=1) has a negative"),
        (lambda: from_matrices(changed((1, 2, 0), np.nan), np.ones((3, 2)), 0.9), "P(.|x=2, a=1) has entries that are not"),
        (lambda: from_matrices(P2, np.ones((2, 3)), 0.9), "R must have shape (3,), (3, 2) or (2, 3, 3)"),
        (lambda: from_matrices(P2, np.ones((3, 3, 3)), 0.9), "R pays for 3 states and 3 actions; P has 3 and 2"),
        (lambda: from_matrices(P2.transpose(1, 0, 2), np.ones((3, 2)), 0.9), "P.transpose(1, 0, 2)"),
        (lambda: from_matrices(np.ones((4, 3)), np.ones(3), 0.9), "(S * A, S), got (4, 3)"),
        (lambda: from_matrices(np.ones(3), np.ones(3), 0.9), "A matrices [S, S]"),
        (lambda: from_matrices([], np.ones(3), 0.9), "A matrices [S, S]"),
        (lambda: from_matrices("P", np.ones(3), 0.9), "A matrices [S, S]"),
        (lambda: from_matrices(P2, [[1, np.inf]] * 3, 0.9), "The reward of state 0 and action 1 is inf"),
        (lambda: from_matrices(P2, [["a"]] * 3, 0.9), "R cannot be read as numbers"),
        (lambda: from_matrices(P2, np.ones(3), 0.9, nu0=[1, 1, 1]), "nu0 must be a distribution"),
        (lambda: from_matrices(P2, np.ones(3), 0.9, nu0=[np.nan, 1, 0]), "nu0 must be a distribution"),
        (lambda: from_matrices(P2, np.ones(3), 0.9, terminal=[3]), "names state 3"),
        (lambda: from_matrices(P2, np.ones(3), 0.9, terminal=[-1]), "whole numbers from 0, got -1"),
        (lambda: from_matrices(P2, np.ones(3), 1.0), "strictly between 0 and 1"),
        (lambda: from_pairs([1.0], [[1.0, 0.0]], 0.9, [0], [0]), "No action of state 1 is available"),
        (lambda: from_pairs([1, 2], np.eye(2)[[0, 0]], 0.9, [0, 0], [1, 1]), "state 0 and action 1 is given 2 times"),
        (lambda: from_pairs([1, 2], np.eye(2), 0.9, [0, 2], [0, 0]), "names state 2"),
        (lambda: from_pairs([1], np.eye(2), 0.9, [0, 1], [0, 0]), "R of shape (1,)"),
        (lambda: from_pairs([1, 2], np.eye(2), 0.9, [0], [0, 0]), "`s_indices` must be 2 whole numbers"),
        (lambda: from_pairs([1, np.nan], np.eye(2), 0.9, [0, 1], [0, 0]), "state 1 and action 0 is nan"),
        (lambda: from_pairs([1, 2], 0.5 * np.eye(2), 0.9, [0, 1], [0, 0]), "sums to 0.5"),
    ],
)  # fmt: skip
def test_what_is_refused(make, words):
    with pytest.raises(coreplan.InputError) as caught:
        make()
    assert words in str(caught.value)


def test_huge_action_numbers_are_refused():
    with pytest.raises(coreplan.InputError, match="without gaps"):
        from_pairs([0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]], 0.9, [0, 1], [0, 10**9])
