"""What holds of every planner that is given a core set: refusals, masks, ends of episodes, faults, resumes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import (
    CoreMirror,
    FunctionFeatures,
    FunctionModel,
    InputError,
    OptimisticPrimalDual,
    PlugIn,
    PrimalDual,
    Problem,
    SampledLP,
    plan,
)
from coreplan.planners import sampled_lp
from coreplan.run.loop import PythonLoop

FOUR = [PlugIn(), CoreMirror(), OptimisticPrimalDual(), SampledLP()]


def name(planner):
    return planner.name


@pytest.mark.parametrize("planner", [*FOUR, PrimalDual(K=5, D=3.0)], ids=name)
@pytest.mark.parametrize("sparse", [False, True])
def test_core_features_that_are_all_zero_are_refused(planner, sparse):
    phi = (np.zeros((200, 4, 2), dtype=int), np.zeros((200, 4, 2))) if sparse else np.zeros((200, 4, 8))
    features = FunctionFeatures(
        lambda x: (phi[0][x], phi[1][x]) if sparse else phi[x], 4, 8, 1.0, nonzeros=2 if sparse else None
    )
    problem = dataclasses.replace(coreplan.make("random-linear"), features=features, tabular=None)
    with pytest.raises(InputError, match="All core features are zero: nothing can be learned"):
        plan(problem, planner=planner, budget=400)


class River:
    """`river-swim` in plain NumPy with dense features: counts its queries, and can fail at a call, once."""

    def __init__(self, fail_at=0):
        self.base, self.fail_at, self.steps, self.batches = coreplan.make("river-swim"), fail_at, [], []
        model = FunctionModel(2, self.base.model.initial, self.step)
        features = FunctionFeatures(self.features, 2, 12, 1.0)
        self.problem = Problem(model, features, 0.95, core_pairs=self.base.core_pairs)

    def step(self, rng, states, actions):
        answer = self.base.model.step(rng, states, actions)  # consumes noise, as a real failure would
        if len(self.steps) + 1 == self.fail_at:
            self.fail_at = 0
            raise RuntimeError("the licence server is down")
        self.steps.append(len(actions))
        return answer

    def features(self, states):
        self.batches.append(len(states))
        return np.eye(12).reshape(6, 2, 12)[states]


@pytest.mark.parametrize(
    ("planner", "rows"),
    list(zip(FOUR, (8 + 2, 12 + 1, 12 + 8, 2), strict=True)),
    ids=lambda p: getattr(p, "name", ""),
)
def test_warming_up_is_cheap_and_changes_nothing(planner, rows, tmp_path, monkeypatch):
    """It makes no query, looks at few states (also of a run that has stored many), and no map sees an empty batch."""
    seen, warm_up = [], PythonLoop.warm_up

    def watched(loop):
        before = len(river.batches)
        warm_up(loop)
        seen.append(river.batches[before:])
        assert river.steps == []

    monkeypatch.setattr(PythonLoop, "warm_up", watched)
    for budget in (240, 2_400):
        river = River()
        warm = plan(river.problem, planner=planner, budget=budget, seed=1, out=tmp_path, resume=True)
        assert min(river.batches) > 0
    finished = planner.name == "sampled-lp"  # it has nothing left to ask, so nothing is compiled
    assert [sum(s) for s in seen] == [rows] * (1 if finished else 2)
    monkeypatch.setattr(PythonLoop, "warm_up", lambda loop: None)
    cold = plan(River().problem, planner=planner, budget=240 if finished else 2_400, seed=1)
    assert cold.policy.theta.tobytes() == warm.policy.theta.tobytes()
    assert cold.policy.theta.any()


def test_no_lp_is_solved_for_nothing(monkeypatch):
    solved, solve = [], sampled_lp.solve_sampled
    monkeypatch.setattr(sampled_lp, "solve_sampled", lambda *a: solved.append(a) or solve(*a))
    plan(River().problem, planner=SampledLP(), budget=240)
    assert len(solved) == 1
