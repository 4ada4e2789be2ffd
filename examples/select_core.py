"""Features without a core set of their own: gather pairs, choose a core set among them, plan with it."""

import dataclasses

import coreplan
from coreplan.core import rollout_pool, select

problem = coreplan.make("mountain-car:grid=11")
pool = rollout_pool(problem, None, 20_000, actions="all", seed=0)  # None: the uniform policy
print(f"{len(pool)} pairs gathered with {pool.queries} queries")
for method in ("hull", "projection", "farthest"):
    chosen = select(pool, size=81, method=method)
    print(
        f"{method:10} {len(chosen.core)} pairs: largest error {chosen.max:.3f}, as visited {chosen.weighted:.3f}"
    )

chosen = select(pool, tolerance=0.05)
print(f"within 0.05 of every pair gathered: {len(chosen.core)} pairs")
problem = dataclasses.replace(problem, core_pairs=(chosen.core.states, chosen.core.actions))
planner = coreplan.PrimalDual(K=50, eta=1e-3, beta=0.02, alpha=0.006, output="last")
print(coreplan.plan(problem, planner=planner, budget=200_000, seed=0).status.sentence)
