"""A planner with fixed rates, a problem in NumPy whose parts can be replaced, and what makes two runs the same."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

import coreplan
from coreplan import FunctionModel, PrimalDual

# Planning alone, without the rollouts of the policy that come after it: for tests of planners and runs.
plan = functools.partial(coreplan.plan, reality=0)

RATES = {"K": 7, "eta": 3e-3, "beta": 0.02, "alpha": 0.3, "D": 12.0}


def planner(**changes):
    return PrimalDual(**{**RATES, **changes})


def numpy_problem(step=None, initial=None, features=None, **changes):
    """random-linear as NumPy functions, with parts replaced."""
    problem = coreplan.make("random-linear:compiled=false")
    model = FunctionModel(4, initial or problem.model.initial, step or problem.model.step)
    return dataclasses.replace(
        problem, model=model, features=features or problem.features, tabular=None, name="mine", **changes
    )


def same(a, b):
    """Two runs agree to the last bit: policy, trace (but for seconds), counters."""
    assert a.policy.theta.tobytes() == b.policy.theta.tobytes()
    assert (a.queries, a.initial_draws) == (b.queries, b.initial_draws)
    keep = [c for c in a.trace.columns if c != "seconds"]
    for column in keep:
        np.testing.assert_array_equal(a.trace[column], b.trace[column])
