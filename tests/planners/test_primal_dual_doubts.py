"""When Algorithm 1 doubts its result: a policy that hardly left uniform, rates that cannot settle, too small a ball."""

from __future__ import annotations

import math

import numpy as np
import pytest

import coreplan
from coreplan import PrimalDual, Status, plan
from coreplan.core import CoreSet
from coreplan.planners import CoreSetup
from coreplan.planners.primal_dual import planner as module
from coreplan.planning import documented_settings
from helpers.mutants import mutant

TUNED = {"K": 5, "eta": 2e-4, "beta": 0.02, "alpha": 0.006}


def bound(problem, **settings):
    setup = CoreSetup.with_core(problem, CoreSet.of(problem), 1_000)
    return PrimalDual(**{**TUNED, **settings}).resolve(setup)


def at(planner, *, theta, mean, T=100, J=100):
    """A state whose theta and whose mean theta have these norms, in units of D, all along the first coordinate."""
    first = np.eye(planner.setup.dimension)[0] * planner.D
    state = planner.init(np.random.default_rng(0))
    state.counts[:] = T, J
    return state._replace(theta=theta * first, Theta=mean * T * first, Theta_J=mean * J * first)


@pytest.mark.parametrize(
    ("theta", "mean", "words"),
    [
        (0.3, 0.1, None),
        (0.7, 0.6, None),  # settled, in a ball that fits tightly
        (0.6, 0.1, "theta jumps"),
        (0.95, 0.2, "theta jumps"),
        (0.95, 0.9, "ball too small"),
        (1.0, 0.7, "ball too small"),
    ],
)
def test_where_theta_ended(theta, mean, words):
    planner = bound(coreplan.make("river-swim"))
    verdict = planner.verdict(at(planner, theta=theta, mean=mean))
    assert (verdict is None) == (words is None)
    if verdict is not None:
        assert (
            verdict.status is Status.DOUBTFUL
            and f"{theta:.0%}" in verdict.reason
            and f"{mean:.0%}" in verdict.reason
        )
        assert ("throw it across" if words == "theta jumps" else "Raise D") in verdict.reason


def test_near_uniform_is_a_bound_on_every_ratio_of_probabilities():
    """For an exact core set, no state has a larger ratio of probabilities than the core's scores allow."""
    problem, rng = coreplan.make("river-linear"), np.random.default_rng(0)
    planner = bound(problem, output="last")
    for size in (1e-4, 1e-2, 1.0):
        Theta = size * rng.normal(size=planner.setup.dimension)
        state = planner.init(rng)._replace(Theta=Theta)
        state.counts[:] = 10, 5
        p = coreplan.SoftmaxPolicy(Theta, planner.beta, problem.features).probabilities(np.arange(1000))
        ratio = (p.max(axis=1) / p.min(axis=1)).max()
        scores = planner.setup.frame.matrix @ Theta if planner.setup.frame.units is None else Theta
        limit = math.exp(planner.beta * np.ptp(scores))
        assert ratio <= limit * (1 + 1e-12)
        verdict = planner._near_uniform(state)
        assert (verdict is not None) == (limit < math.exp(module.NEAR))
        if verdict is not None:
            assert f"{limit:.3g} times" in verdict.reason


def test_an_early_draw_of_J_is_named_as_such():
    planner = bound(coreplan.make("river-swim"))
    state = at(planner, theta=0.2, mean=0.2, T=50_000, J=50_000)
    assert planner.verdict(state) is None
    early = planner.verdict(state._replace(Theta_J=1e-6 * state.Theta_J))
    assert "J = 50000" in early.reason and "output='last'" in early.reason
    nowhere = planner.verdict(state._replace(Theta_J=1e-6 * state.Theta_J, Theta=1e-6 * state.Theta))
    assert "Raise the budget" in nowhere.reason


def test_problems_without_a_choice_are_not_doubted():
    one = coreplan.make("random-linear:actions=1")
    planner = bound(one)
    assert planner.verdict(planner.init(np.random.default_rng(0))) is None


@pytest.mark.parametrize("name", ["random-linear:instance=7", "frozen-lake", "inventory"])
def test_the_theorems_rates_end_doubtful(name):
    result = plan(coreplan.make(name), planner=PrimalDual(), budget=20_000, seed=3)
    assert result.status is Status.DOUBTFUL
    assert "hardly left the uniform" in result.reason or "throw it across" in result.reason


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
    """At a fifth of the documented budgets or less: nothing gets worse with more. An unlucky J would be doubted, rightly."""
    planner = PrimalDual(**documented_settings("primal-dual", name))
    result = plan(coreplan.make(name), planner=planner, budget=400_000, seed=seed)
    assert result.status is Status.FINISHED and result.reason == ""


FAULTS = [
    ("if norm >= FAR and mean < norm * TOGETHER:", "if norm >= FAR:"),
    ("if max(norm, mean) >= EDGE:", "if mean >= 2:"),
    ("/ (T * hyper.D)", "/ hyper.D"),
    ("spread = self._hyper.beta * float(np.ptp(scores))", "spread = float(np.ptp(scores))"),
]


@pytest.mark.parametrize(("old", "new"), FAULTS)
def test_faults_are_noticed(old, new, tmp_path, monkeypatch):
    broken = mutant(module, old, new, tmp_path, monkeypatch)
    problem = coreplan.make("river-swim")
    setup = CoreSetup.with_core(problem, CoreSet.of(problem), 1_000)
    found = []
    for kind in (module, broken):
        planner = kind.PrimalDual(**TUNED).resolve(setup)
        states = [at(planner, theta=t, mean=m) for t, m in ((0.7, 0.6), (0.95, 0.9), (0.6, 0.1), (0.3, 1e-4))]
        found.append([getattr(planner.verdict(state), "reason", "")[:30] for state in states])
    assert found[0] != found[1]
