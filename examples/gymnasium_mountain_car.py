"""Gymnasium's MountainCar: its state is set for every query, its time limit taken off, its end a feature of its own."""

import numpy as np

import coreplan
from coreplan.problem import alive, interpolation

features = interpolation(low=(-1.2, -0.07), high=(0.6, 0.07), shape=(9, 9), n_actions=3)  # position, velocity
problem = coreplan.from_gymnasium("MountainCar-v0", features, discount=0.99)
print(problem.name, "rewards in", problem.reward_range, "with", len(problem.core_pairs[1]), "core pairs")

# A short run, to show the way: Algorithm 1 does not solve MountainCar with so few queries.
planner = coreplan.PrimalDual(K=50, eta=1e-3, beta=0.05, alpha=0.05, output="last")
result = coreplan.plan(problem, planner=planner, budget=20_000, seed=0)
print(result.status.sentence)

rng = np.random.default_rng(0)
states = problem.model.initial(rng, 1)  # position, velocity, terminal
rewards, states = problem.model.step(rng, states, result.policy.act(states, rng))
print("reward", rewards[0], "next state", states[0])

observation = np.array([-0.5, 0.0])  # as Gymnasium hands it out; `alive` appends the terminal column
print("action at", observation, "is", result.policy.act(alive(observation[None]), rng)[0])
