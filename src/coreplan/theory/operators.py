"""Value functions, occupancy measures and the Lagrangian of an enumerated problem (sections 2 to 4)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

from ..base import FloatArray, InputError
from ..judge import optimal_values, value_function
from ..problem import check_policy
from .tables import Enumerated


class Values(NamedTuple):
    """V `[X]` and Q `[Z]` of one policy, Q = r + gamma P V (`eq:BE`)."""

    V: FloatArray
    Q: FloatArray


def policy_values(e: Enumerated, pi: FloatArray) -> Values:
    """V^pi and Q^pi of pi `[X, A]`."""
    V = value_function(e.table, pi, e.discount)
    return Values(V, e.r + e.discount * (e.P @ V))


def optimal(e: Enumerated) -> tuple[Values, FloatArray]:
    """V*, Q* and an optimal policy `[X, A]`; ties go to the lowest index."""
    V, Q = optimal_values(e.table, e.discount)
    return Values(V, Q.ravel()), np.eye(e.A)[Q.argmax(axis=1)]


def occupancy(e: Enumerated, pi: FloatArray) -> FloatArray:
    """mu^pi `[Z]`: the solution of E' mu = (1 - gamma) nu0 + gamma P' mu with mu = nu o pi."""
    P_pi = e.M(pi) @ e.P  # [X, X]
    if sparse.issparse(P_pi):
        nu = spsolve((sparse.identity(e.X) - e.discount * P_pi.T).tocsc(), (1 - e.discount) * e.nu0)
    else:
        nu = np.linalg.solve(np.eye(e.X) - e.discount * P_pi.T, (1 - e.discount) * e.nu0)
    return (nu[:, None] * pi).ravel()


def state_occupancy(e: Enumerated, pi: FloatArray) -> FloatArray:
    """nu^pi `[X]`: the state marginal of mu^pi."""
    return e.E.T @ occupancy(e, pi)


def value(e: Enumerated, pi: FloatArray) -> float:
    """<mu^pi, r>, the normalised return."""
    return float((1 - e.discount) * (e.nu0 @ policy_values(e, pi).V))


def state_measure(e: Enumerated, lam: FloatArray) -> FloatArray:
    """nu_t = gamma P' U' lambda_t + (1 - gamma) nu0, `[X]`: step 1 of the algorithm."""
    return e.discount * (e.P.T @ (e.U.T @ lam)) + (1 - e.discount) * e.nu0


def compose(nu: FloatArray, pi: FloatArray) -> FloatArray:
    """nu o pi, `[Z]`."""
    return (nu[:, None] * pi).ravel()


def lagrangian(e: Enumerated, lam: FloatArray, u: FloatArray, theta: FloatArray, V: FloatArray) -> float:
    """The Lagrangian L(lambda, u; theta, V) of section 4."""
    Q = e.Phi @ theta
    core = (e.r + e.discount * (e.P @ V) - Q)[e.rows]
    return float(lam @ core + (1 - e.discount) * (e.nu0 @ V) + u @ (Q - e.E @ V))


class Gradients(NamedTuple):
    """The partial gradients of the Lagrangian."""

    lam: FloatArray  # [m] U (r + gamma P V - Phi theta)
    u: FloatArray  # [Z] Phi theta - E V
    theta: FloatArray  # [d] Phi' u - Phi' U' lambda
    V: FloatArray  # [X] (1 - gamma) nu0 + gamma P' U' lambda - E' u


def gradients(e: Enumerated, lam: FloatArray, u: FloatArray, theta: FloatArray, V: FloatArray) -> Gradients:
    """All four partial gradients at a point."""
    Q = e.Phi @ theta
    return Gradients(
        lam=(e.r + e.discount * (e.P @ V) - Q)[e.rows],
        u=Q - e.E @ V,
        theta=e.Phi.T @ (u - e.U.T @ lam),
        V=state_measure(e, lam) - e.E.T @ u,
    )


def conditional_entropy(e: Enumerated, pi: FloatArray, pi1: FloatArray) -> float:
    """H(pi | pi1) = sum_x nu^pi(x) D(pi(.|x) | pi1(.|x)), the exact form of log A in `lem:duality-bound`."""
    check_policy(pi1, e.X, e.A)
    check_policy(pi, e.X, e.A)
    if ((pi > 0) & (pi1 <= 0)).any():
        raise InputError("The relative entropy is infinite: pi plays an action that pi1 never does.")
    mu = occupancy(e, pi)
    ratio = np.log(np.where(pi > 0, pi, 1.0)) - np.log(np.where(pi > 0, pi1, 1.0))
    return float(mu @ ratio.ravel())
