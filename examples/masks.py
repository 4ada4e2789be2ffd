"""Action masks: a 3 x 3 board on which no move may leave the board; the goal is the last cell."""

import numpy as np

from coreplan import FunctionModel, Problem, plan
from coreplan.problem import one_hot


def after(states):  # [n, 4, 2]: row and column after moving up, down, left, right
    return np.stack(np.divmod(states, 3), axis=1)[:, None, :] + [[-1, 0], [1, 0], [0, -1], [0, 1]]


def mask(states):  # [n, 4], True where the action is available
    return ((after(states) >= 0) & (after(states) < 3)).all(axis=2)


def step(rng, states, actions):
    cell = after(states)[np.arange(len(states)), actions]
    return (states == 8).astype(float), np.where(states == 8, 8, 3 * cell[:, 0] + cell[:, 1])


model = FunctionModel(4, lambda rng, n: rng.integers(8, size=n), step)
problem = Problem(model, one_hot(9, 4), discount=0.9, mask=mask)
result = plan(problem, epsilon="1%")
print(result)
p = result.policy.probabilities(np.arange(9))
print(f"core pairs: {len(result.core)} of 36; probability of forbidden moves {p[~mask(np.arange(9))].max()}")
