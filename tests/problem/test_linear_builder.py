"""Linear MDPs from Phi, W and vartheta: the table is Phi W, the simulator samples it, and what is none is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import coreplan
from coreplan.problem import from_linear, from_matrices
from coreplan.theory import Enumerated, linear_fit


def instance(seed=0, X=30, A=3, d=5):
    rng = np.random.default_rng(seed)
    Phi = rng.dirichlet(np.full(d, 0.5), size=(X, A))
    Phi.reshape(-1, d)[rng.permutation(X * A)[:d]] = np.eye(d)
    return Phi, rng.dirichlet(np.full(X, 0.2), size=d), rng.normal(size=d), rng.dirichlet(np.ones(X))


def turned(Phi, W, vartheta, seed=1):
    """The same MDP in another basis: Phi M, M^-1 W, M^-1 vartheta. Neither factor is stochastic."""
    M = np.random.default_rng(seed).normal(size=(len(W), len(W)))
    return Phi @ M, np.linalg.solve(M, W), np.linalg.solve(M, vartheta)


@pytest.mark.parametrize("basis", ["stochastic", "turned"])
def test_the_table_is_the_product(basis):
    Phi, W, vartheta, nu0 = instance()
    given = (Phi, W, vartheta) if basis == "stochastic" else turned(Phi, W, vartheta)
    problem = from_linear(*given, nu0, 0.95)
    e, r = Enumerated.of(problem), (Phi @ vartheta).ravel()
    np.testing.assert_allclose(e.P, Phi.reshape(-1, 5) @ W, atol=1e-9)
    low, high = problem.reward_range
    np.testing.assert_allclose(low + (high - low) * e.r, r, atol=1e-9)
    assert (low, high) == pytest.approx((r.min(), r.max())) and e.nu0 is not None
    assert linear_fit(e).transition_error < 1e-8 and problem.features.radius >= 1.0
    same = from_matrices((Phi.reshape(-1, 5) @ W).reshape(30 * 3, 30), r.reshape(30, 3), 0.95, nu0=nu0)
    judged = [coreplan.evaluate(p, coreplan.SoftmaxPolicy.uniform(p.features)) for p in (problem, same)]
    assert judged[0].optimum == pytest.approx(judged[1].optimum) and judged[0].value == pytest.approx(
        judged[1].value
    )


@pytest.mark.parametrize("basis", ["stochastic", "turned"])
def test_the_simulator_samples_the_product(basis):
    """Chi-square of 50,000 next states of one pair, all of expectation above 40, at a threshold of 1e-9."""
    Phi, W, vartheta, nu0 = instance(2)
    given = (Phi, W, vartheta) if basis == "stochastic" else turned(Phi, W, vartheta)
    problem = from_linear(*given, nu0, 0.9)
    n, x, a = 50_000, 4, 2
    rewards, y = problem.model.step(np.random.default_rng(0), np.full(n, x), np.full(n, a))
    np.testing.assert_allclose(rewards, Phi[x, a] @ vartheta, atol=1e-9)
    expected, counts = n * (Phi[x, a] @ W), np.bincount(y, minlength=30)
    assert expected.min() > 40
    assert ((counts - expected) ** 2 / expected).sum() < stats.chi2.ppf(1 - 1e-9, 29)


def test_the_unit_vectors_are_the_core_set():
    Phi, W, vartheta, nu0 = instance(3)
    problem = from_linear(Phi, W, vartheta, nu0, 0.9)
    states, actions = problem.core_pairs
    np.testing.assert_array_equal(Phi[states, actions], np.eye(5))
    result = coreplan.plan(problem, epsilon="1%")
    assert coreplan.evaluate(problem, result.policy).sub < 0.02
    Phi.reshape(-1, 5)[(Phi == 1.0).any(axis=2).ravel()] = 0.2  # no unit vector is left
    assert from_linear(Phi, W, vartheta).core_pairs is None
    assert from_linear(*turned(*instance(3)[:3])).core_pairs is None
    given = from_linear(Phi, W, vartheta, core_pairs=([1, 2], [0, 1]), reward_range=(-9, 9))
    assert given.reward_range == (-9.0, 9.0) and given.core_pairs[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda Phi, W, v: (Phi[0], W, v), r"Phi \[X, A, d\]"),
        (lambda Phi, W, v: (Phi, W.T, v), r"W \[d, X\]"),
        (lambda Phi, W, v: (Phi, W, v[1:]), r"vartheta \[d\]"),
        (lambda Phi, W, v: (Phi * np.nan, W, v), "Phi has entries that are not finite"),
        (lambda Phi, W, v: ("features", W, v), "cannot be read as numbers"),
        (lambda Phi, W, v: (Phi, 2 * W, v), "sums to 2"),
        (lambda Phi, W, v: (Phi, W - 3 * np.eye(5, 30), v), "not negative"),
    ],
)
def test_what_is_no_linear_mdp(change, words):
    Phi, W, vartheta, _ = instance()
    with pytest.raises(coreplan.InputError, match=words):
        from_linear(*change(Phi, W, vartheta))


def test_ranges_and_core_pairs_of_matrices():
    P, R = np.full((2, 3, 3), 1 / 3), np.array([[0.0, 1.0], [2.0, 0.5], [0.0, 0.0]])
    problem = from_matrices(P, R, 0.9, reward_range=(-1, 4), core_pairs=(np.arange(3), [0, 1, 0]))
    assert problem.reward_range == (-1.0, 4.0) and len(problem.core_pairs[1]) == 3
    plain = from_matrices(P, R, 0.9)
    for p in (problem, plain):
        found = coreplan.evaluate(p, coreplan.SoftmaxPolicy.uniform(p.features))
        assert p.to_reward_units(found.value) == pytest.approx(R.mean())
    for more, words in (
        ({"reward_range": (0, 1)}, r"does not hold all rewards: they lie in \[0, 2\]"),
        ({"reward_range": (3, 0)}, "lowest, highest"),
        ({"reward_range": 5}, "lowest, highest"),
        ({"core_pairs": (np.arange(4), np.zeros(4, dtype=int))}, "names state 3"),
        ({"core_pairs": ([0], [2])}, "names action 2"),
        ({"core_pairs": ([0, 1], [0])}, "2 whole numbers"),
        ({"core_pairs": 7}, "core_pairs"),
    ):
        with pytest.raises(coreplan.InputError, match=words):
            from_matrices(P, R, 0.9, **more)
