"""The compiled parts of `Refine` against plain Python: greedy actions, sweeps, policy iteration, cells."""

from __future__ import annotations

import numpy as np
import pytest

from coreplan.planners.refine.kernels import halve, improve, solve, sweep, touch


def samples(seed, A=3, nodes=4, C=2):
    """Samples of nodes * A pairs, of unequal numbers, whose next values are means over C nodes."""
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 5, nodes * A)
    S = int(n.sum())
    node, weight = rng.integers(0, nodes, (S, C)), rng.dirichlet(np.ones(C), size=S)
    R, g, end = rng.random(S), rng.uniform(0.5, 0.9, S), rng.random(S) < 0.2
    return node, weight, R, g, end, np.concatenate([[0], np.cumsum(n)])


def scores(node, weight, theta, A):
    """Action values at the next state of every sample, `[S, A]`."""
    return np.einsum("sc,sca->sa", weight, theta.reshape(-1, A)[node])


def test_improving_is_greedy_with_ties_to_the_lowest_and_counts_the_changes():
    A, (node, weight, *_) = 3, samples(0)
    rng = np.random.default_rng(1)
    for theta in (rng.normal(size=4 * A), -rng.random(4 * A), np.zeros(4 * A)):
        action = rng.integers(-1, A, len(node))
        before = action.copy()
        changed = improve(node, weight, theta, A, action)
        np.testing.assert_array_equal(action, scores(node, weight, theta, A).argmax(axis=1))
        assert changed == (action != before).sum()


@pytest.mark.parametrize("backward", [False, True])
def test_a_sweep_is_gauss_seidel(backward):
    """Pair by pair, with the values that are new already; it tells the largest change."""
    A, (node, weight, R, g, end, first) = 3, samples(2)
    theta = np.random.default_rng(3).normal(size=4 * A)
    action = scores(node, weight, theta, A).argmax(axis=1)
    want, most = theta.copy(), 0.0
    for j in range(4 * A)[:: -1 if backward else 1]:
        of_pair = np.arange(first[j], first[j + 1])
        V = scores(node, weight, want, A)[np.arange(len(R)), action]
        new = np.mean(R[of_pair] + g[of_pair] * np.where(end[of_pair], 7.0, V[of_pair]))
        most, want[j] = max(most, abs(new - want[j])), new
    change = sweep(node, weight, action, R, g, end, 7.0, theta, A, first, backward)
    np.testing.assert_allclose(theta, want, rtol=1e-12)
    assert change == pytest.approx(most)


@pytest.mark.parametrize("seed", range(3))
def test_policy_iteration_ends_at_the_fixed_point_of_greedy_backups(seed):
    A, (node, weight, R, g, end, first) = 3, samples(seed + 10)
    theta, action = np.zeros(4 * A), np.full(len(R), -1)
    done = solve(node, weight, action, R, g, end, 2.0, theta, A, first, 1e-11, 10_000)
    V = np.where(end, 2.0, scores(node, weight, theta, A).max(axis=1))
    targets = np.add.reduceat(R + g * V, first[:-1]) / np.diff(first)
    np.testing.assert_allclose(theta, targets, atol=1e-10)
    assert 5 < done < 200


def test_policy_iteration_stops_after_as_many_rounds_as_it_may_and_not_before_it_has_settled():
    A, (node, weight, R, g, end, first) = 3, samples(5)

    def sweeps(tolerance, most):
        theta, action = np.zeros(4 * A), np.full(len(R), -1)
        return solve(node, weight, action, R, g, end, 2.0, theta, A, first, tolerance, most), theta

    assert (
        sweeps(1e-11, 0)[0] == 0 and sweeps(0.0, 1)[0] == 21
    )  # a first sweep, and at most 20 that evaluate its policy
    assert sweeps(0.0, 22)[0] == 42
    loose, theta = sweeps(1e-2, 10_000)
    exact = sweeps(1e-11, 10_000)[1]
    assert loose < sweeps(1e-6, 10_000)[0] and np.abs(theta - exact).max() < 0.1  # the tolerance over 1 - g


def naive_cells(box, ticks, widest):
    """The leaves that hold a place, as boxes: each split along its relatively widest axis until none is too wide."""
    leaves = set()
    for place in ticks:
        lo, hi = [a.copy() for a in box]
        while True:
            ratio = (hi - lo) / widest
            ratio[hi - lo < 2] = 0.0  # one tick is not split
            i = int(ratio.argmax())
            if ratio[i] <= 1.0:
                break
            middle = (lo[i] + hi[i]) // 2
            if place[i] >= middle:
                lo[i] = middle
            else:
                hi[i] = middle
        leaves.add((*lo.tolist(), *hi.tolist()))
    return leaves


@pytest.mark.parametrize("widest", [(8.0, 8.0), (3.0, 16.0), (0.5, 5.0), (64.0, 64.0)])
def test_cells_are_made_where_places_are(widest):
    """Against boxes cut one by one; with too little room it says where it stopped, and goes on from there."""
    rng, box = np.random.default_rng(4), (np.array([0, 0]), np.array([32, 16]))
    ticks, widest = np.stack([rng.integers(0, 32, 30), rng.integers(0, 16, 30)], axis=1), np.array(widest)

    def cells(room):
        lo, hi = np.zeros((room, 2), dtype=np.int64), np.zeros((room, 2), dtype=np.int64)
        hi[0] = box[1]
        axis, child, wanted = np.full(room, -1), np.full(room, -1), np.zeros(room, dtype=bool)
        return axis, child, lo, hi, wanted

    axis, child, lo, hi, wanted = cells(400)
    count, stopped = touch(ticks, axis, child, lo, hi, wanted, 1, widest, 0)
    assert stopped == len(ticks)
    leaves = [k for k in range(count) if wanted[k]]
    assert all(child[k] < 0 for k in leaves)
    found = {(*lo[k].tolist(), *hi[k].tolist()) for k in leaves}
    assert found == naive_cells(box, ticks, widest) and len(found) == len(leaves)
    assert count == 1 + 2 * sum(child[:count] >= 0)

    assert touch(ticks, *cells(count), 1, widest, 0) == (count, len(ticks))
    if count > 1:
        made, at = touch(ticks, *cells(count - 1), 1, widest, 0)
        assert made == count - 2 and at < len(ticks)


def test_a_cell_is_halved_in_the_middle():
    lo, hi = np.array([[2, 4], [0, 0], [0, 0]]), np.array([[9, 6], [0, 0], [0, 0]])
    axis, child, wanted = np.full(3, 7), np.full(3, 7), np.ones(3, dtype=bool)
    assert halve(0, 0, axis, child, lo, hi, wanted, 1) == 3
    assert lo.tolist() == [[2, 4], [2, 4], [5, 4]] and hi.tolist() == [[9, 6], [5, 6], [9, 6]]
    assert (axis[0], child[0]) == (0, 1) and axis[1:].tolist() == child[1:].tolist() == [-1, -1]
    assert wanted.tolist() == [True, False, False]
