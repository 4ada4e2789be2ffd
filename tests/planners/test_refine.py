"""`Refine`: features and core set grown together, on problems whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan import FunctionModel, InputError, Problem, Refine
from coreplan.features import bounds_of, tree_of
from coreplan.planners.testing import bounded_corridor, bounded_places
from coreplan.policy import with_own_features


def line(box=((0.0,), (1.0,)), start=0.225, **more):
    """Steps of at most .05 on a line; standing beyond .9 pays 1."""

    def step(rng, x, a):
        return (x[:, 0] > 0.9) * 1.0, np.clip(x + np.where(a == 1, 0.05, -0.05)[:, None], 0.0, 1.0)

    model = FunctionModel(2, lambda rng, n: np.full((n, 1), start), step)
    return Problem(model, None, 0.9, box=box, **more)


def test_a_line_is_walked_to_its_end():
    """From .225 it takes 14 steps to stand beyond .9, so the best normalised value is .9^14."""
    problem = line()
    result = coreplan.plan(problem, planner=Refine(), budget=2_000, reality=0)
    assert result.queries <= 2_000
    value = coreplan.evaluate(problem, result.policy, rollouts=2).value
    assert value == pytest.approx(0.9**14, rel=0.02)


def test_whole_places_are_a_table_and_solved():
    """Six places: as good as the exact solution by value iteration on the same table, up to sampling."""
    problem = bounded_places()
    result = coreplan.plan(problem, planner=Refine(samples=100), budget=6_000, reality=0)
    tree = tree_of(result.policy.features)
    assert sorted(tree.nodes()[:, 0]) == list(range(6))  # one node per place, and no split below one unit
    assert result.policy.act(np.array([[3], [4], [5]])).tolist() == [1, 1, 1]


def test_the_core_set_is_exact_and_the_certificate_sees_it():
    problem = bounded_places()
    result = coreplan.plan(problem, planner=Refine(), budget=4_000, certify=20_000)
    seen = with_own_features(problem, result.policy)
    Phi = coreplan.CoreSet.of(seen).features(seen.features)
    dense = np.zeros((len(Phi.index), seen.features.dimension))
    np.add.at(dense, (np.arange(len(dense))[:, None], Phi.index), Phi.weight)
    np.testing.assert_array_equal(dense, np.eye(len(dense)))
    assert result.certificate is not None, result.refused
    assert result.core is not None and len(result.core.actions) == len(result.policy.theta)


def test_a_policy_is_saved_with_its_tree_and_acts_alone(tmp_path):
    problem = bounded_corridor()
    policy = coreplan.plan(problem, planner=Refine(), budget=2_000, reality=0).policy
    policy.save(tmp_path / "policy.npz")
    states = np.random.default_rng(0).random((200, 2)) * 1.2 - 0.1
    for again in (
        coreplan.load_policy(tmp_path / "policy.npz"),
        coreplan.load_policy(tmp_path / "policy.npz", problem),
    ):
        np.testing.assert_array_equal(again.act(states), policy.act(states))
    with pytest.raises(coreplan.FileError, match="other features"):
        coreplan.load_policy(tmp_path / "policy.npz", line())


@pytest.mark.parametrize("budget", [200, 1_000, 3_001])
def test_the_budget_is_kept(budget):
    result = coreplan.plan(bounded_corridor(), planner=Refine(), budget=budget, reality=0)
    assert 0.5 * budget < result.queries <= budget


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"box": ([1.0], [0.0])}, "low < high"),
        ({"box": ([np.nan], [1.0])}, "low < high"),
        ({"box": ([], [])}, "are empty"),
        ({"box": 3}, "must be a Box"),
        ({"box": ([0.0], [np.inf]), "periodic": [True]}, "one period"),
        ({"box": ([np.inf], [np.inf])}, "low < high"),
        ({"box": ([0.5], [2.0]), "whole": [True]}, "whole bounds"),
        ({"box": ([-1e308], [1e308])}, "too wide"),
        ({"box": ([1.0], [1.0 + 1e-15])}, "too narrow"),
        ({"box": ([0.0], [1e17]), "whole": [True]}, "skip whole ones"),
        ({"box": None, "periodic": [True]}, "must be a Box"),
        ({"box": ([0.0], [1.0]), "horizon": 5}, "horizon"),
    ],
)
def test_boxes_that_are_none(fields, says):
    with pytest.raises(InputError, match=says):
        line(**fields)


def test_what_is_refused():
    with pytest.raises(InputError, match="bounds and no features"):
        coreplan.plan(line(), planner=coreplan.Grow(), budget=100)
    with pytest.raises(InputError, match="give the problem a box"):
        coreplan.plan(coreplan.make("river-swim"), planner=Refine(), budget=100)
    with pytest.raises(coreplan.FeatureError, match="declared whole"):
        coreplan.plan(line(box=((0,), (1,)), whole=[True]), planner=Refine(), budget=500)
    many = FunctionModel(2, lambda rng, n: np.zeros((n, 10)), lambda rng, x, a: (np.zeros(len(x)), x))
    with pytest.raises(InputError, match="1,024 nodes"):
        coreplan.plan(Problem(many, None, 0.9, box=([-1.0] * 10, [1.0] * 10)), planner=Refine(), budget=2_000)
    with pytest.raises(InputError, match="give one of the two"):
        Problem(many, coreplan.make("river-swim").features, 0.9, box=([0.0], [1.0]))


def test_states_outside_are_warned_about():
    with pytest.warns(coreplan.CoverageWarning, match="outside"):
        coreplan.plan(line(box=((0.0,), (0.5,))), planner=Refine(), budget=500)


def test_bounds_that_are_not_given_are_found_by_rollouts_and_said():
    """A line of [0, 1] whose upper end is not known: the walk to its end is found all the same, in the budget."""
    problem = line(box=((0.0,), (np.inf,)), start=0.625)
    with pytest.warns(coreplan.CoverageWarning, match=r"found by 80 steps.*coordinate 0 from 0 to"):
        result = coreplan.plan(problem, planner=Refine(), budget=2_000, reality=0)
    assert result.queries <= 2_000
    box = tree_of(result.policy.features).box
    assert box.low[0] == 0.0 and 0.5 < box.high[0] < 2.0
    value = coreplan.evaluate(problem, result.policy, rollouts=2).value
    assert value == pytest.approx(0.9**6, rel=0.05)


def test_bounds_of_gymnasium_spaces():
    pytest.importorskip("gymnasium")
    car = coreplan.from_gymnasium("MountainCar-v0").bounds
    np.testing.assert_allclose(car.low, [-1.2, -0.07], rtol=1e-6)
    acrobot = bounds_of(coreplan.from_gymnasium("Acrobot-v1").features)
    assert acrobot.periodic.tolist() == [True, True, False, False]


def test_states_that_the_tree_could_not_take_are_refused_at_once():
    """Before a query is paid: masks, states that are no row of numbers, integers that are not declared whole."""

    def still(rng, x, a):
        return np.zeros(len(x)), x

    with pytest.raises(InputError, match=r"mask.*needs features"):
        line(mask=lambda x: np.ones((len(x), 2), dtype=bool))
    flat = FunctionModel(2, lambda rng, n: np.zeros(n), still)
    with pytest.raises(coreplan.FeatureError, match=r"must be 1 numbers, shape \(1,\)"):
        coreplan.plan(Problem(flat, None, 0.9, box=([0.0], [1.0])), planner=Refine(), budget=500)
    places = FunctionModel(2, lambda rng, n: np.zeros((n, 1), dtype=np.int64), still)
    with pytest.raises(InputError, match=r"whole=\[True"):
        coreplan.plan(Problem(places, None, 0.9, box=([0], [5])), planner=Refine(), budget=500)
    declared = Problem(places, None, 0.9, box=([0], [5]), whole=[True])
    assert coreplan.plan(declared, planner=Refine(), budget=500).queries <= 500


def machines():
    """Four machines of ages 0 to 7, one of which may be mended: 4,096 states, too many for a table."""

    def step(rng, x, a):
        y = np.minimum(x + (rng.random(x.shape) < 0.5), 7)
        for k in range(4):
            y[a == k + 1, k] = 0
        return -((x**2).sum(axis=1) / 4 + 6 * (a > 0)), y

    model = FunctionModel(5, lambda rng, n: rng.integers(0, 4, (n, 4)).astype(float), step)
    return Problem(model, None, 0.9, (-56.0, 0.0), box=([0] * 4, [7] * 4), whole=[True] * 4)


def test_whole_coordinates_too_many_for_a_table_are_planned():
    """A table takes 20,480 queries for one sample each. Mending whoever is oldest earns .863, doing nothing .45."""
    problem = machines()
    result = coreplan.plan(problem, planner=Refine(), budget=10_000, reality=0)
    value = coreplan.evaluate(problem, result.policy, rollouts=200, exact=False).value
    oldest = coreplan.evaluate(
        problem, lambda x: np.where(x.max(axis=1) > 2, 1 + x.argmax(axis=1), 0), rollouts=200
    )
    assert value > oldest.value - 0.01


def two_queues():
    """Two queues, one of which is served; noise moves them more than the choice does."""

    def step(rng, x, a):
        u, y = rng.random((len(x), 3)), x.copy()
        y[:, 0] += u[:, 0] < 0.25
        y[:, 1] += u[:, 1] < 0.35
        y[np.arange(len(x)), a] -= u[:, 2] < np.where(a == 0, 0.45, 0.85)
        return -(3 * x[:, 0] + x[:, 1]), np.clip(y, 0, 30)

    model = FunctionModel(2, lambda rng, n: rng.integers(0, 15, (n, 2)).astype(float), step)
    return Problem(model, None, 0.99, (-120.0, 0.0), box=([0, 0], [30, 30]), whole=[True, True])


def test_where_noise_hides_the_actions_samples_come_before_cells():
    """A table of 961 nodes with 3 samples per pair earns .77; .81 is what 81 nodes with 44 samples earn."""
    problem, values = two_queues(), []
    for seed in range(3):
        policy = coreplan.plan(problem, planner=Refine(), budget=8_000, seed=seed, reality=0).policy
        assert len(policy.theta) < 2 * 600
        values.append(coreplan.evaluate(problem, policy, rollouts=300, exact=False).value)
    assert np.mean(values) > 0.78


def test_made_up_states_whose_rewards_are_out_of_range_are_explained():
    def step(rng, x, a):
        return -(x[:, 0] ** 2), np.clip(x + 0.1 * (a[:, None] - 0.5), -1.0, 1.0)

    model = FunctionModel(2, lambda rng, n: np.zeros((n, 1)), step)
    problem = Problem(model, None, 0.9, (-1.0, 0.0), box=([-2.0], [2.0]))
    with pytest.raises(coreplan.SimulatorError, match=r"outside the declared range.*narrow the box"):
        coreplan.plan(problem, planner=Refine(), budget=500)


def test_what_no_tree_can_hold_is_said():
    model = FunctionModel(2, lambda rng, n: np.zeros((n, 13)), lambda rng, x, a: (np.zeros(len(x)), x))
    with pytest.raises(InputError, match=r"2\^13 corners, more than 2\^12"):
        coreplan.plan(Problem(model, None, 0.9, box=([-1.0] * 13, [1.0] * 13)), budget=10**7)
    with pytest.raises(InputError, match=r"needs the bounds of a state"):
        Problem(model, None, 0.9)
