"""`Grow` stores features in single precision, and in double where a mask or a huge number does not fit."""

from __future__ import annotations

import numpy as np

import coreplan
from coreplan import FunctionModel, Grow, Problem
from coreplan.features import UNAVAILABLE, Sparse, available
from coreplan.planners.grow.state import WEIGHTS
from coreplan.sampled.lstd import best_values
from coreplan.sampled.pairs import rounded


def test_a_late_mask_turns_all_to_double():
    """The mask is first met after some asks; the state is double from then on, and forbidden actions are never queried."""
    base = coreplan.make("river-linear")
    asked = []

    def mask(states):
        return np.stack([np.ones(len(states)), states % 50 != 3, np.ones(len(states))], axis=1).astype(bool)

    def step(rng, states, actions):
        asked.append((np.array(states), np.array(actions)))
        return base.model.step(rng, states, actions)

    problem = Problem(FunctionModel(3, base.model.initial, step), base.features, 0.95, mask=mask)
    states = [s.state for s in coreplan.steps(problem, Grow(), budget=1500, seed=0)]
    kinds = [{getattr(state, name).dtype for name in WEIGHTS} for state in states]
    assert kinds[1] == {np.dtype(np.float32)} and kinds[-1] == {np.dtype(np.float64)}
    assert all(len(kind) == 1 for kind in kinds)
    x, a = (np.concatenate([pair[i] for pair in asked]) for i in (0, 1))
    assert (x % 50 == 3).any() and not ((x % 50 == 3) & (a == 1)).any()


def test_rounding_keeps_what_does_not_fit():
    index = np.zeros((2, 1, 1), dtype=np.int32)
    for huge in (UNAVAILABLE, 1e16):
        phi = Sparse(index, np.array([[[0.1]], [[huge]]]))
        assert rounded(phi).weight.dtype == np.float64 and (rounded(phi).weight == phi.weight).all()
    phi = rounded(Sparse(index, np.array([[[0.1]], [[1e15]]])))
    assert phi.weight.dtype == np.float32 and available(phi).all()


def test_best_values_with_and_without_shared_coordinates():
    """Both kernels against NumPy, in both precisions, with a forbidden action; the maximum up to rounding."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=9)
    index = np.stack([rng.permutation(9)[:4] for _ in range(3)]).astype(np.int32)[None]
    for kind in (np.float32, np.float64):
        weight = rng.normal(size=(50, 3, 4)).astype(kind)
        if kind is np.float64:
            weight[::5, 1, 0] = UNAVAILABLE
        shared = Sparse(np.broadcast_to(index, weight.shape), weight)
        q = np.where(available(shared), (weight.astype(float) * theta[index]).sum(axis=2), -np.inf)
        for phi in (shared, Sparse(np.array(shared.index), weight)):
            choice, value = np.empty(50, dtype=np.int64), np.empty(50)
            best_values(phi, theta, choice, value)
            assert (choice == q.argmax(axis=1)).all()
            np.testing.assert_allclose(value, q.max(axis=1), rtol=1e-12)
