"""What tests of the paper's relatives share: their promises measured, their runs recorded, and a problem without noise."""

from __future__ import annotations

import functools

import numpy as np

import coreplan
from coreplan import FunctionModel, Problem, Status
from coreplan.problem import one_hot
from coreplan.run import Run
from helpers.runs import plan


def subs(problem, planner, budget, seeds=range(3)):
    """The sub of the policy for each seed; no run may be doubtful."""
    results = [plan(problem, planner=planner, budget=budget, seed=seed) for seed in seeds]
    assert all(r.status is Status.FINISHED for r in results)
    return [coreplan.evaluate(problem, r.policy).sub for r in results]


def recorded(problem, planner, budget, seed=0):
    """The resolved planner, its last state, and all answers that it was told."""
    run, heard = Run.of(problem, planner, budget=budget, seed=seed), []
    tell = type(planner).tell
    here = run.planner
    object.__setattr__(
        here, "tell", lambda s, answers, rng: heard.append(answers) or tell(here, s, answers, rng)
    )
    while run.left:
        run.advance(budget)
    return here, run.loop.state, heard


@functools.cache
def still(S=7, A=3, discount=0.8):
    """A table with S states, one-hot features and every pair in the core, in which nothing is random."""
    rng = np.random.default_rng(0)
    y, r = rng.integers(0, S, (S, A)), rng.random((S, A))
    model = FunctionModel(A, lambda rng, n: np.zeros(n, dtype=np.int64), lambda rng, x, a: (r[x, a], y[x, a]))
    core = (np.repeat(np.arange(S), A), np.tile(np.arange(A), S))
    problem = Problem(model, one_hot(S, A), discount, core_pairs=core, name="still")
    return problem, y, r


def value_iterates(n, discount=0.8):
    """Q after n steps of value iteration from 0 on `still`, `[S A]`."""
    _, y, r = still(discount=discount)
    Q = np.zeros(r.shape)
    for _ in range(n):
        Q = r + discount * Q.max(axis=1)[y]
    return Q.ravel()
