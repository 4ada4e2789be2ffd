"""The solver of sample-once planners against a naive one: any core, large systems, masks, values of policies."""

from __future__ import annotations

import numpy as np
import pytest

from coreplan.core import Frame, Lift
from coreplan.features import UNAVAILABLE, as_sparse
from coreplan.problem import Sparse
from coreplan.sampled import policy_iteration as bellman
from helpers.mutants import mutant


def toy(seed=0, m=6, N=5, A=3, k=2, gamma=0.9, module=bellman):
    """A random sampled model whose features are convex combinations of unit vectors."""
    rng = np.random.default_rng(seed)
    index = rng.permuted(np.broadcast_to(np.arange(m), (N * m, A, m)), axis=-1)[:, :, :k]
    weight = rng.dirichlet(np.ones(k), size=(N * m, A))
    initial = module.Sparse(index[:4], weight[:4])
    return module.SampledModel(Sparse(np.ascontiguousarray(index), weight), rng.random(m), initial, gamma)


def lift_of(core):
    """From values of core pairs with features `[m, d]` to theta."""
    return Lift(Frame(core, core.shape[1]))


def naive(sampled, w, R, sweeps=600):
    """q by plain value iteration, in NumPy."""
    m = len(sampled.r)
    q = np.zeros(m)
    for _ in range(sweeps):
        theta = R @ q
        scores = (sampled.phi.weight * theta[sampled.phi.index]).sum(axis=2)  # [n, A]
        scores = np.where(sampled.phi.weight[:, :, 0] == UNAVAILABLE, -np.inf, scores)
        V = np.clip(scores.max(axis=1), 0, 1 / (1 - sampled.discount))
        q = sampled.r + sampled.discount * np.bincount(sampled.pair, w * V, m)
    return q


def agrees(module):
    """Whether a module's solver and evaluation give what a naive solver gives."""
    for seed in range(3):
        sampled = toy(seed, module=module)
        w = np.random.default_rng(seed).dirichlet(np.ones(5), size=6).T.ravel()
        lift = lift_of(np.eye(6))
        solution = sampled.solve(lift, w)
        q = naive(sampled, w, np.eye(6))
        if not solution.settled or not np.allclose(solution.theta, q, atol=1e-9):
            return False
        iterated = sampled._iterate(lift, w, 1e-10)
        if not np.allclose(iterated.theta, q, atol=1e-7):
            return False
    return True


def test_the_solver_agrees_with_naive_value_iteration():
    assert agrees(bellman)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if s > top:", "if s < top:"),
        ("total[at] += share * phi.weight[n, b, i]", "total[at] = share * phi.weight[n, b, i]"),
        ("order[first[j] : first[j + 1]]", "order[first[j] : first[j + 1] - 1]"),
        ("q[pair[n]] += w[n] * min", "q[pair[n]] += min"),
        ("new = self.r + self.discount * new", "new = self.r + new"),
    ],
)
def test_the_comparison_notices_faults(old, new, tmp_path, monkeypatch):
    assert not agrees(mutant(bellman, old, new, tmp_path, monkeypatch))


def test_a_core_that_is_no_identity_gives_the_same_values():
    sampled = toy(3)
    plain = sampled.solve(lift_of(np.eye(6)), sampled.equal())
    T = np.random.default_rng(1).standard_normal((6, 6))
    dense = (sampled.phi.weight[..., None] * T[sampled.phi.index]).sum(axis=2)  # [n, A, 6]: phi T
    turned = bellman.SampledModel(as_sparse(dense), sampled.r, as_sparse(dense[:4]), 0.9)
    lift = lift_of(T)
    solution = turned.solve(lift, turned.equal())
    np.testing.assert_allclose(T @ solution.theta, plain.theta, atol=1e-8)
    order = np.random.default_rng(2).permutation(6)  # unit vectors in another order
    shuffled = bellman.SampledModel(sampled.phi, sampled.r, sampled.initial, 0.9)
    columns = lift_of(np.eye(6)[order])
    np.testing.assert_array_equal(columns.frame.units, order)
    np.testing.assert_allclose(
        shuffled.solve(columns, sampled.equal()).theta,
        naive(sampled, sampled.equal(), np.eye(6)[order].T)[np.argsort(order)],
        atol=1e-9,
    )


def test_large_systems_are_iterated_to_the_same_solution(monkeypatch):
    sampled = toy(4, m=150, N=3)
    lift = lift_of(np.eye(150))
    one = sampled.solve(lift, sampled.equal())
    uniform = sampled.value(lift, sampled.equal(), None, None)
    monkeypatch.setattr(bellman, "LARGE", 10)
    two = sampled.solve(lift, sampled.equal())
    assert sampled.value(lift, sampled.equal(), None, None) == pytest.approx(uniform, abs=1e-9)
    monkeypatch.setattr(bellman, "FACTORED", 1000)
    monkeypatch.setattr(bellman, "LARGE", 10**9)
    three = sampled.solve(lift, sampled.equal())
    np.testing.assert_allclose(one.theta, three.theta, atol=1e-8)
    np.testing.assert_allclose(two.theta, three.theta, atol=1e-8)


def test_pairs_may_have_unequally_many_samples_in_any_order():
    """Rows left out and shuffled: the naive solution of what is left, and the same as with no weight on what is left out."""
    whole, lift = toy(7), lift_of(np.eye(6))
    whole.rewards = np.random.default_rng(1).random(30)
    rows = np.random.default_rng(2).permutation(30)[:22]
    assert len(set(np.bincount(rows % 6))) > 1
    part = whole.part(rows)
    w = part.equal()
    np.testing.assert_array_equal(part.counts, np.bincount(rows % 6))
    np.testing.assert_allclose(part.r, np.bincount(rows % 6, whole.rewards[rows]) / part.counts)
    for j in range(6):
        mine = rows[part.order[part.first[j] : part.first[j + 1]]]
        assert (mine % 6 == j).all() and (
            part.number[part.order[part.first[j] : part.first[j + 1]]] == range(len(mine))
        ).all()
    part.phi = Sparse(whole.phi.index[rows], whole.phi.weight[rows])
    solution = part.solve(lift, w)
    np.testing.assert_allclose(solution.theta, naive(part, w, np.eye(6)), atol=1e-9)
    weights = np.zeros(30)
    weights[rows] = w
    whole.r = part.r
    np.testing.assert_allclose(whole.solve(lift, weights).theta, solution.theta, atol=1e-12)


def test_forbidden_actions_are_never_chosen():
    sampled = toy(5)
    without = bellman.SampledModel(
        Sparse(sampled.phi.index[:, 1:].copy(), sampled.phi.weight[:, 1:].copy()),
        sampled.r,
        sampled.initial,
        0.9,
    )
    sampled.phi.weight[:, 0, 0] = UNAVAILABLE
    lift = lift_of(np.eye(6))
    a, b = (s.solve(lift, s.equal()) for s in (sampled, without))
    np.testing.assert_allclose(a.theta, b.theta, atol=1e-9)
    assert (a.choice == b.choice + 1).all()
    assert np.isfinite(sampled.value(lift, sampled.equal(), None, None))  # uniform over what is open


def test_the_value_of_a_policy_in_the_sampled_model():
    """Against the occupancy of the sampled chain, solved as (I - gamma F')^-1."""
    sampled, lift = toy(6), lift_of(np.eye(6))
    w = sampled.equal()
    solution = sampled.solve(lift, w)
    F = np.zeros((6, 6))
    for n, a in enumerate(solution.choice):
        np.add.at(F[n % 6], sampled.phi.index[n, a], w[n] * sampled.phi.weight[n, a])
    f0 = np.zeros(6)
    for n in range(4):
        scores = (sampled.phi.weight[n] * solution.theta[sampled.phi.index[n]]).sum(axis=1)
        np.add.at(f0, sampled.phi.index[n, scores.argmax()], sampled.phi.weight[n, scores.argmax()] / 4)
    occupancy = np.linalg.solve(np.eye(6) - 0.9 * F.T, 0.1 * f0)
    assert sampled.value(lift, w, solution.theta, solution.choice) == pytest.approx(occupancy @ sampled.r)
    assert sampled.value(lift, w, None, None) < occupancy @ sampled.r
