"""A problem whose solves are dense and large enough for a BLAS to use threads; as a program, the bits of what it gives.

python -m helpers.dense     # a JSON object: what was computed, and a digest of its bits
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np

import coreplan
from coreplan import FunctionFeatures, FunctionModel, Problem

D = 200  # from about here on factorisations are shared among threads
SMALLER = 120  # enough for `Grow` and `check`, which solve larger systems


def dense_problem(d: int, n_states: int = 600, n_actions: int = 3) -> Problem:
    """A linear MDP: a pair is a mixture of d anchors, and its features are that mixture in another basis. No BLAS here."""
    rng = np.random.default_rng(0)
    mixture = rng.dirichlet(np.full(d, 0.05), size=(n_states, n_actions))  # [X, A, d]
    mixture[np.arange(d), 0] = np.eye(d)
    basis = rng.normal(size=(d, d)) / np.sqrt(d)
    phi = np.einsum("xak,kd->xad", mixture, basis, optimize=False)  # [X, A, d]
    cumulative, reward = mixture.cumsum(axis=2), rng.random(d)
    successors = rng.integers(0, n_states, size=(d, 20))

    def initial(rng, n):
        return rng.integers(0, n_states, n)

    def step(rng, states, actions):
        u = rng.random((len(states), 2))
        anchor = np.minimum((cumulative[states, actions] < u[:, :1]).sum(axis=1), d - 1)  # [n]
        return reward[anchor], successors[anchor, (20 * u[:, 1]).astype(int)]

    radius = 1.001 * float(np.sqrt((phi**2).sum(axis=2).max()))
    features = FunctionFeatures(lambda states: phi[states], n_actions, d, radius)
    pairs = (np.arange(d), np.zeros(d, dtype=int))
    return Problem(FunctionModel(n_actions, initial, step), features, 0.8, core_pairs=pairs, name="dense")


def bits() -> dict[str, str]:
    """A digest of every planner's theta, and of what the judges say."""
    problem, smaller = dense_problem(D), dense_problem(SMALLER)
    algorithm_1 = coreplan.PrimalDual(K=20, eta=1e-3, beta=0.1, alpha=0.05, output="last")
    planners = {
        "plug-in": "plug-in", "sampled-lp": "sampled-lp", "core-mirror": "core-mirror", "optimistic": "optimistic",
        "primal-dual": algorithm_1,
    }  # fmt: skip
    found = {}
    for name, planner in planners.items():
        result = coreplan.plan(problem, planner=planner, budget=8 * D, reality=0)
        found[name] = result.policy.theta
    coreless = replace(smaller, core_pairs=None)
    found["grow"] = coreplan.plan(coreless, planner="grow", budget=1000, reality=0).policy.theta
    *_, last = coreplan.steps(problem, coreplan.PlugIn(), budget=4 * D)
    found["steps"] = last.state.theta
    faced = coreplan.plan(problem, budget=8 * D, reality=0.4)
    found["reality"] = np.array([faced.earned.value, faced.believed])
    policy = faced.policy
    found["evaluate"] = np.array([coreplan.evaluate(problem, policy, rollouts=20).value])
    certificate = coreplan.certify(problem, None, policy, queries=60 * D)
    found["certify"] = np.array([certificate.lower, certificate.upper])
    found["check"] = np.frombuffer(repr(coreplan.check(smaller, queries=3000)).encode(), dtype=np.uint8)
    return {name: hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest() for name, a in found.items()}


if __name__ == "__main__":
    print(json.dumps(bits()))
