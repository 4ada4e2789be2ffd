"""A model that is a function of its noise: planned with quasi-random (Sobol) noise, compared on the SAME noise."""

import numpy as np

from coreplan import NoiseModel, Problem, compare_policies, plan
from coreplan.problem import interpolation


def initial(noise):  # [n, 1] uniforms -> [n, 1] states
    return noise.copy()


def step(states, actions, noise):  # noise [n, 1] in [0, 1); all randomness comes from it
    next_states = np.clip(states + 0.1 * (actions - 1)[:, None] + 0.2 * (noise - 0.5), 0, 1)
    return next_states[:, 0] - 0.4 * (actions == 2), next_states


problem = Problem(
    model=NoiseModel(n_actions=3, initial=initial, step=step, noise_dimension=1, initial_noise_dimension=1),
    features=interpolation([0.0], [1.0], shape=[21], n_actions=3),
    discount=0.9,
    reward_range=(-0.4, 1.0),
)
result = plan(problem, epsilon="1%")  # Sobol noise by default, where the simulator is a function of its noise
print(result)
# The policy against always action 1, both with the same starts and the same noise.
print(compare_policies(problem, result, 1))
