"""Planning without a core set: a simulator, any features, and a budget. The default planner is then `Grow`."""

import numpy as np

from coreplan import FunctionModel, Problem, plan
from coreplan.problem import polynomial


def initial(rng, n):  # a tank, between empty and full
    return rng.random((n, 1))


def step(rng, states, actions):  # action 1 pumps, at a cost; the level drains at random; best is half full
    level = np.clip(states + 0.15 * actions[:, None] - 0.2 * rng.random(states.shape), 0, 1)
    return 1 - np.abs(level[:, 0] - 0.5) - 0.2 * actions, level


problem = Problem(
    model=FunctionModel(2, initial, step),
    features=polynomial([0.0], [1.0], 3, 2),
    discount=0.95,
    reward_range=(0.3, 1.0),
)
result = plan(problem, budget=20_000)  # Grow cannot tell its accuracy, so it takes a budget
print(result)
print(f"{len(result.core)} distinct pairs were queried")
