"""The parts of `Refine`, each against a closed form, a naive form or a case made by hand."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan import FunctionModel, Problem, Refine
from coreplan.features import Box, grid_tree, tree_of
from coreplan.planners.refine.comparing import CLEARLY, clearly_positive, hidden_choice
from coreplan.planners.refine.growth import Base, Steps, base_nodes, finest_base, q_values
from coreplan.planners.refine.kernels import solve
from coreplan.planners.refine.rolling import chosen_hold
from coreplan.planners.refine.samples import Samples, cut, doubtful_pairs, moves
from coreplan.planners.refine.scouting import clipped_at, found_bounds, provisional
from coreplan.planners.refine.state import KEPT, fresh_state
from coreplan.planners.testing import kill_and_resume


def test_samples_are_cut_as_a_naive_loop_cuts_them():
    """Random walks of 1 to 6 steps on a circle and a line, cut where they have moved .3 of the box, or after 4 steps."""
    rng, box, gamma, far = np.random.default_rng(1), Box([0.0, -1.0], [1.0, 1.0], [True, False]), 0.9, 0.3
    lengths = rng.integers(1, 7, 60)
    first = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    pair = np.concatenate([np.arange(10), rng.integers(0, 10, 50)])
    x, y, R = rng.random((60, 2)), rng.random((lengths.sum(), 2)), rng.random(lengths.sum())
    y = np.where(rng.random((len(y), 1)) < 0.7, np.repeat(x, lengths, axis=0) + 0.05, y)
    end = rng.random(len(R)) < 0.1
    found = cut(pair, first, R, y, end, x=x, far=np.full(2, far), box=box, discount=gamma, hold=4, n_pairs=10)
    rows = []
    for s in range(60):
        for k in range(lengths[s]):
            i = first[s] + k
            moved = np.abs(y[i] - x[s]) / [1.0, 2.0]
            moved[0] = min(moved[0], 1.0 - moved[0])
            if (moved >= far).any() or k == 3 or k == lengths[s] - 1:
                rows.append((pair[s], R[i], gamma ** (k + 1), *y[i], end[i]))
                break
    rows = [rows[i] for i in np.argsort([row[0] for row in rows], kind="stable")]
    np.testing.assert_array_equal(np.diff(found.first), np.bincount(pair, minlength=10))
    np.testing.assert_allclose(np.column_stack([found.R, found.g, found.y, found.end]), np.array(rows)[:, 1:])


def test_the_solve_with_unequal_numbers_of_samples_is_the_linear_system():
    """One action: theta = mean over a pair's samples of R + g w . theta, solved by NumPy."""
    rng, n = np.random.default_rng(2), np.array([1, 3, 2, 5])
    S, C = int(n.sum()), 2
    node, weight = rng.integers(0, 4, (S, C)), rng.random((S, C))
    weight /= weight.sum(axis=1, keepdims=True)
    R, g, end = rng.random(S), rng.uniform(0.5, 0.9, S), rng.random(S) < 0.2
    owner = np.repeat(np.arange(4), n)
    P, b = np.zeros((4, 4)), np.zeros(4)
    for s in range(S):
        b[owner[s]] += (R[s] + (g[s] * 7.0 if end[s] else 0.0)) / n[owner[s]]
        for c in range(C):
            P[owner[s], node[s, c]] += 0.0 if end[s] else g[s] * weight[s, c] / n[owner[s]]
    theta = np.zeros(4)
    first = np.concatenate([[0], np.cumsum(n)])
    solve(node, weight, np.full(S, -1), R, g, end, 7.0, theta, 1, first, 1e-12, 10_000)
    np.testing.assert_allclose(theta, np.linalg.solve(np.eye(4) - P, b), rtol=1e-9)


@pytest.mark.parametrize(
    ("returns", "k", "tells"),
    [
        ([[1.0, 1.0], [5.0, 5.0], [5.0, 5.0]], 1, True),  # the shortest of equals
        ([[4.0, 6.0], [5.0, 5.1], [1.0, 1.0]], 0, True),  # .05 behind, and uncertain by more
        ([[4.0, 4.1], [5.0, 5.1], [1.0, 1.0]], 1, True),  # 1 behind in every chain
        ([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], 2, False),  # none has reached the goal
        ([[3.0, 3.0]], 0, True),  # nothing to choose
    ],
)
def test_the_shortest_hold_that_is_not_clearly_worse(returns, k, tells):
    assert chosen_hold(np.array(returns)) == (k, tells)


def test_pairs_are_doubtful_by_visits_and_spread():
    """Nodes 0, .5, 1 on a line, two actions; the path takes action 1 at 0.25 and at 1. By hand: u s / sqrt(n)."""
    tree = grid_tree(Box([0.0], [1.0]), 1)
    at = {float(x): j for j, x in enumerate(tree.nodes()[:, 0])}
    pairs = [2 * at[x] + a for x in (0.0, 0.5, 1.0) for a in (0, 1)]
    target = {p: [1.0, 1.0] for p in pairs}
    target[2 * at[0.0] + 1] = [0.0, 4.0]  # spread on the path
    target[2 * at[0.5] + 0] = [0.0, 9.0]  # spread off the path: not its action
    R = np.concatenate([target[p] for p in range(6)])
    samples = Samples(
        first=np.arange(0, 13, 2), R=R, g=np.zeros(12), y=np.zeros((12, 1)), end=np.zeros(12, dtype=bool)
    )
    x = np.array([[0.25], [1.0]])
    steps = Steps(
        x=x, action=np.array([1, 1]), reward=np.zeros(2), y=x, end=np.zeros(2, dtype=bool), weight=np.array([1.0, 0.5])
    )  # fmt: skip
    found, error, total = doubtful_pairs(tree, np.zeros(6), samples, steps, 0.9, 0.0)
    u = {2 * at[0.0] + 1: 0.5, 2 * at[0.5] + 1: 0.5, 2 * at[1.0] + 1: 0.5}
    common = 0.5 * 8.0 / 1.5  # squares around the mean: 8 for one pair, one degree of freedom each
    by_hand = {
        p: 0.5 * np.sqrt(((8.0 if p == 2 * at[0.0] + 1 else 0.0) + common) / 2) / np.sqrt(2) for p in u
    }
    assert found[0] == 2 * at[0.0] + 1 and set(found) == set(u)
    np.testing.assert_allclose(error, [by_hand[p] for p in found])
    assert total == pytest.approx(sum(by_hand.values()))


def test_bounds_are_the_range_seen_widened_and_made_even():
    """Of 0, .01, ..., 1 the 1% and 99% quantiles are .01 and .99; a quarter of .98 is added. Whole bounds are rounded."""
    box = Box([0.0, -np.inf, -np.inf], [np.inf, np.inf, np.inf], whole=[False, False, True])
    u = np.linspace(0.0, 1.0, 101)
    state = fresh_state(box)._replace(
        told=101, step_y=np.stack([u, 2 * u - 0.9, 10 + 100 * np.rint(u)], axis=1)
    )
    with pytest.warns(coreplan.CoverageWarning, match="101 steps"):
        state = found_bounds(state, box)
    np.testing.assert_allclose(state.low[:2], [0.0, -(1.08 + 0.49)])
    np.testing.assert_allclose(state.high[:2], [0.99 + 0.245, 1.08 + 0.49])
    assert (state.low[2], state.high[2]) == (-15.0, 135.0)
    assert provisional(box).finite.all() and box.contains(provisional(box))


def test_a_bound_is_where_states_pile_up():
    """Random walks that are clipped at 1 show 1 as the upper bound of the first coordinate, and no other bound."""
    rng = np.random.default_rng(3)
    rows = np.stack([np.minimum(rng.normal(0.5, 0.4, 500), 1.0), rng.normal(size=500)], axis=1)
    assert clipped_at(rows, 0, 1.0) == 1.0
    assert clipped_at(rows, 0, -1.0) is clipped_at(rows, 1, 1.0) is clipped_at(rows, 1, -1.0) is None
    steps = np.stack(
        [rng.binomial(10, 0.5, 500), rng.random(500)], axis=1
    )  # multiples of a unit, and no edge
    assert clipped_at(steps, 0, 1.0) is clipped_at(steps, 0, -1.0) is None
    assert clipped_at(np.repeat(rows[:1], 50, axis=0), 0, 1.0) is None  # one state that stays
    assert clipped_at(rows[:0], 0, 1.0) is None
    state = fresh_state(box := Box([-np.inf, -1.0], [np.inf, 1.0]))._replace(told=500, step_y=rows)
    with pytest.warns(coreplan.CoverageWarning, match="500 steps"):
        state = found_bounds(state, box)
    assert state.high[0] == 1.0 and state.low[0] < rows[:, 0].min() + 0.1


def test_moves_go_the_short_way_round():
    box = Box([0.0, 0.0], [1.0, 4.0], [True, False])
    np.testing.assert_allclose(moves(box, np.array([[0.9, 3.0]]), np.array([[0.1, 1.0]])), [[0.2, -0.5]])


def test_how_far_noise_hides_the_choice_of_an_action():
    """Two actions move by -c and +c, noise has the standard deviation s: the ratio of variances is s^2 / (2 c^2)."""
    rng, c, s = np.random.default_rng(4), 0.3, 0.5
    mean = np.array([-c, c])[None, :, None]
    one, two = (mean + s * rng.standard_normal((20_000, 2, 1)) for _ in range(2))
    assert hidden_choice(one, two) == pytest.approx(s**2 / (2 * c**2), rel=0.05)  # errors of less than 2%
    assert hidden_choice(mean.repeat(5, axis=0), mean.repeat(5, axis=0)) == 0.0  # no noise hides nothing
    assert hidden_choice(one - mean, two - mean) > 50.0  # actions that do nothing


@pytest.mark.parametrize(("nodes", "base"), [(4096, Base(0, 8)), (4095, Base(2, 4)), (80, Base(0, 4))])
def test_a_coordinate_of_few_values_is_a_table_where_that_can_be_paid(nodes, base):
    """Four coordinates of eight values: 8^4 nodes as tables; else cut like others, never below a unit."""
    box = Box([0.0] * 4, [7.0] * 4, whole=[True] * 4)
    found = finest_base(box, nodes)
    assert base_nodes(box, found) <= nodes
    assert (found.table == 8) == (nodes >= 4096)
    mixed = Box([0.0, 0.0], [1.0, 3.0], whole=[False, True])
    assert finest_base(mixed, 20) == Base(2, 8)  # five places by four values


class Recorded(coreplan.NoiseModel):
    """A line with noise; keeps what it was asked."""

    def __init__(self):
        def step(x, a, u):
            self.asked.append((x.copy(), a.copy(), u.copy()))
            return x[:, 0], np.clip(x + np.where(a == 1, 0.05, -0.05)[:, None] + 0.2 * (u - 0.5), 0.0, 1.0)

        self.asked = []
        super().__init__(2, lambda rng, n: rng.random((n, 1)), step, noise_dimension=1)


def test_actions_of_a_node_share_noise_that_is_evenly_spread():
    """All first samples of new nodes: the noise of a pair lies in n different n-ths, and is that of the other action."""
    model = Recorded()
    problem = Problem(model, None, 0.9, box=([0.0], [1.0]))
    coreplan.plan(problem, planner=Refine(hold=1), budget=2_000, reality=0)
    seen = 0
    for x, a, u in model.asked:
        for place in np.unique(x):
            left, right = (np.sort(u[(x[:, 0] == place) & (a == k), 0]) for k in (0, 1))
            if len(left) == len(right) > 2:  # not rollouts, and no single pair that is sampled again
                np.testing.assert_array_equal(left, right)
                np.testing.assert_allclose(np.diff(left), 1.0 / len(left))
                seen += 1
    assert seen > 5


def test_rewards_that_are_all_the_same_are_no_reason_to_be_content():
    """Nothing was learnt of a goal that was never met."""

    def step(rng, x, a):
        return (x[:, 0] > 0.999) * 0.0, np.clip(x + np.where(a == 1, 0.05, -0.05)[:, None], 0.0, 1.0)

    model = FunctionModel(2, lambda rng, n: rng.random((n, 1)), step)
    result = coreplan.plan(
        Problem(model, None, 0.9, box=([0.0], [1.0])), planner=Refine(), budget=500, reality=0
    )
    assert result.status is coreplan.Status.DOUBTFUL and "rewards seen were the same" in result.reason


def line_without_end():
    """A random walk up or down a line from 0, which pays for being up; no bound is given."""

    def step(rng, x, a):
        y = np.clip(x + np.where(a == 1, 0.1, -0.1)[:, None] + 0.02 * rng.standard_normal(x.shape), -1.0, 1.0)
        return (x[:, 0] + 1.0) / 2.0, y

    model = FunctionModel(2, lambda rng, n: np.zeros((n, 1)), step)
    return Problem(model, None, 0.9, box=([-np.inf], [np.inf]), name="line without end")


def test_a_run_without_bounds_is_resumed_with_the_same_bits(monkeypatch):
    monkeypatch.setattr("coreplan.planners.testing._problems", lambda planner: [line_without_end()])
    with pytest.warns(coreplan.CoverageWarning, match="found by"):
        kill_and_resume(Refine(), 600)


def test_the_values_and_the_errors_on_the_path_are_what_the_policy_earns():
    """V_pi(x) = V(x) + the discounted sum of Bellman errors on the policy's path: an identity, for any tree and theta."""

    def step(rng, x, a):
        return (x[:, 0] > 0.9) * 1.0, np.clip(x + np.where(a == 1, 0.07, -0.05)[:, None], 0.0, 1.0)

    model = FunctionModel(2, lambda rng, n: np.full((n, 1), 0.213), step)
    problem, gamma = Problem(model, None, 0.9, box=([0.0], [1.0])), 0.9
    policy = coreplan.plan(problem, planner=Refine(), budget=600, reality=0).policy
    tree = tree_of(policy.features)
    x, t, earned, errors = np.array([[0.213]]), 0, 0.0, 0.0
    start = q_values(tree, policy.theta, x).max()
    while gamma**t > 1e-12:
        q, a = q_values(tree, policy.theta, x), policy.act(x)
        r, y = model.step(np.random.default_rng(0), x, a)
        V = q_values(tree, policy.theta, y).max()
        earned, errors = earned + gamma**t * r[0], errors + gamma**t * (r[0] + gamma * V - q[0, a[0]])
        x, t = y, t + 1
    assert earned == pytest.approx(start + errors, abs=1e-9)


@pytest.mark.parametrize(
    ("gaps", "clear"),
    [
        ([1.0, 1.0, 1.0], True),
        ([1.0, -0.9, 0.2], False),
        ([-1.0, -1.0], False),
        ([5.0], False),
        ([0.0, 0.0], False),
    ],
)
def test_a_policy_is_clearly_better_only_where_rollouts_can_tell(gaps, clear):
    assert clearly_positive(np.array(gaps), CLEARLY) == clear


@pytest.mark.parametrize(("lead", "chosen"), [(0.05, KEPT), (1.0, 2)])
def test_the_last_policy_stands_unless_another_is_clearly_better(lead, chosen):
    """Policy 2 leads the last by `lead`, give or take .1 in four rollouts; policy 4 leads by more, and did not finish."""
    state = fresh_state(Box([0.0], [1.0]))
    noise = np.array([-0.1, 0.1, 0.1, -0.1, 0.0])
    state.final.resize((KEPT + 1, 5), refcheck=False)
    state.final[:] = np.nan
    state.final[2], state.final[KEPT] = noise + lead, 0.0
    state.final[KEPT, 4] = np.nan
    state.kept_score[[2, KEPT]] = 1.0, np.inf
    assert Refine()._chosen(state).chosen == chosen


def test_chains_that_stay_where_they_are_come_to_an_end():
    """Noise on a line whose end is never left. From .225 to .9 are 14 steps; chains to the horizon's end would be 150."""
    inside = []

    def step(rng, x, a):
        there = x > 0.9
        inside.append(there.sum())
        noisy = np.where(a == 1, 0.05, -0.05)[:, None] + 0.002 * rng.standard_normal(x.shape)
        return there[:, 0] * 1.0, np.where(there, x, np.clip(x + noisy, 0.0, 1.0))

    model = FunctionModel(2, lambda rng, n: np.full((n, 1), 0.225), step)
    problem = Problem(model, None, 0.98, box=([0.0], [1.0]))
    result = coreplan.plan(problem, planner=Refine(), budget=5_000, reality=0)
    assert sum(inside) < 0.45 * result.queries  # 0.32; without that 0.58
    assert coreplan.evaluate(problem, result.policy, rollouts=100).value > 0.98**16
