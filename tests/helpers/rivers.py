"""`river-swim` in plain NumPy with dense features, watched by the tests."""

from __future__ import annotations

import numpy as np

import coreplan
from coreplan import FunctionFeatures, FunctionModel, Problem


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


def own(step=None, calls=None):
    """A river in plain NumPy, dense features, without control of its noise."""
    base = coreplan.make("river-swim")
    eye = np.eye(12).reshape(6, 2, 12)

    def counted(rng, states, actions):
        if calls is not None:
            calls.append(len(actions))
        return (step or base.model.step)(rng, states, actions)

    model = FunctionModel(2, base.model.initial, counted)
    features = FunctionFeatures(lambda x: eye[x], 2, 12, 1.0)
    return Problem(model, features, 0.95, core_pairs=base.core_pairs)
