"""How often a policy visits the core pairs of a sampled model, and what a change of their backups does to theta."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg import LinAlgError, LinAlgWarning, solve
from scipy.sparse import identity
from scipy.sparse.linalg import LinearOperator, bicgstab, splu

from ..base import FloatArray, IntArray
from ..core import Lift
from .policy_iteration import FACTORED, LARGE, SampledModel


def visits(
    sampled: SampledModel, lift: Lift, w: FloatArray, theta: FloatArray, choice: IntArray
) -> FloatArray | None:
    """The expected discounted number of visits of each core pair, `[m]`, under a policy that is greedy in theta.

    The features f of a state stand for R'f visits of the core pairs, so that lambda = R'f0 + gamma R'F' lambda, with the
    mean features f0 of the initial states and F of the next ones. They sum to 1 / (1 - gamma) where coefficients are
    convex. None if there is no solution.
    """
    f0 = sampled.start_features(theta, lift.d)
    start = f0[lift.frame.units] if lift.R is None else lift.R.T @ f0
    return _transposed(sampled, lift, w, choice, start)


def _transposed(
    sampled: SampledModel, lift: Lift, w: FloatArray, choice: IntArray, b: FloatArray
) -> FloatArray | None:
    """The solution x of x (I - gamma F R) = b `[m]`; None if there is none."""
    F, gamma, R, m = sampled.flow(lift, w, choice), sampled.discount, lift.R, lift.m
    if m > FACTORED:
        back = (lambda x: x - gamma * (F.T @ x)) if R is None else (lambda x: x - gamma * (R.T @ (F.T @ x)))
        x, fault = bicgstab(LinearOperator((m, m), matvec=back, dtype=np.float64), b, rtol=1e-10, maxiter=300)
        if not fault and np.isfinite(x).all():
            return x
    if R is None and m > FACTORED:
        try:
            return splu((identity(m, format="csc") - gamma * F).T.tocsc()).solve(b)
        except RuntimeError:  # singular
            return None
    if m * lift.width > LARGE:
        return None
    return solved(np.eye(m) - gamma * (F.toarray() if R is None else F.toarray() @ R), b)


def solved(matrix: FloatArray, b: FloatArray) -> FloatArray | None:
    """The rows x with x matrix = b, `[m]` or `[k, m]`; None if there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)
        try:
            return solve(matrix, b.T, transposed=True, check_finite=False).T
        except (LinAlgError, ValueError):
            return None


def responses(
    sampled: SampledModel, lift: Lift, w: FloatArray, choice: IntArray, rows: FloatArray
) -> FloatArray | None:
    """The derivatives of f . theta with respect to the backups of the core pairs, for feature vectors f, `[k, m]`.

    A change delta of the backups changes theta by B delta, B = R (I - gamma F R)^-1, as long as no choice changes. `rows
    [k, m]` are f' R. None if there is no solution.
    """
    F, R, m = sampled.flow(lift, w, choice).toarray(), lift.R, lift.m
    return solved(np.eye(m) - sampled.discount * (F if R is None else F @ R), rows)
