"""When Algorithm 1 doubts its result: a policy that hardly left the uniform one, and a ball that is too small."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan import PrimalDual, SoftmaxPolicy, Status, plan
from coreplan.core import CoreSet
from coreplan.planners import CoreSetup, doubts, near_uniform
from coreplan.planners.primal_dual import planner as module
from coreplan.planning import documented_settings
from helpers.masked import ALLOWED, masked_problem
from helpers.mutants import mutant

TUNED = {"K": 5, "eta": 2e-4, "beta": 0.02, "alpha": 0.006}


def bound(problem, kind=module):
    setup = CoreSetup.with_core(problem, CoreSet.of(problem), 1_000)
    return kind.PrimalDual(**TUNED).resolve(setup)


def at(planner, theta, mean, T=100):
    """A state whose theta and whose mean theta have these norms, in units of D, all along the first coordinate."""
    first = np.eye(planner.setup.dimension)[0] * planner.D
    state = planner.init(np.random.default_rng(0))
    state.counts[:] = T, T
    return state._replace(theta=theta * first, Theta=mean * T * first)


ENDS = [
    (0.3, 0.1, False),
    (0.75, 0.74, False),  # settled, in a ball that fits tightly
    (0.95, 0.2, False),  # it jumps across the ball, which may do no harm: the policy adds all iterates up
    (0.95, 0.9, True),
    (1.0, 0.7, True),
]


@pytest.mark.parametrize(("theta", "mean", "doubtful"), ENDS)
def test_where_theta_ended(theta, mean, doubtful):
    planner = bound(coreplan.make("river-swim"))
    verdict = planner.verdict(at(planner, theta, mean))
    assert (verdict is not None) == doubtful
    if verdict is not None:
        assert (
            verdict.status is Status.DOUBTFUL
            and "Raise D" in verdict.reason
            and "radius 69.3" in verdict.reason
        )
        assert f"{theta:.0%}" in verdict.reason and f"{mean:.0%}" in verdict.reason


def test_the_lead_of_the_favourite_action():
    """By hand: 4 actions, leads 0, (.4 - .25) / .75 = .2 and 1; and with a mask, (.7 - .5) / .5 = .4."""
    uniform = np.full((3, 4), 0.25)
    p = np.array([[0.25] * 4, [0.4, 0.3, 0.2, 0.1], [1.0, 0, 0, 0]])
    assert near_uniform(p, uniform) is None  # .4
    assert "10% of the way" in near_uniform(p[:2], uniform[:2]).reason
    assert "20% of the way" in near_uniform(p[1:2], uniform[1:2]).reason
    masked = np.array([[0.5, 0.5, 0.0]])
    assert near_uniform(np.array([[0.7, 0.3, 0.0]]), masked) is None
    assert "20% of the way" in near_uniform(np.array([[0.6, 0.4, 0.0]]), masked).reason
    assert near_uniform(np.array([[0.0, 1.0, 0.0]]), np.array([[0.0, 1.0, 0.0]])) is None  # nothing to choose
    states = np.arange(len(ALLOWED))
    none = SoftmaxPolicy.uniform(masked_problem().features).probabilities(states)
    assert "0% of the way" in near_uniform(none, none).reason


@pytest.mark.parametrize("name", ["random-linear:instance=7", "frozen-lake", "inventory"])
def test_the_theorems_rates_end_doubtful(name):
    result = plan(coreplan.make(name), planner=PrimalDual(), budget=20_000, seed=3)
    assert result.status is Status.DOUBTFUL and "hardly left the uniform" in result.reason


@pytest.mark.parametrize("D", [0.1, 1.0])
def test_a_ball_that_is_far_too_small_ends_doubtful(D):
    result = plan(coreplan.make("river-linear"), planner=PrimalDual(**TUNED, D=D), budget=300_000, seed=3)
    assert (
        result.status is Status.DOUBTFUL
        and f"D = {D:.3g}" in result.reason
        and "radius 89.4" in result.reason
    )


@pytest.mark.parametrize("name", ["random-linear", "river-linear", "river-swim"])
@pytest.mark.parametrize("seed", range(2))
def test_documented_settings_are_not_doubted(name, seed):
    """At a fifth of the documented budgets or less; a policy only moves further from uniform with more."""
    planner = PrimalDual(**documented_settings("primal-dual", name))
    result = plan(coreplan.make(name), planner=planner, budget=400_000, seed=seed)
    assert result.status is Status.FINISHED and result.reason == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if norm < EDGE or mean < HELD:", "if norm < EDGE:"),
        ("if norm < EDGE or mean < HELD:", "if mean < HELD:"),
        ("/ (max(T, 1) * hyper.D)", "/ hyper.D"),
    ],
)
def test_faults_of_the_planner_are_noticed(old, new, tmp_path, monkeypatch):
    planner = bound(coreplan.make("river-swim"), mutant(module, old, new, tmp_path, monkeypatch))
    found = [planner.verdict(at(planner, theta, mean)) is not None for theta, mean, _ in ENDS]
    assert found != [doubtful for *_, doubtful in ENDS]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[choice] / (1.0 - equal)[choice]", "[choice]"),
        ("if lead < NEAR else None", "if lead > NEAR else None"),
        ("    choice = equal < 1.0\n", "    choice = equal <= 1.0\n"),
    ],
)
def test_faults_of_the_lead_are_noticed(old, new, tmp_path, monkeypatch):
    broken = mutant(doubts, old, new, tmp_path, monkeypatch)
    monkeypatch.setitem(globals(), "near_uniform", broken.near_uniform)
    with pytest.raises((AssertionError, AttributeError, RuntimeWarning)), np.errstate(all="raise"):
        try:
            test_the_lead_of_the_favourite_action()
        except FloatingPointError as error:
            raise AssertionError from error
