"""Gymnasium's MountainCar: its state is set for every query, its time limit taken off, its end a feature of its own."""

import gymnasium

import coreplan
from coreplan.problem import interpolation

features = interpolation(
    low=(-1.2, -0.07), high=(0.6, 0.07), shape=(31, 31), n_actions=3
)  # position, velocity
problem = coreplan.from_gymnasium("MountainCar-v0", features, discount=0.99)
result = coreplan.plan(problem, epsilon="1%")
print(result)

env, steps = gymnasium.make("MountainCar-v0"), []  # with its limit of 200 steps
for seed in range(10):
    observation, done, truncated, t = env.reset(seed=seed)[0], False, False, 0
    while not (done or truncated):
        action = result.policy.act(observation)
        observation, _, done, truncated, _ = env.step(int(action))
        t += 1
    steps.append(t)
print("steps to the goal:", steps)
