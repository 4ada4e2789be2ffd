"""A model from plain functions of one state: the quickest way in. A boat drifts left; rowing right costs a little."""

import numpy as np

from coreplan import Problem, ScalarModel, plan
from coreplan.problem import interpolation


def initial(rng):
    return [rng.random()]  # a state is one number in [0, 1]


def step(rng, state, action):  # action 1 rows
    place = state[0] + (0.15 if action == 1 else -0.1) + 0.05 * rng.standard_normal()
    place = min(max(place, 0.0), 1.0)
    return place - 0.1 * action, [place]


problem = Problem(
    model=ScalarModel(n_actions=2, initial=initial, step=step),
    features=interpolation([0.0], [1.0], shape=[5], n_actions=2),  # brings its core set: nodes x actions
    discount=0.9,
    reward_range=(-0.1, 1.0),
)
result = plan(problem, epsilon="1%")
print(result)
print("rows at", {x: int(result.policy.act(np.array([[x]]), rng=0)[0]) for x in (0.1, 0.5, 0.9)})
