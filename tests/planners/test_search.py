"""`Search`: the cross-entropy update against plain NumPy, problems whose best theta is known, and starts."""

from __future__ import annotations

import math

import numpy as np
import pytest

import coreplan
from coreplan import FunctionModel, InputError, Problem, Search, SoftmaxPolicy
from coreplan.features import FunctionFeatures, Sparse
from coreplan.planners.search.comparing import bound, needed_pairs
from coreplan.planners.search.distribution import best, decided, drawn, fitted, roots
from coreplan.planners.search.kernels import act, add_spread
from coreplan.planners.search.state import fresh_state

ANGLES = np.linspace(0.0, 2 * math.pi, 24, endpoint=False)


def bandit(angle=1.0, noise=0.0, scale=(1.0, 1.0)):
    """One state, 24 actions on a circle: action a pays (1 + cos(a - angle)) / 2. The best theta points to `angle`."""
    phi = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1) * scale

    def step(rng, x, a):
        r = (1.0 + np.cos(ANGLES[a] - angle)) / 2.0
        return np.clip(r + noise * (rng.random(len(a)) - 0.5), 0.0, 1.0), np.zeros(len(x))

    features = FunctionFeatures(
        lambda x: np.tile(phi, (len(x), 1, 1)), 24, 2, float(np.hypot(*scale)) + 1.0, name=f"circle {scale}"
    )
    model = FunctionModel(24, lambda rng, n: np.zeros(n), step)
    return Problem(model, features, 0.5, name="bandit")


def earned(problem, policy, angle=1.0):
    return (1.0 + math.cos(ANGLES[policy.act(np.zeros(1))[0]] - angle)) / 2.0


def test_the_update_is_mean_and_variance_of_the_elite_up_to_length():
    """Against loops, with K = I and with a K of its own."""
    rng = np.random.default_rng(0)
    elite, B = rng.normal(size=(7, 3)), rng.normal(size=(3, 3))
    for K in (np.eye(3), B @ B.T):
        root, inverse = roots(K)
        np.testing.assert_allclose(root @ root, K, atol=1e-12)
        np.testing.assert_allclose(root @ inverse, np.eye(3), atol=1e-9)
        center, var = fitted(elite, root)
        z = np.array([root @ theta for theta in elite])
        mean = sum(z) / 7
        factor = math.sqrt(3) / math.sqrt(sum(mean**2))
        np.testing.assert_allclose(center, factor * mean, rtol=1e-12)
        plain = [sum((factor * z[i, k] - center[k]) ** 2 for i in range(7)) / 7 for k in range(3)]
        np.testing.assert_allclose(var, plain, rtol=1e-10)


def test_directions_without_spread_are_held_back_and_no_spread_at_all_is_the_identity():
    values = np.diag([4.0, 1.0, 0.0])
    inverse = roots(values).inverse
    np.testing.assert_allclose(np.diag(inverse), [0.5, 1.0, 1.0 / math.sqrt(4e-6)])
    assert (roots(np.zeros((2, 2))).root == np.eye(2)).all()


def test_candidates_have_the_covariance_that_was_asked_for():
    """2 million numbers: relative errors of variances are below 1%, ten standard errors of .1%."""
    B = np.array([[2.0, 0.0], [1.0, 0.5]])
    K, var = B @ B.T, np.array([1.0, 4.0])
    theta = drawn(np.random.default_rng(1), 1_000_000, np.array([3.0, -1.0]), var, roots(K).inverse)
    z = theta @ roots(K).root
    np.testing.assert_allclose(z.mean(axis=0), [3.0, -1.0], atol=0.02)
    np.testing.assert_allclose(np.cov(z.T), np.diag(var), atol=0.04)


def test_the_elite_is_decided_only_when_no_other_can_reach_it():
    """Against trying out both ends of every interval."""
    rng = np.random.default_rng(2)
    found = set()
    for _ in range(300):
        N, e = 5, 2
        low = rng.integers(0, 4, N).astype(float)
        high = low + rng.integers(0, 3, N) * (rng.random(N) < 0.5)
        elite = set(best(low, high, e).tolist())
        worst = min(low[i] for i in elite)
        certain = all(high[i] <= worst for i in range(N) if i not in elite)
        assert decided(low, high, e) == certain
        found.add(certain)
    assert found == {True, False}


def test_kernels_against_numpy_dense_and_sparse():
    rng = np.random.default_rng(3)
    phi = rng.normal(size=(6, 4, 3))
    sparse = Sparse(np.tile(np.arange(3, dtype=np.int32), (6, 4, 1)), phi.copy())
    thetas = rng.normal(size=(2, 3))
    rows, who = np.array([0, 5, 2, 2]), np.array([1, 0, 0, 1])
    plain = [int(np.argmax(phi[n] @ thetas[w])) for n, w in zip(rows, who, strict=True)]
    K = sum(np.cov(phi[n].T, bias=True) for n in rows)
    for batch in (phi, sparse):
        actions, spread = np.empty(4, dtype=np.int64), np.zeros((3, 3))
        act(batch, rows, who, thetas, np.full(2, np.inf), np.zeros(4), np.empty(4), actions)
        add_spread(batch, rows, np.empty((5, 3)), spread)
        assert actions.tolist() == plain
        np.testing.assert_allclose(spread, K, atol=1e-12)


@pytest.mark.parametrize("angle", [0.0, 1.0, 2.5, 4.0])
def test_it_finds_the_known_best_direction(angle):
    """On the circle the best action earns at least (1 + cos(pi / 24)) / 2 = .9957."""
    problem = bandit(angle)
    result = coreplan.plan(problem, planner=Search(), budget=4_000, seed=1, reality=0)
    assert earned(problem, result.policy, angle) > 0.9956


def test_units_of_features_do_not_matter():
    """One feature a million times as large: the whitened search finds the best action all the same."""
    problem = bandit(1.0, scale=(1000.0, 0.001 * 1000))
    result = coreplan.plan(problem, planner=Search(), budget=4_000, seed=1, reality=0)
    assert earned(problem, result.policy) > 0.98


def test_a_bad_start_is_left_and_a_perfect_one_stays():
    problem, best_theta = bandit(noise=0.2), np.array([math.cos(1.0), math.sin(1.0)])
    away = coreplan.plan(problem, planner=Search(start=-best_theta, width=2.0), budget=20_000, reality=0)
    assert earned(problem, away.policy) > 0.9 and away.planner.verdict is not None
    near = ANGLES[np.argmin(np.abs(ANGLES - 1.0))]
    perfect = SoftmaxPolicy(np.array([math.cos(near), math.sin(near)]), math.inf, problem.features)
    stays = coreplan.plan(problem, planner=Search(start=perfect), budget=20_000, reality=0)
    assert (stays.policy.theta == perfect.theta).all()
    assert "started from" in stays.reason and stays.status is coreplan.Status.FINISHED


def test_a_random_start_keeps_its_scale():
    """A softmax policy that is as good as any: with one reward for all actions nothing better can be shown."""
    problem = bandit()
    flat = Problem(
        FunctionModel(24, problem.model.initial, lambda rng, x, a: (np.full(len(x), 0.5), x)),
        problem.features,
        0.5,
    )
    start = SoftmaxPolicy(np.array([1.0, 0.0]), 3.0, problem.features)
    result = coreplan.plan(flat, planner=Search(start=start), budget=2_000, reality=0)
    assert result.policy.scale == 3.0 and (result.policy.theta == start.theta).all()
    assert result.status is coreplan.Status.DOUBTFUL and "the same" in result.reason


def test_bounds_of_paired_gains():
    """Against scipy's t interval; a pilot without gain asks for no pairs."""
    gains = np.array([1.0, 2.0, 0.0, 3.0])
    t = 3.182446305284263  # quantile .975 of Student's t with 3 degrees of freedom
    assert bound(gains) == pytest.approx(1.5 - t * gains.std(ddof=1) / 2)
    assert bound(gains[:1]) == -math.inf and needed_pairs(-gains) == math.inf
    assert needed_pairs(np.array([-9.0, 11.0])) == pytest.approx(4.0 * 200.0 / 1.0)


@pytest.mark.parametrize(
    ("gains", "true_gains", "chosen"),
    [
        ([1.4, 1.5, 1.6, 1.5], [1.4, 1.5, 1.6, 1.5], 1),
        ([1.4, 1.5, 1.6, 1.5], [-0.1, 0.1, 0.0, 0.1], 1),  # nothing is shown at the true discount
        ([1.4, 1.5, 1.6, 1.5], [-1.4, -1.5, -1.6, -1.5], 0),  # a loss is shown there
        ([1.0, 2.0, 0.0, 3.0], [1.0, 2.0, 0.0, 3.0], 0),  # a gain that cannot be told from none
        ([-1.4, -1.5, -1.6, -1.5], [1.4, 1.5, 1.6, 1.5], 0),
    ],
)
def test_the_start_is_left_only_for_a_gain_that_is_resolved(gains, true_gains, chosen):
    state = fresh_state(2, 2.0)._replace(
        score=np.array([np.full(4, 5.0), 5.0 + np.array(gains)]),
        true_score=np.array([np.full(4, 5.0), 5.0 + np.array(true_gains)]),
    )
    assert Search(start=np.ones(2))._compared(state).chosen == chosen


def test_what_cannot_work_is_refused():
    problem = bandit()
    other = SoftmaxPolicy(np.ones(2), math.inf, bandit(scale=(2.0, 2.0)).features)
    for planner, words in (
        (Search(start=np.ones(3)), "has 3 numbers and the features have dimension 2"),
        (Search(start=other), "for other features"),
    ):
        with pytest.raises(InputError, match=words):
            coreplan.plan(problem, planner=planner, budget=1_000)
    wide = Problem(
        problem.model, FunctionFeatures(lambda x: np.zeros((len(x), 24, 501)), 24, 501, 1.0, name="wide"), 0.5
    )
    with pytest.raises(InputError, match="d = 501, more than 500"):
        coreplan.plan(wide, planner=Search(), budget=1_000)
    for bad in ("x", [[1.0]], [np.nan, 1.0], 3, [1e200, 1.0]):
        with pytest.raises(InputError, match="start"):
            Search(start=bad)
    with pytest.raises(InputError, match="at least 1"):
        Search(horizon=0.5)
    for bad in (0.0, 1e200):
        with pytest.raises(InputError, match="at most 100"):
            Search(width=bad)


class Killed(BaseException):
    """Not an Exception, so that nothing handles it."""


class Bar:
    """A progress bar that kills the run at its third update."""

    updates = 0

    def update(self, queries):
        self.updates += 1
        if self.updates == 3:
            raise Killed

    def close(self):
        pass


def test_a_run_with_a_start_is_resumed_to_the_same_bits(tmp_path):
    problem, given = bandit(noise=0.2), {"budget": 6_000, "seed": 3, "reality": 0}
    start = SoftmaxPolicy(np.array([-1.0, 0.3]), 2.0, problem.features)
    whole = coreplan.plan(problem, planner=Search(start=start), **given)
    with pytest.raises(Killed):
        coreplan.plan(
            problem,
            planner=Search(start=start),
            **given,
            out=tmp_path,
            progress=Bar(),
            checkpoint_seconds=1e-9,
        )
    resumed = coreplan.plan(problem, planner=Search(start=start), **given, out=tmp_path, resume=True)
    assert resumed.policy.theta.tobytes() == whole.policy.theta.tobytes()
    assert (resumed.queries, resumed.reason) == (whole.queries, whole.reason)
    assert resumed.trace["elite_score"].tobytes() == whole.trace["elite_score"].tobytes()


def test_the_horizon_follows_the_elites_life_on_tetris_and_stays_without_ends():
    tetris = coreplan.plan(
        coreplan.make("tetris:lines=false"), planner=Search(), budget=30_000, seed=1000, reality=0
    )
    assert tetris.trace["horizon"][0] == pytest.approx(20.0) and tetris.trace["horizon"][-1] > 40.0
    fixed = coreplan.plan(
        coreplan.make("tetris:lines=false"), planner=Search(horizon=1), budget=5_000, seed=1000, reality=0
    )
    assert np.allclose(fixed.trace["horizon"], 20.0)
    stock = coreplan.plan(
        coreplan.make("inventory:features=quadratic"), planner=Search(), budget=10_000, seed=0, reality=0
    )
    assert np.ptp(stock.trace["horizon"]) == 0.0


def test_a_run_with_a_larger_budget_goes_on(tmp_path):
    """Also from the end of a comparison: a resumed run makes more generations."""
    problem = bandit(noise=0.2)
    for start in (None, np.array([-1.0, 0.3])):
        folder, planner = tmp_path / str(start is None), Search(start=start)
        few = coreplan.plan(problem, planner=planner, budget=2_000, seed=3, reality=0, out=folder)
        more = coreplan.plan(
            problem, planner=planner, budget=6_000, seed=3, reality=0, out=folder, resume=True
        )
        assert few.queries <= 2_000 < more.queries <= 6_000
        assert more.trace["generations"][-1] > few.trace["generations"][-1]
