"""Policies: near the optimum, uniform, in a file; and problems whose optimum is known."""

from __future__ import annotations

import numpy as np

import coreplan
from coreplan import SoftmaxPolicy
from coreplan.judge import optimal_values
from coreplan.theory import Enumerated

EXACT = ["random-linear", "river-linear:L=4", "hard-linear", "river-swim"]


def near_optimal(problem):
    e = Enumerated.of(problem)
    Q = optimal_values(e.table, e.discount)[1].ravel()
    Phi = e.Phi.toarray() if hasattr(e.Phi, "toarray") else e.Phi
    return SoftmaxPolicy(np.linalg.lstsq(Phi, Q, rcond=None)[0], np.inf, problem.features)


def uniform(problem):
    return SoftmaxPolicy.uniform(problem.features)


def saved(tmp_path, spec="river-swim"):
    problem = coreplan.make(spec)
    theta = np.random.default_rng(0).normal(size=problem.features.dimension)
    policy = SoftmaxPolicy(theta, 2.5, problem.features, spec)
    policy.save(tmp_path / "policy.npz")
    return problem, policy
