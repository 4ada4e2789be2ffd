"""Samples of every core pair, drawn once, and the exact fixed point of the model they make."""

from __future__ import annotations

import numpy as np

import coreplan
from coreplan.core import Frame
from coreplan.features import dense
from coreplan.problem import available
from coreplan.sampled import Stored


def sampled(problem, n, seed, core=None, n_initial=100):
    rng, core = np.random.default_rng(seed), core or coreplan.CoreSet.of(problem)
    rewards, y = problem.model.step(rng, np.repeat(core.states, n, axis=0), np.repeat(core.actions, n))
    phi0 = problem.features(problem.model.initial(rng, n_initial))
    means = rewards.reshape(-1, n).mean(axis=1)
    f = problem.features
    return Stored(Frame(core.features(f), f.dimension), means, f(y), phi0, problem.discount)


def fixed_point(stored, d):
    """theta = lstsq(Phi~, r + gamma mean max_a phi . theta), iterated until it stands still."""
    Y, allowed = dense(stored.next_features, d), available(stored.next_features)
    Y = np.where(allowed[..., None], Y, 0.0)
    pinv = np.linalg.pinv(dense(stored.frame.features, d))
    theta = np.zeros(d)
    while True:
        V = np.where(allowed, Y @ theta, -np.inf).max(axis=1).reshape(stored.m, -1).mean(axis=1)
        new = pinv @ (stored.rewards + stored.discount * V)
        if np.abs(new - theta).max() < 1e-11:
            return new
        theta = new


def sub(problem, theta, scale=np.inf):
    return coreplan.evaluate(problem, coreplan.SoftmaxPolicy(theta, scale, problem.features)).sub
