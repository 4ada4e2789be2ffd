"""`check` tells: no green light without the power to find what it rules out, and the right remedy where there is one."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import coreplan
from coreplan import CoreSet, FunctionModel, Problem, check
from coreplan.base import Lane
from coreplan.core import Frame
from coreplan.judge import policy_value
from coreplan.judge.assumptions import AMBER, GREEN, GREY, RED, fitted, residual
from coreplan.judge.assumptions.region import worst_region
from coreplan.problem import interpolation, one_hot
from coreplan.sampled import draw
from coreplan.simulate import Simulator
from helpers.mutants import mutant
from helpers.walls import square

ROW = "Bellman residual"


def sliding(curve, nodes=5, noise=0.0, discount=0.9):
    """A state in [0, 1] that drifts, and a reward that is linear in it but for `curve` times a parabola."""

    def step(rng, states, actions):
        to = np.clip(
            states + np.where(actions == 1, 0.1, -0.1)[:, None] + noise * rng.standard_normal(states.shape),
            0,
            1,
        )
        x = states[:, 0]
        return 0.5 * x + curve * x * (1 - x), to

    return Problem(
        FunctionModel(2, lambda rng, n: rng.random((n, 1)), step),
        interpolation([0.0], [1.0], [nodes], 2),
        discount,
    )


# A square with walls.


@pytest.mark.parametrize("nodes", [4, 6])
def test_a_grid_too_coarse_for_the_walls_is_red(nodes):
    """Values leak through the wall: the policy runs against it, and the region named is the strip before it."""
    report = check(square(nodes))
    row = report["reality"]
    assert row.light == RED and report.worst == RED and row.interval[1] < 0.1
    assert (
        "promise too much" in row.verdict and "state[0] from 0.3" in row.verdict and "to 0.43" in row.verdict
    )
    named = square(nodes)
    object.__setattr__(named, "state_names", ("east", "north"))
    assert "east from 0.3" in check(named)["reality"].verdict


def test_a_fine_grid_is_not_red():
    report = check(square(16), queries=30_000)
    assert RED not in [row.light for row in report.rows]
    assert report["reality"].light == GREEN and 0.25 < report["reality"].value < 0.4


# The interval of the residual.


def exact(problem):
    """The residual of what `check` fits where nothing is random: its root mean square is far from 0 only by the features."""
    return check(problem, queries=200_000)[ROW].value


def test_the_interval_holds_the_residual():
    """A parabola in the reward that 3 nodes cannot follow, under noise; limits at 99.9% and 95%. Of 40 intervals at most
    14 may miss: more have probability below 1e-6, even if the pairs that rollouts gather differ a little."""
    problem = sliding(0.4, nodes=3, noise=0.3)
    truth = exact(problem)
    found = [check(problem, queries=2000, seed=seed)[ROW].interval for seed in range(40)]
    assert truth > 0.015
    assert sum(not low <= 1.05 * truth or not 0.95 * truth <= high for low, high in found) <= 14
    assert np.median([high for _, high in found]) < 8 * truth


@pytest.mark.parametrize(
    "fault",
    [
        ("square - float(stdtrit(self.terms - 1, 1.0 - ALARM)) * self.error", "square + 9 * self.error"),
        (
            "return math.sqrt(seen) + RULE_OF_THREE / self.design.n * self.largest",
            "return math.sqrt(max(self.square, 0.0))",
        ),
    ],
    ids=["low", "high"],
)
def test_limits_that_are_none_miss_it(fault, tmp_path, monkeypatch):
    """Faults: a lower limit above the estimate, and an upper limit that is the estimate itself."""
    problem = sliding(0.4, nodes=3, noise=0.3)
    truth = exact(problem)
    broken = mutant(residual, *fault, tmp_path, monkeypatch)
    for name in ("measure", "row"):
        monkeypatch.setattr(residual, name, getattr(broken, name))
    found = [check(problem, queries=2000, seed=seed)[ROW].interval for seed in range(40)]
    assert sum(not low <= 1.05 * truth or not 0.95 * truth <= high for low, high in found) > 14


@pytest.mark.parametrize(
    "problem", [sliding(0.0, nodes=2), sliding(0.0, nodes=11), coreplan.make("river-swim")]
)
@pytest.mark.parametrize("queries", [200, 2000, 20_000])
def test_the_interval_is_never_a_point(problem, queries):
    """Also where nothing is random and everything is linear, so that all that is measured is zero."""
    report = check(problem, queries=queries)
    for name in (ROW, "reality"):
        if report[name].interval is not None:
            low, high = report[name].interval
            assert low < high, name
    json.dumps(report.as_dict(), allow_nan=False)


# Power.


def test_green_needs_queries_and_their_number_is_right():
    """Linear, nothing to be found: grey with few queries; with the number that it names, green within a factor of 4."""
    problem = coreplan.make("random-linear")
    rows = [check(problem, queries=3000, seed=seed)[ROW] for seed in range(5)]
    assert sum(row.light == GREY for row in rows) >= 4
    for seed, row in enumerate(rows):
        if row.light == GREY:
            assert f"{row.needed:,} queries" in row.verdict and row.needed > 3000
            assert check(problem, queries=4 * row.needed, seed=seed)[ROW].light == GREEN
            assert check(problem, queries=row.needed // 4, seed=seed)[ROW].light == GREY


def test_a_residual_that_matters_is_found_with_the_number_that_is_named():
    """The same from the other side: too few queries show nothing, and four times the number named show amber or red."""
    problem = sliding(1.5, nodes=2, noise=0.3)
    row = check(problem, queries=600)[ROW]
    assert row.light == GREY and row.needed is not None
    assert check(problem, queries=4 * row.needed)[ROW].light in (AMBER, RED)


@pytest.mark.parametrize("queries", [2000, 10_000])
@pytest.mark.parametrize("spec", ["random-linear", "river-linear"])
def test_linear_problems_are_not_accused(spec, queries):
    """20 seeds, at a risk of 0.001 each of a lower limit above zero; an alarm needs one far above."""
    problem = coreplan.make(spec)
    for seed in range(20):
        report = check(problem, queries=queries, seed=seed)
        assert report[ROW].light in (GREEN, GREY) and report["reality"].light in (GREEN, GREY)
        assert report.queries <= queries


def test_few_visits_make_no_green_light():
    report = check(square(3), queries=400)
    for name in ("coverage", "hull error", "reach"):
        assert report[name].light == GREY and report[name].needed > 400, report[name]
        assert check(square(3), queries=2 * report[name].needed)[name].light == GREEN
    assert check(square(3), queries=150)["D"].light == GREY and report.worst in (GREY, AMBER, RED)


# What rollouts earn.


@pytest.mark.parametrize("wrong", [0.0, 3.0])
def test_rollouts_earn_what_the_policy_is_worth(wrong):
    """Against the exact value of the fitted policy and of the uniform one, in 6 standard errors; wrong values do no harm."""
    problem, rng = coreplan.make("random-linear"), np.random.default_rng(0)
    core = CoreSet.of(problem)
    frame = Frame(core.features(problem.features), 8)
    simulator = Simulator(problem, core, 1, lane=Lane.CHECK)
    fit = fitted.fit(problem, frame, draw(simulator, core.states, core.actions, np.repeat(np.arange(8), 200)))
    for values in (fit.greedy, fit.uniform):
        bent = dataclasses.replace(values, theta=values.theta + wrong * np.linspace(-1, 1, 8))
        rolled = fitted.roll(simulator, bent, 40_000, rng)
        exact_value = policy_value(problem.tabular(), values.policy, 0.9)
        assert abs(rolled.earned.mean - exact_value) < 6 * rolled.earned.error < 0.05
        assert rolled.weights.sum() == pytest.approx(len(rolled.d))


def test_all_queries_are_counted():
    calls = [0]
    problem = square(5)

    def step(rng, states, actions):
        calls[0] += len(actions)
        return problem.model.step(rng, states, actions)

    counted = dataclasses.replace(problem, model=FunctionModel(4, problem.model.initial, step))
    assert check(counted, queries=5000).queries == calls[0] <= 5000
    bare = dataclasses.replace(
        counted, features=coreplan.problem.polynomial([0, 0], [1, 1], 2, 4), core_pairs=None
    )
    calls[0] = 0
    report = check(bare, queries=5000)
    assert report.queries == calls[0] <= 5000 and report["repeatable"].light == GREEN


# The simulator repeats itself.


@pytest.mark.parametrize("where", ["step", "initial"])
def test_noise_from_elsewhere_is_red(where):
    own = np.random.default_rng(5)
    problem = sliding(0.1, noise=0.1)
    model = problem.model
    other = FunctionModel(
        2,
        (lambda rng, n: own.random((n, 1))) if where == "initial" else model.initial,
        (lambda rng, x, a: model.step(own, x, a)) if where == "step" else model.step,
    )
    row = check(dataclasses.replace(problem, model=other), queries=1000)["repeatable"]
    assert row.light == RED and ("initial states" if where == "initial" else "next states") in row.verdict
    assert check(problem, queries=1000)["repeatable"].light == GREEN


# Regions.


def test_the_worst_region_is_found_under_noise():
    rng = np.random.default_rng(0)
    x = rng.random((2000, 6))
    inside = (x[:, 1] < 0.3) & (x[:, 4] > 0.6)
    amount = inside + 0.5 * rng.standard_normal(2000)
    region = worst_region(square(3), x, amount, np.ones(2000))
    assert "state[1] from" in region.where and "state[4] from" in region.where and region.concentrated
    assert region.visits == pytest.approx(0.12, abs=0.03) and region.share > 0.8
    flat = worst_region(square(3), x, np.ones(2000), np.ones(2000))
    assert flat.where == "everywhere" and not flat.concentrated


def test_states_that_are_numbers_have_regions_too():
    region = worst_region(square(3), np.arange(100), np.arange(100) >= 90, np.ones(100))
    assert region.where.startswith("the state from 9") and region.visits < 0.15


def test_two_remedies():
    """A kink between two nodes asks for more nodes there; a parabola, which bends everywhere, for more everywhere."""
    spread = check(sliding(0.5, nodes=2), queries=20_000)[ROW]
    assert spread.light in (AMBER, RED) and "spread over" in spread.verdict, spread

    def step(rng, states, actions):
        to = np.clip(states + np.where(actions == 1, 0.05, -0.05)[:, None], 0, 1)
        return (np.abs(states[:, 0] - 0.5) < 0.04).astype(float), to

    model = FunctionModel(2, lambda rng, n: rng.random((n, 1)), step)
    local = check(Problem(model, interpolation([0.0], [1.0], [6], 2), 0.9), queries=20_000)[ROW]
    assert (
        local.light in (AMBER, RED)
        and "put more nodes" in local.verdict
        and "the state from 0.4" in local.verdict
    )


def test_features_that_tell_all_pairs_apart_have_no_residual():
    problem = coreplan.make("river-swim")
    assert isinstance(problem.features, type(one_hot(6, 2)))
    row = check(problem, queries=4000)[ROW]
    assert row.value == 0.0 and row.interval[1] > 0.0
