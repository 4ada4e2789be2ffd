"""Features without a core set of their own: gather pairs, choose a core set among them, plan with it."""

import coreplan
from coreplan.core import rollout_pool, select

problem = coreplan.make("inventory:features=quadratic")
pool = rollout_pool(problem, None, 5_000, actions="all", seed=0)  # None: the uniform policy
print(f"{len(pool)} pairs gathered with {pool.queries} queries")
for method in ("hull", "projection", "farthest"):
    chosen = select(pool, size=54, method=method)
    print(
        f"{method:10} {len(chosen.core)} pairs: largest error {chosen.max:.3f}, as visited {chosen.weighted:.3f}"
    )

chosen = select(pool, tolerance=0.02)
print(f"within 0.02 of every pair gathered: {len(chosen.core)} pairs")
result = coreplan.plan(problem, chosen.core, epsilon="1%", evaluate=True)
print(result)  # doubtful: better policies lead to states that the uniform one did not reach
