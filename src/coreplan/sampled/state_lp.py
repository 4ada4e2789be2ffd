"""The approximate linear program over values of states, V(x) = psi(x) . w: solved on constraints given as rows, and
verified.

psi(x) is the mean of phi(x, a) over the available actions, so that features of pairs are all that is needed. Where every
action has its own copy of the features of a state, these are the features of the state up to a factor, 1 / A.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..base import FloatArray
from ..features import Phi, as_matrix, available, flat
from .verified import Pair, solve_pair

SPREAD = 0.5  # part of the weights of states that is spread over those of the constraints


class StateValues(NamedTuple):
    """The verified optimum: w, its objective, and how far the objective may be from the optimum."""

    w: FloatArray  # [d]
    value: float
    error: float


def state_rows(phi: Phi, d: int) -> Any:
    """psi of a batch `[n, A, ...]`, as csr `[n, d]`."""
    allowed = available(phi)
    n, A = allowed.shape
    matrix = sparse.csr_matrix(as_matrix(flat(phi), d))
    share = allowed / allowed.sum(axis=1, keepdims=True)
    weights = sparse.csr_matrix(
        (share.ravel(), np.arange(n * A), np.arange(0, n * A + 1, A)), shape=(n, n * A)
    )
    rows = (weights @ matrix).tocsr()
    rows.eliminate_zeros()
    return rows


def solve_states(
    here: Any, ahead: Any, rewards: FloatArray, starts: Any, discount: float, groups: Any = None
) -> StateValues:
    """min <c, V>  s.t.  V(x_i) >= r_i + gamma E V(y_i) for every i,  V >= 0 where it is weighed.

    Row i of `here` is psi(x_i), of `ahead` the mean of psi over next states, both `[N, d]`; `starts [n0, d]` are initial
    states. c weighs the initial states and the x_i, half each, and the last constraints, which every true value function
    meets, keep the LP finite. With `groups [k, N]`, a nonnegative matrix, the constraints are its combinations of these.
    """
    bellman, r = sparse.csr_matrix(here) - discount * sparse.csr_matrix(ahead), rewards
    if groups is not None:
        bellman, r = groups @ bellman, groups @ r
    met = sparse.vstack([sparse.csr_matrix(starts), sparse.csr_matrix(here)]).tocsr()
    c = (1 - SPREAD) * _mean(starts) + SPREAD * _mean(here)
    constraints = sparse.vstack([bellman, met])
    pair = Pair(
        np.concatenate([r, np.zeros(met.shape[0])]), sparse.csc_matrix(constraints.T), (1 - discount) * c, 0
    )
    found = solve_pair(
        pair,
        "approximate",
        1 / (1 - discount),
        lambda: "Its constraints leave values free: too few of them were sampled.",
    )
    return StateValues(found.w, float(pair.g @ found.w), found.error)


def _mean(rows: Any) -> FloatArray:
    return np.asarray(rows.mean(axis=0)).ravel()
