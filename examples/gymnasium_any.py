"""Any Gymnasium environment: say how to read and write ALL of its state, and which rewards it pays."""

import gymnasium
import numpy as np

import coreplan


class Drifting(gymnasium.Env):
    """Stay near 0 on a line; beyond 1 the episode ends. Noise comes from self.np_random only."""

    observation_space, action_space = gymnasium.spaces.Box(-9, 9), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-0.5, 0.5)
        return np.array([self.x], dtype=np.float32), {}

    def step(self, action):
        self.x += 0.1 * (2 * action - 1) + 0.1 * self.np_random.standard_normal()
        return np.array([self.x], np.float32), 1 - min(abs(self.x), 1), abs(self.x) > 1, False, {}


state = {"get_state": lambda env: [env.x], "set_state": lambda env, x: setattr(env, "x", float(x[0]))}
features = coreplan.problem.interpolation(low=[-1], high=[1], shape=[9], n_actions=2)
problem = coreplan.from_gymnasium(Drifting(), features, 0.9, reward_range=(0, 1), **state)
result = coreplan.plan(problem, epsilon="1%")
print(result)
