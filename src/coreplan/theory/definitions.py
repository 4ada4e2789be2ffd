"""The paper's definitions, computed: core error, Q-approximation error, inherent Bellman error, linear MDPs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog, nnls

from ..base import FloatArray, InputError, as_positive
from ..core import convex_coefficients
from .operators import policy_values
from .tables import Enumerated


def as_dense(matrix: Any) -> FloatArray:
    """A matrix as a dense array."""
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def core_errors(e: Enumerated) -> tuple[FloatArray, FloatArray]:
    """B `[Z, m]`, the best convex coefficients for every pair, and eps_core `[Z]` of Assumption 1 (`ass:Core_SA_approx`)."""
    if e.m == 0:
        raise InputError("Core errors need a core set: Enumerated.of(problem, core).")
    Phi = as_dense(e.Phi)
    return convex_coefficients(Phi[e.rows], Phi)


class BestFit(NamedTuple):
    """The best uniform approximation y ~ Phi theta; the true error lies between `low` and `error`."""

    theta: FloatArray  # [d]
    error: float  # attained by theta
    low: float  # certified by `weights`: no theta has an error below <w, y> - D |Phi' w|
    weights: FloatArray  # [Z], |w|_1 <= 1


def best_fit(Phi: Any, y: FloatArray, D: float | None = None) -> BestFit:
    """inf over |theta| <= D (None: over all theta) of |y - Phi theta|_inf, solved exactly.

    Without the ball this is a linear program. With it, it is a second-order cone program, solved as a search in one number
    t: the least norm n(t) = min |theta| s.t. |y - Phi theta| <= t is a least-distance problem (one nonnegative least
    squares, Lawson & Hanson, ch. 23); n is decreasing, and bisection finds the t with n(t) = D. The multipliers certify
    the answer.
    """
    D = as_positive("best_fit", optional=True, D=D)
    scale = float(abs(Phi).max())
    if not np.isfinite(y).all() or not np.isfinite(scale):
        raise InputError("A fit needs finite features and values.")
    if scale > 0.0 and scale != 1.0:  # solvers drop small coefficients, so scale features to size one
        fit = best_fit(Phi / scale, y, None if D is None else D * scale)
        return fit._replace(theta=fit.theta / scale)
    fit = _chebyshev(Phi, y)
    if D is None or np.linalg.norm(fit.theta) <= D:
        return fit
    Phi = as_dense(Phi)
    low, high = fit.low, float(np.abs(y).max())
    best = BestFit(np.zeros(Phi.shape[1]), high, fit.low, fit.weights)
    for _ in range(60):
        t = (low + high) / 2
        theta, weights = _least_norm(Phi, y, t)
        if weights is not None:
            certified = float(weights @ y - D * np.linalg.norm(Phi.T @ weights))
            if certified > best.low:
                best = best._replace(low=certified, weights=weights)
        if theta is None or np.linalg.norm(theta) > D:
            low = t
        else:
            high = t
        if theta is not None:
            theta = theta / max(1.0, float(np.linalg.norm(theta)) / D)
            error = float(np.abs(y - Phi @ theta).max())
            if error < best.error:
                best = best._replace(theta=theta, error=error)
        if best.error - best.low <= 1e-10 * max(1.0, high):
            break
    return best


def _chebyshev(Phi: Any, y: FloatArray) -> BestFit:
    Z, d = Phi.shape
    Phi = sparse.csr_matrix(Phi)
    ones = sparse.csr_matrix(np.ones((Z, 1)))
    A = sparse.bmat([[-Phi, -ones], [Phi, -ones]], format="csc")  # y - Phi theta <= t, Phi theta - y <= t
    cost = np.append(np.zeros(d), 1.0)
    result = linprog(
        cost, A_ub=A, b_ub=np.concatenate([-y, y]), bounds=[(None, None)] * d + [(0, None)], method="highs"
    )
    theta = result.x[:d] if result.x is not None else np.linalg.lstsq(Phi.toarray(), y, rcond=None)[0]
    w = np.zeros(Z)
    if result.x is not None:
        w = -result.ineqlin.marginals[:Z] + result.ineqlin.marginals[Z:]
        w /= max(1.0, np.abs(w).sum())
    # Without a ball the certificate is valid only if Phi' w = 0; otherwise the lower bound is 0.
    low = float(w @ y) if np.abs(Phi.T @ w).max() <= 1e-9 else 0.0
    error = float(np.abs(y - Phi @ theta).max())
    return BestFit(theta, error, min(max(low, 0.0), error), w)


def _least_norm(Phi: FloatArray, y: FloatArray, t: float) -> tuple[FloatArray | None, FloatArray | None]:
    """argmin |theta| s.t. |y - Phi theta| <= t, or None if infeasible; and normalised multipliers."""
    G = np.concatenate([Phi, -Phi])  # G theta >= h
    h = np.concatenate([y - t, -y - t])
    A = np.vstack([G.T, h])
    target = np.zeros(A.shape[0])
    target[-1] = 1.0
    u, _ = nnls(A, target, maxiter=30 * A.shape[1])
    residual = A @ u - target
    total = u.sum()
    weights = (u[: len(y)] - u[len(y) :]) / total if total > 0 else None
    if residual @ residual <= 1e-24:
        return None, weights
    return -residual[:-1] / residual[-1], weights


def q_approximation_error(e: Enumerated, pi: FloatArray, D: float | None) -> BestFit:
    """eps_pi = inf over the ball of |Q^pi - Phi theta|_inf (`def:QAE`)."""
    return best_fit(e.Phi, policy_values(e, pi).Q, D)


class LinearFit(NamedTuple):
    """The best linear-MDP fit (`def:linMDP`): P ~ Phi W and r ~ Phi vartheta, by least squares."""

    W: FloatArray  # [d, X]
    vartheta: FloatArray  # [d]
    reward_error: float  # |r - Phi vartheta|_inf
    transition_error: float  # max_z |P_z - Phi_z W|_1

    @property
    def holds(self) -> bool:
        """Whether the problem is a linear MDP, up to rounding."""
        return self.reward_error < 1e-8 and self.transition_error < 1e-8


def linear_fit(e: Enumerated) -> LinearFit:
    """Fit W and vartheta by least squares, and compute the remaining errors."""
    Phi, P = as_dense(e.Phi), as_dense(e.P)
    pinv = np.linalg.pinv(Phi)
    W, vartheta = pinv @ P, pinv @ e.r
    return LinearFit(
        W, vartheta, float(np.abs(e.r - Phi @ vartheta).max()), float(np.abs(P - Phi @ W).sum(axis=1).max())
    )
