"""Gymnasium's toy text carries its transition table: it is judged exactly. A planner sees no table."""

import coreplan

problem = coreplan.from_gymnasium("FrozenLake-v1", discount=0.95)  # one-hot features, state 16 is the end
result = coreplan.plan(problem, epsilon="1%", evaluate=True)
print(result)
