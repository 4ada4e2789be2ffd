"""gymnax's MountainCar, compiled by JAX: planned there, driven in Gymnasium's own."""

import gymnasium

import coreplan
from coreplan.problem import interpolation

features = interpolation((-1.2, -0.07), (0.6, 0.07), (31, 31), n_actions=3)  # position, velocity
problem = coreplan.from_gymnax("MountainCar-v0", features, discount=0.995)
result = coreplan.plan(problem, epsilon="1%")
print(result)

env, steps = gymnasium.make("MountainCar-v0"), []
for seed in range(10):
    observation, done, truncated, t = env.reset(seed=seed)[0], False, False, 0
    while not (done or truncated):
        action = result.policy.act(observation)
        observation, _, done, truncated, _ = env.step(int(action))
        t += 1
    steps.append(t)
print("steps to the goal:", steps)  # 200 is Gymnasium's limit
