"""A functional environment (Gymnasium's FuncEnv), here in JAX: pure functions, so any state can be stepped from."""

import warnings

from gymnasium.envs.phys2d.cartpole import CartPoleFunctional

import coreplan
from coreplan.problem import interpolation

# x, x_dot, theta, theta_dot; the cart leaves at |x| = 2.4 and the pole falls at |theta| = 0.209
features = interpolation([-2.4, -3, -0.21, -3], [2.4, 3, 0.21, 3], [5, 5, 9, 9], n_actions=2)
problem = coreplan.from_gymnasium(CartPoleFunctional(), features, discount=0.95)
# From nodes at full speed the cart gets faster than 3 and leaves the box; no good policy is ever there.
warnings.simplefilter("ignore", coreplan.CoverageWarning)
result = coreplan.plan(problem, epsilon="1%")
print(result)
