"""The value of a plan's policy and its certificate: one function each, for Python and for the command line."""

from __future__ import annotations

from ..base import InputError, require_count
from ..core import CoreSet
from ..judge import Certificate, Evaluation, certify, evaluate, least_queries
from ..policy import SoftmaxPolicy
from ..problem import Problem

QUERIES = 50_000  # of a certificate, or as many as its core set needs at least


def evaluated(
    problem: Problem, policy: SoftmaxPolicy, rollouts: int | None = None, seed: int = 0
) -> Evaluation | None:
    """The policy's value, exact where the problem can be enumerated, else by rollouts; None for 0 of them.

    By default 1,000 rollouts of a compiled simulator, 100 of another, which may be slow.
    """
    require_count("plan", least=2 if rollouts else 0, rollouts=rollouts)
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
) -> Certificate:
    """The certificate of a policy on the core pairs that its run used or chose; by default with enough queries for them."""
    if core is None and problem.core_pairs is None:
        raise InputError("No core set was given or found, so there is nothing to certify on.")
    core = CoreSet.of(problem) if core is None else core
    if queries is None:
        queries = max(QUERIES, least_queries(len(core), problem.discount))
    return certify(problem, core, policy, queries=queries, confidence=confidence, seed=seed)
