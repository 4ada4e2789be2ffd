"""A problem from explicit matrices, here pymdptoolbox's forest: wait for an old forest, or cut it now; fires happen."""

import numpy as np

from coreplan import plan
from coreplan.problem import from_matrices

fire = 0.1
wait = np.array([[fire, 1 - fire, 0], [fire, 0, 1 - fire], [fire, 0, 1 - fire]])  # young, middle, old
cut = np.array([[1.0, 0, 0]] * 3)
R = np.array([[0.0, 0.0], [0.0, 1.0], [4.0, 2.0]])  # [S, A]

problem = from_matrices([wait, cut], R, discount=0.9, nu0=[1, 0, 0])
result = plan(problem, epsilon="1%", evaluate=True)  # exact: the matrices are known
print(result)
names = np.array(["young", "middle", "old"])
print("cuts when", names[result.policy.act(np.arange(3), rng=0) == 1])
