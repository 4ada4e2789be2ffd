"""The value of a plan's policy, and its certificate; shared by Python and the command line."""

from __future__ import annotations

from typing import Any

from ..base import as_count
from ..core import CoreSet
from ..judge import Certificate, Evaluation, certify, evaluate, least_queries
from ..policy import SoftmaxPolicy
from ..problem import Problem

QUERIES = 50_000  # of a certificate by default, or more if its core set needs more


def evaluated(problem: Problem, policy: Any, rollouts: int | None = None, seed: int = 0) -> Evaluation | None:
    """The value of a policy or a rule: exact if the problem can be enumerated, else by rollouts; None for `rollouts=0`.

    The default is 1,000 rollouts of a compiled simulator, and 100 of any other, which may be slow.
    """
    rollouts = as_count("plan", least=2 if rollouts else 0, optional=True, rollouts=rollouts)
    if problem.tabular is None and rollouts == 0:
        return None
    return evaluate(problem, policy, rollouts=rollouts or (1000 if problem.compiled else 100), seed=seed)


def certified(
    problem: Problem,
    core: CoreSet | None,
    policy: SoftmaxPolicy,
    *,
    queries: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    target: float | None = None,
    tell: Any = None,
    executor: Any = None,
    log: Any = None,
) -> Certificate:
    """The certificate of a policy on the core pairs that its run used or chose; enough queries for them by default.

    Where there are none, it has the lower bound only.
    """
    if core is None and problem.core_pairs is not None:
        core = CoreSet.of(problem)
    if queries is None:
        queries = max(QUERIES, least_queries(problem, core))
    return certify(
        problem, core, policy, queries=queries, confidence=confidence, seed=seed, target=target, tell=tell,
        executor=executor, log=log,
    )  # fmt: skip
