"""The saddle point that Algorithm 1 approaches: the Lagrangian of section 4 over its compact sets.

    min over |theta| <= D, |V|_inf <= R D   max over lambda in the simplex of the core pairs, u in that of all pairs
        <lambda, U (r + gamma P V - Phi theta)> + (1 - gamma) <nu0, V> + <u, Phi theta - E V>

The inner maximum is the largest core residual, plus the initial value, plus the largest excess of Phi theta over V. So the
minimum is a linear program but for the ball of theta.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from ..base import FloatArray, InputError, as_positive
from .definitions import as_dense
from .tables import Enumerated

MOST = 500  # cuts of the ball


class Saddle(NamedTuple):
    """The value of the game lies between `low` and `value`; (theta, V) attains `value`."""

    value: float
    low: float
    theta: FloatArray  # [d]
    V: FloatArray  # [X]


def worst(e: Enumerated, theta: FloatArray, V: FloatArray) -> float:
    """max over lambda and u of the Lagrangian at (theta, V)."""
    Q = e.Phi @ theta
    core = (e.r + e.discount * (e.P @ V) - Q)[e.rows]
    return float(core.max() + (1 - e.discount) * (e.nu0 @ V) + (Q - e.E @ V).max())


def saddle_point(e: Enumerated, D: float, tolerance: float = 1e-7) -> Saddle:
    """Solve the game by cutting planes: the ball is replaced by half-spaces, and one is added where theta leaves it.

    Every program is a relaxation, whose value is a lower bound; its theta, shrunk into the ball, gives an upper one.
    """
    D = as_positive("saddle_point", D=D)
    if e.m == 0:
        raise InputError("The saddle point needs a core set: Enumerated.of(problem, core).")
    Phi, P, E = as_dense(e.Phi), as_dense(e.P), as_dense(e.E)
    d, X, R = e.d, e.X, e.radius
    core = np.hstack([-Phi[e.rows], e.discount * P[e.rows], -np.ones((e.m, 1)), np.zeros((e.m, 1))])
    excess = np.hstack([Phi, -E, np.zeros((e.Z, 1)), -np.ones((e.Z, 1))])
    A, b = np.vstack([core, excess]), np.concatenate([-e.r[e.rows], np.zeros(e.Z)])
    cost = np.concatenate([np.zeros(d), (1 - e.discount) * e.nu0, [1.0, 1.0]])
    bounds = [(-D, D)] * d + [(-R * D, R * D)] * X + [(None, None)] * 2
    best = Saddle(np.inf, -np.inf, np.zeros(d), np.zeros(X))
    for _ in range(MOST):
        found = linprog(cost, A_ub=A, b_ub=b, bounds=bounds, method="highs").x
        theta, V, low = found[:d], found[d : d + X], float(cost @ found)
        norm = float(np.linalg.norm(theta))
        inside = theta * min(1.0, D / norm) if norm > 0 else theta
        value = worst(e, inside, V)
        if value < best.value:
            best = best._replace(value=value, theta=inside, V=V)
        best = best._replace(low=max(best.low, low))
        if best.value - best.low <= tolerance:
            break
        A = np.vstack([A, np.concatenate([theta / norm, np.zeros(X + 2)])])
        b = np.append(b, D)
    return best
