"""A problem written out as matrices, for the LPs and the theory. No planner imports this.

Pairs are numbered z = x A + a. Matrices are scipy.sparse if the problem is sparse.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..base import FloatArray, InputError, IntArray, as_kind
from ..core import CoreSet
from ..features import as_matrix, available, checked, flat
from ..problem import Problem, Tabular, check_policy

LIMIT = 2_000_000  # the most pairs
_BYTES = 4e9  # the most bytes of a dense transition matrix


@dataclass(frozen=True)
class Enumerated:
    """An MDP with features and a core set, as arrays.

    Operators of the paper's section 2 and after Assumption 1: `E [Z, X]`, `P [Z, X]`, `M(pi) [X, Z]`,
    `Phi [Z, d]`, `U [m, Z]`; vectors `r [Z]`, `nu0 [X]`.
    """

    table: Tabular
    Phi: Any  # [Z, d], dense or csr
    discount: float
    radius: float
    rows: IntArray  # [m] the core pairs' numbers z

    @classmethod
    def of(cls, problem: Problem, core: CoreSet | None = None) -> Enumerated:
        """Write a problem out as matrices; raises InputError if it is too large."""
        as_kind("Enumerated.of", Problem, "a Problem", problem=problem)
        if problem.tabular is None:
            raise InputError(
                f"The problem '{problem.name}' cannot be enumerated: it has too many states, or gives no table. "
                "Use what works on samples: plan, and evaluate by rollouts."
            )
        table = problem.tabular()
        pairs = table.n_states * table.n_actions
        if pairs > LIMIT:
            raise InputError(
                f"The problem '{problem.name}' has {table.n_states:,} states x {table.n_actions} actions = {pairs:,} pairs; "
                f"at most {LIMIT:,} are written out. Use what works on samples: plan, and evaluate by rollouts."
            )
        if core is None and problem.core_pairs is not None:
            core = CoreSet.of(problem)
        rows = np.empty(0, dtype=np.int64) if core is None else _rows(table, core)
        return cls(
            table, feature_matrix(problem, table), problem.discount, float(problem.features.radius), rows
        )

    def __post_init__(self) -> None:
        if self.table.available is not None:
            raise _no_masks()
        bad = np.flatnonzero((self.rows < 0) | (self.rows >= self.Phi.shape[0]))
        if len(bad):
            raise InputError(
                f"Core pair {bad[0]} is number {self.rows[bad[0]]}; pairs run from 0 to {self.Phi.shape[0] - 1}."
            )

    @property
    def X(self) -> int:
        return self.table.n_states

    @property
    def A(self) -> int:
        return self.table.n_actions

    @property
    def Z(self) -> int:
        return self.X * self.A

    @property
    def m(self) -> int:
        return len(self.rows)

    @property
    def d(self) -> int:
        return int(self.Phi.shape[1])

    @property
    def r(self) -> FloatArray:
        """Rewards, `[Z]`."""
        return self.table.r.ravel()

    @property
    def nu0(self) -> FloatArray:
        """Initial distribution, `[X]`."""
        return self.table.nu0

    @cached_property
    def P(self) -> Any:
        """Transitions, `[Z, X]`: csr if the table is sparse."""
        if self.table.factors is None:
            return (
                sparse.csr_matrix(self.table.P) if sparse.issparse(self.table.P) else np.asarray(self.table.P)
            )
        Phi, W = self.table.factors
        if 8 * self.Z * self.X > _BYTES:
            raise InputError(
                f"P has {self.Z:,} x {self.X:,} entries, {8e-9 * self.Z * self.X:.0f} GB; at most {_BYTES / 1e9:.0f} GB are "
                "written out. Take fewer states, or use what works on samples: plan, and evaluate by rollouts."
            )
        product = Phi @ W
        return sparse.csr_matrix(product) if sparse.issparse(product) else np.asarray(product)

    @cached_property
    def E(self) -> Any:
        """(E v)(x, a) = v(x), `[Z, X]`."""
        return sparse.csr_matrix(
            (np.ones(self.Z), np.repeat(np.arange(self.X), self.A), np.arange(self.Z + 1))
        )

    @cached_property
    def U(self) -> Any:
        """The matrix that selects the core pairs, `[m, Z]`: Phi~ = U Phi."""
        return sparse.csr_matrix((np.ones(self.m), self.rows, np.arange(self.m + 1)), shape=(self.m, self.Z))

    def M(self, pi: FloatArray) -> Any:
        """(M^pi Q)(x) = sum_a pi(a|x) Q(x, a), `[X, Z]`, for pi `[X, A]`."""
        check_policy(pi, self.X, self.A)
        return sparse.csr_matrix(
            (pi.ravel(), np.arange(self.Z), np.arange(0, self.Z + 1, self.A)), shape=(self.X, self.Z)
        )

    def softmax(self, Theta: FloatArray, scale: float) -> FloatArray:
        """pi(a|x) = softmax(scale Phi Theta), `[X, A]`; scale = inf is greedy."""
        q = (self.Phi @ Theta).reshape(self.X, self.A)
        if np.isinf(scale):
            return np.eye(self.A)[q.argmax(axis=1)]
        e = np.exp(scale * (q - q.max(axis=1, keepdims=True)))
        return e / e.sum(axis=1, keepdims=True)


def feature_matrix(problem: Problem, table: Tabular) -> Any:
    """Phi, `[Z, d]`: dense, or csr if features are sparse."""
    phi = checked(problem.features, table.states)
    if not available(phi).all():
        raise _no_masks()
    Phi = as_matrix(flat(phi), problem.features.dimension)
    if sparse.issparse(Phi):
        Phi.sum_duplicates()
        Phi.eliminate_zeros()
    return Phi


def _no_masks() -> InputError:
    return InputError(
        "The problem masks actions, but the LPs and the theory are about problems in which every action is available "
        "everywhere. Plan and evaluate respect masks; for the theory leave the mask out."
    )


def _rows(table: Tabular, core: CoreSet) -> IntArray:
    states = np.ascontiguousarray(table.states).astype(core.states.dtype)
    number = {state.tobytes(): x for x, state in enumerate(states)}
    rows = np.empty(len(core), dtype=np.int64)
    for j, (state, action) in enumerate(zip(core.states, core.actions, strict=True)):
        x = number.get(state.tobytes())
        if x is None or not 0 <= action < table.n_actions:
            raise InputError(
                f"Core pair {j}, state {state.tolist()} and action {action}, is not in the problem's table."
            )
        rows[j] = x * table.n_actions + action
    return rows
