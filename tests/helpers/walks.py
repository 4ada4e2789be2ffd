"""A walk written in three ways, and models that are functions of their noise."""

from __future__ import annotations

import numpy as np

import coreplan
from coreplan.problem import NoiseModel, ScalarModel, from_matrices, one_hot


def problem_of(model, n_states=5):
    return coreplan.Problem(model, one_hot(n_states, model.n_actions), 0.9)


# A walk on 0..4: action 1 goes right with probability 0.8, action 0 left; the reward is the new place over 4.


def one_step(rng, state, action):
    right = (rng.random() < 0.8) == (action == 1)
    state = int(min(max(state + (1 if right else -1), 0), 4))
    return state / 4, state


def all_steps(states, actions, noise):
    right = (noise[:, 0] < 0.8) == (actions == 1)
    states = np.clip(states + np.where(right, 1, -1), 0, 4)
    return states / 4, states


def scalar_walk():
    return ScalarModel(2, lambda rng: int(5 * rng.random()), one_step)


def noise_walk():
    return NoiseModel(2, lambda noise: (5 * noise[:, 0]).astype(np.int64), all_steps, 1, 1)


NOISY = {
    "function": lambda: problem_of(noise_walk()),
    "inventory": lambda: coreplan.make("inventory"),
    "river-swim": lambda: coreplan.make("river-swim"),
    "matrices": lambda: from_matrices(
        np.random.default_rng(0).dirichlet(np.ones(6), (3, 6)), np.arange(6.0), 0.9
    ),
}
