"""Features from scikit-learn: splines of degree 1, whose knots are an exact core set."""

import numpy as np
from sklearn.preprocessing import SplineTransformer

from coreplan import FunctionModel, Problem, plan
from coreplan.problem import sklearn_features


def initial(rng, n):
    return rng.uniform(-1, 1, size=(n, 1))


def step(rng, states, actions):  # action 1 drives right, where the reward is
    next_states = np.clip(states + np.where(actions == 1, 0.2, -0.2)[:, None], -1, 1)
    return (1 + next_states[:, 0]) / 2, next_states


sample = np.linspace(-1, 1, 50)[:, None]
splines = SplineTransformer(n_knots=5, degree=1).fit(sample)  # fitted before it is handed over
features = sklearn_features(splines, n_actions=2, states=sample, intercept=False)
core_pairs = (np.repeat(np.linspace(-1, 1, 5)[:, None], 2, axis=0), np.tile([0, 1], 5))
problem = Problem(FunctionModel(2, initial, step), features, discount=0.9, core_pairs=core_pairs)
result = plan(problem, epsilon="1%")
print(result)
