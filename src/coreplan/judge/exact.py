"""Exact values of enumerable problems, for reports and judges. No planner imports this.

Values are the paper's: normalised returns (1 - gamma) <nu0, V> in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

from ..base import FloatArray, one_thread
from ..policy import SoftmaxPolicy
from ..problem import Problem, Tabular, check_policy

_CHEAP = 2_000_000  # the most multiplications per row of a trace


def value_function(table: Tabular, pi: FloatArray, discount: float) -> FloatArray:
    """V^pi `[X]` of a policy pi `[X, A]`: the solution of V = M^pi (r + gamma P V) (`eq:BE`)."""
    X, A = table.r.shape
    check_policy(pi, X, A, table.available)
    r = np.einsum("xa,xa->x", pi, table.r)
    # M^pi as a sparse matrix [X, X * A].
    M = sparse.csr_matrix((pi.ravel(), np.arange(X * A), np.arange(0, X * A + 1, A)), shape=(X, X * A))
    if table.factors is not None:
        # V = r + gamma (M Phi) w with w = W V, hence (I - gamma W M Phi) w = W r: d x d.
        Phi, W = table.factors
        MPhi = M @ Phi
        if sparse.issparse(W):  # a table with a clock
            w = _solved(W @ MPhi, discount, W @ r)
            return r + discount * (MPhi @ w)
        MPhi = MPhi.toarray() if sparse.issparse(MPhi) else MPhi
        w = np.linalg.solve(np.eye(len(W)) - discount * (W @ MPhi), W @ r)
        return r + discount * (MPhi @ w)
    if sparse.issparse(table.P):
        return _solved(M @ table.P, discount, r)
    return np.linalg.solve(np.eye(X) - discount * (M @ table.P), r)


def _solved(P: Any, discount: float, r: FloatArray) -> FloatArray:
    """The solution of v = r + discount P v, for a sparse P.

    With a clock, states in the order of time, P leads upwards only: back substitution in that order needs no more memory
    than P, while an order of columns that ignores it can fill the factors.
    """
    matrix = sparse.eye(len(r), format="csc") - discount * P.tocsc()
    rising = sparse.tril(P, k=-1).nnz == 0
    return spsolve(matrix, r, permc_spec="NATURAL" if rising else "COLAMD")


def normalised(table: Tabular, V: FloatArray, discount: float) -> float:
    """(1 - gamma) <nu0, V>."""
    return float((1.0 - discount) * (table.nu0 @ V))


@one_thread
def policy_value(table: Tabular, policy: SoftmaxPolicy, discount: float) -> float:
    """The exact normalised value of a policy."""
    return normalised(table, value_function(table, policy.probabilities(table.states), discount), discount)


@one_thread
def optimal_values(table: Tabular, discount: float) -> tuple[FloatArray, FloatArray]:
    """V* `[X]` and Q* `[X, A]`, by policy iteration with strict improvements only.

    Q* is minus infinity for unavailable actions.
    """
    X, A = table.r.shape
    allowed = np.ones((X, A), dtype=bool) if table.available is None else table.available
    choice = allowed.argmax(axis=1)
    for _ in range(10_000):  # far more than policy iteration needs
        V = value_function(table, np.eye(A)[choice], discount)
        Q = np.where(allowed, table.r + discount * table.expect(V).reshape(X, A), -np.inf)
        better = Q.max(axis=1) > Q[np.arange(X), choice] + 1e-13 * max(1.0, np.abs(Q[allowed]).max())
        if not better.any():
            break
        choice = np.where(better, Q.argmax(axis=1), choice)
    return V, Q


def cheap_value(problem: Problem) -> Callable[[SoftmaxPolicy], float] | None:
    """A function that computes a policy's exact value, for the rows of a trace; None if that is costly or impossible."""
    table = problem.tabular() if problem.tabular is not None else None
    if table is None or not is_cheap(table):
        return None
    return lambda policy: policy_value(table, policy, problem.discount)


def is_cheap(table: Tabular) -> bool:
    """Whether `policy_value` takes about a millisecond, so that a trace can afford it."""
    X, A = table.r.shape
    if table.factors is not None:
        d = table.factors[1].shape[0]
        return X * A * d + X * d * d + d**3 <= _CHEAP
    return X**3 <= _CHEAP
