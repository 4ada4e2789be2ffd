"""The paper's Algorithm 1, for study: the default planner needs 132 queries where this one takes two million."""

import coreplan

problem = coreplan.make("random-linear")
# These rates were found by search against the true value; nobody has such rates for a new problem.
planner = coreplan.PrimalDual(K=5, eta=2e-4, beta=0.02, alpha=0.006, output="last")
result = coreplan.plan(problem, planner=planner, budget=2_200_000, evaluate=True, reality=0)
print("Algorithm 1:", result.sentence)
print(f"value {result.evaluation.value:.4f}, sub {result.evaluation.sub:.4f}")

result = coreplan.plan(problem, epsilon="1%", evaluate=True, reality=0)
print("The default:", result.sentence)
print(f"value {result.evaluation.value:.4f}, sub {result.evaluation.sub:.4f}")
