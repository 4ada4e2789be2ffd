"""Gymnasium's toy text carries its transition table: the problem is compiled, and judged exactly.

The policy comes from value iteration on 500 samples of every core pair; a planner sees no table.
"""

import numpy as np

import coreplan

problem = coreplan.from_gymnasium("FrozenLake-v1", discount=0.95)  # one-hot features, state 16 is the end
states, actions = problem.core_pairs
n, rng = 500, np.random.default_rng(0)
rewards, next_states = problem.model.step(rng, np.repeat(states, n), np.repeat(actions, n))
index = problem.features(next_states).index[:, :, 0]  # [m n, A]: one-hot
theta = np.zeros(problem.features.dimension)
for _ in range(200):
    theta = (rewards + problem.discount * theta[index].max(axis=1)).reshape(-1, n).mean(axis=1)
judged = coreplan.evaluate(problem, coreplan.SoftmaxPolicy(theta, np.inf, problem.features))
print(f"value {judged.value:.4f}, optimum {judged.optimum:.4f}, uniform policy {judged.uniform:.4f}")
