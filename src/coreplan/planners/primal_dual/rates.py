"""The closed forms that minimise Theorem 1's optimisation error (`thm:main`).

eps_opt = D(lambda*|lambda_1)/(eta T) + log A/(beta T) + 2 D^2/(alpha K)
        + eta m^2 (1 + 2 R D)^2 / 2 + beta R^2 D^2 / 2 + 2 alpha R^2.
Each rate meets two terms, a/rate + b rate, least at sqrt(a/b) with the sum 2 sqrt(a b); hence with the best rates
eps_opt = c1/sqrt(T) + c2/sqrt(K). The relative entropy is at most log m from the uniform lambda_1.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from ...base import InputError
from ...features import Phi, as_matrix, length

_NEGLIGIBLE = 1e-12
_DENSE = 4_000_000  # entries of the core feature matrix up to which its singular values are computed


def constants(m: int, A: int, R: float, D: float) -> tuple[float, float]:
    """c1 and c2 of eps_opt = c1/sqrt(T) + c2/sqrt(K), at the best rates."""
    c1 = m * (1 + 2 * R * D) * math.sqrt(2 * math.log(m)) + R * D * math.sqrt(2 * math.log(A))
    return c1, 4 * R * D


def best_rates(m: int, A: int, R: float, D: float, T: int, K: int) -> tuple[float, float, float]:
    """(eta, beta, alpha) for given T and K; with m = 1 or A = 1 nothing is learned there, and the rate is negligible."""
    eta = math.sqrt(2 * math.log(m) / T) / (m * (1 + 2 * R * D)) or _NEGLIGIBLE / (m * (1 + 2 * R * D)) ** 2
    beta = math.sqrt(2 * math.log(A) / T) / (R * D) or _NEGLIGIBLE / (R * D) ** 2
    return eta, beta, D / (R * math.sqrt(K))


def best_K(m: int, A: int, R: float, D: float, budget: int) -> int:
    """The K that minimises eps_opt for T (K + 1) <= budget, rounded: T : K = (c1/c2)^2."""
    c1, c2 = constants(m, A, R, D)
    best = math.sqrt(budget) * c2 / c1 if c1 else budget
    return max(1, min(round(best), budget - 1))


def default_D(core_features: Phi, dimension: int, discount: float) -> float:
    """A radius that holds theta of every Q^pi of a linear MDP with an exact core: |pinv(Phi~)| sqrt(m) / (1 - gamma).

    Q^pi at the core pairs is a vector in [0, 1/(1-gamma)]^m, and theta = pinv(Phi~) of it represents Q^pi everywhere.
    For unit vectors as core features it is sqrt(d) / (1 - gamma), which is also taken, without a proof, where the matrix
    is too large for its singular values.
    """
    m, matrix = length(core_features), as_matrix(core_features, dimension)
    if m == dimension and abs(matrix - sparse.identity(dimension, format="csr")).max() < 1e-9:
        return math.sqrt(dimension) / (1.0 - discount)
    if m * dimension > _DENSE:
        return math.sqrt(dimension) / (1.0 - discount)
    values = np.linalg.svd(matrix.toarray() if sparse.issparse(matrix) else matrix, compute_uv=False)
    if not values.max() > 0:
        raise InputError("All core features are zero: no D is right. Give features that tell pairs apart.")
    return math.sqrt(m) / ((1.0 - discount) * float(values[values > 1e-10 * values.max()].min()))
