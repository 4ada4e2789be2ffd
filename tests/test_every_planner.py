"""What holds of every planner that is given a core set: refusals, masks, ends of episodes, faults, resumes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import (
    CoreMirror,
    FunctionFeatures,
    InputError,
    OptimisticPrimalDual,
    PlugIn,
    PrimalDual,
    SampledLP,
    plan,
)

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
