"""Values of a policy fitted on its own rollouts, for the lower bound where there is no core set.

The lower bound is valid for any V >= 0 that does not depend on its rollouts (`lower.py`). So these rollouts are used for
the fit and for nothing else, and a poor fit only widens the bound.
"""

from __future__ import annotations

import math

import numpy as np

from ...base import FloatArray, States
from ...features import checked
from ...policy import SoftmaxPolicy
from ...problem import Problem
from ...simulate import Simulator
from .first_half import PolicyValues, mean_features
from .lower import Step, continuing, lengths, rollouts

_LARGEST = 300  # the most features for which values are fitted by least squares; beyond, V is a constant
_PER_FEATURE = 10  # the fewest transitions per feature for that
_RIDGE = 1e-3  # relative to the mean square of a feature


def fit_on_rollouts(
    simulator: Simulator, policy: SoftmaxPolicy, budget: int, rng: np.random.Generator
) -> PolicyValues:
    """V = level + phi . theta by LSTD on transitions of the policy; a constant if these are few or features many."""
    problem, d = simulator.problem, simulator.problem.features.dimension
    H, steps = 1.0 / (1.0 - problem.discount), list[Step]()
    zero = PolicyValues(policy, np.zeros(d), H)
    rollouts(
        simulator, policy, zero, lengths(budget, continuing(problem.discount), rng), -math.inf, rng, steps
    )
    rewards = np.concatenate([s.rewards for s in steps])
    level = (
        float(np.average(rewards, weights=np.repeat([s.weight for s in steps], [len(s.d) for s in steps])))
        * H
    )
    if d > min(_LARGEST, len(rewards) // _PER_FEATURE):
        return PolicyValues(policy, np.zeros(d), max(level, 1e-9), level)
    F = _means(problem, policy, np.concatenate([s.states for s in steps]))  # [n, d]
    G = _means(problem, policy, np.concatenate([s.next_states for s in steps]))
    # V = level + F theta solves d_t = 0 in the span of the features.
    gram = F.T @ F
    ridge = _RIDGE * float(np.trace(gram)) / d
    right = F.T @ (rewards - (1.0 - problem.discount) * level)
    theta = np.linalg.lstsq(gram - problem.discount * F.T @ G + ridge * np.eye(d), right, rcond=None)[0]
    high = float(np.clip((level + F @ theta).max(), 1e-9, H))
    return PolicyValues(policy, np.asarray(theta, dtype=np.float64), high, level)


def _means(problem: Problem, policy: SoftmaxPolicy, states: States) -> FloatArray:
    """sum_a pi(a|x) phi(x, a), `[n, d]`."""
    n = len(states)
    phi = checked(problem.features, states)
    return mean_features(phi, policy.theta, policy.scale, np.arange(n), n, problem.features.dimension)
