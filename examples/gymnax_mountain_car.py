"""gymnax's MountainCar, compiled by JAX: plan on the core by value iteration, drive in Gymnasium's own."""

import gymnasium
import numpy as np

import coreplan
from coreplan.problem import alive, interpolation

features = interpolation((-1.2, -0.07), (0.6, 0.07), (31, 31), n_actions=3)  # position, velocity
problem = coreplan.from_gymnax("MountainCar-v0", features, discount=0.995)
states, actions = problem.core_pairs
rewards, next_states = problem.model.step(np.random.default_rng(0), states, actions)  # one sample: no noise
index, weight = problem.features(next_states)  # sparse, [m, A, 4]
theta = np.zeros(problem.features.dimension)
for _ in range(1000):
    theta = rewards + problem.discount * (weight * theta[index]).sum(axis=2).max(axis=1)
policy = coreplan.SoftmaxPolicy(theta, np.inf, problem.features)

env, steps = gymnasium.make("MountainCar-v0"), []
for seed in range(10):
    observation, done, truncated, t = env.reset(seed=seed)[0], False, False, 0
    while not (done or truncated):
        action = policy.act(alive(observation[None]), rng=0)[0]
        observation, _, done, truncated, _ = env.step(int(action))
        t += 1
    steps.append(t)
print("steps to the goal:", steps)  # 200 is Gymnasium's limit
