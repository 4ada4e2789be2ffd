"""A functional environment (Gymnasium's FuncEnv), here in JAX: pure functions, so any state can be stepped from."""

import numpy as np
from gymnasium.envs.phys2d.cartpole import CartPoleFunctional

import coreplan
from coreplan.problem import interpolation

# x, x_dot, theta, theta_dot; the cart leaves at |x| = 2.4 and the pole falls at |theta| = 0.209
features = interpolation([-2.4, -3, -0.21, -3], [2.4, 3, 0.21, 3], [5, 5, 9, 9], n_actions=2)
problem = coreplan.from_gymnasium(CartPoleFunctional(), features, discount=0.95)
states, actions = problem.core_pairs
rewards, next_states = problem.model.step(np.random.default_rng(0), states, actions)  # one sample: no noise
index, weight = problem.features(next_states)  # sparse, [m, A, 16]
theta = np.zeros(problem.features.dimension)
for _ in range(200):  # value iteration on the core
    theta = rewards + problem.discount * (weight * theta[index]).sum(axis=2).max(axis=1)
policy = coreplan.SoftmaxPolicy(theta, np.inf, problem.features)
uniform = coreplan.SoftmaxPolicy.uniform(problem.features)
print("uniform", coreplan.evaluate(problem, uniform, rollouts=100))
print("planned", coreplan.evaluate(problem, policy, rollouts=100))  # 1 is never falling
