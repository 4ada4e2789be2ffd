"""Theorem 1 (`thm:main`) in numbers: the bound term by term, its best hyperparameters, and their cost in queries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import InputError, as_choice, as_count, as_number, as_positive, several
from ..core import Frame
from ..features import Phi
from ..planners import best_K, best_rates, constants


@dataclass(frozen=True)
class Bound:
    """The bound on E[<mu* - mu^piout, r>], with the terms in the order of `thm:main`."""

    lambda_start: float  # D(lambda*|lambda_1) / (eta T)
    policy_start: float  # log A / (beta T)
    theta_start: float  # 2 D^2 / (alpha K)
    lambda_noise: float  # eta m^2 (1 + 2 R D)^2 / 2
    policy_noise: float  # beta R^2 D^2 / 2
    theta_noise: float  # 2 alpha R^2
    q_error: float = 0.0  # 2 E[eps_piout]
    bellman_error: float = 0.0  # 2 IBE
    core_error: float = 0.0  # 2 D <mu*, eps_core>

    @property
    def eps_opt(self) -> float:
        """The optimisation error: the six terms that decrease with more queries."""
        return (
            self.lambda_start + self.policy_start + self.theta_start
            + self.lambda_noise + self.policy_noise + self.theta_noise
        )  # fmt: skip

    @property
    def eps_approx(self) -> float:
        """The approximation error.

        It is zero for a linear MDP with an exact core set, if D is large enough for every Q^pi and IBE is taken without the
        ball, which is all that the proof then needs (docs/deviations.md).
        """
        return self.q_error + self.bellman_error + self.core_error

    @property
    def total(self) -> float:
        return self.eps_opt + self.eps_approx


def bound(
    *, T: int, K: int, eta: float, beta: float, alpha: float, m: int, A: int, R: float, D: float,
    relative_entropy: float | None = None, policy_entropy: float | None = None,
    q_error: float = 0.0, bellman_error: float = 0.0, core_error: float = 0.0,
) -> Bound:  # fmt: skip
    """Theorem 1's bound. It holds for the output pi_J, a uniform pi_1, and features of norm at most R.

    `relative_entropy` is D(lambda*|lambda_1), by default its bound log m for a uniform lambda_1; `policy_entropy` is
    H(pi*|pi_1), by default its bound log A. `q_error` = E[eps_piout], `bellman_error` = IBE,
    `core_error` = <mu*, eps_core>.
    """
    T, K, m, A = several(as_count, "bound", T=T, K=K, m=m, A=A)
    eta, beta, alpha, R, D = several(as_positive, "bound", eta=eta, beta=beta, alpha=alpha, R=R, D=D)
    q_error, bellman_error, core_error = several(
        _error, "bound", q_error=q_error, bellman_error=bellman_error, core_error=core_error
    )
    _check_scale("bound", m, R, D)
    kl = math.log(m) if relative_entropy is None else _error("bound", relative_entropy=relative_entropy)
    entropy = math.log(A) if policy_entropy is None else _error("bound", policy_entropy=policy_entropy)
    return Bound(
        lambda_start=kl / (eta * T),
        policy_start=entropy / (beta * T),
        theta_start=2 * D**2 / (alpha * K),
        lambda_noise=eta * m**2 * (1 + 2 * R * D) ** 2 / 2,
        policy_noise=beta * R**2 * D**2 / 2,
        theta_noise=2 * alpha * R**2,
        q_error=2 * q_error,
        bellman_error=2 * bellman_error,
        core_error=2 * D * core_error,
    )


@dataclass(frozen=True)
class Tuned:
    """Hyperparameters that minimise eps_opt, and the bound that they give."""

    T: int
    K: int
    eta: float
    beta: float
    alpha: float
    D: float
    bound: Bound

    @property
    def queries(self) -> int:
        """T (K + 1), the number of queries."""
        return self.T * (self.K + 1)


def tuned(
    *,
    epsilon: float | None = None,
    budget: int | None = None,
    m: int,
    A: int,
    R: float,
    D: float,
    split: str = "best",
) -> Tuned:
    """The hyperparameters for an accuracy or for a budget of queries, in closed form.

    With the best rates eps_opt = c1/sqrt(T) + c2/sqrt(K). An accuracy gets the T and K with the fewest queries T (K + 1);
    for large K they have T / K = (c1/c2)^2, and each of the two terms is epsilon/2. `split="paper"` uses the paper's
    K = T/(m^2 log(m A)) instead.
    """
    if (epsilon is None) == (budget is None):
        raise InputError("`tuned` takes either epsilon or budget.")
    m, A = several(as_count, "tuned", m=m, A=A)
    budget = as_count("tuned", optional=True, budget=budget)
    R, D = several(as_positive, "tuned", R=R, D=D)
    epsilon = as_positive("tuned", optional=True, epsilon=epsilon)
    split = as_choice("tuned", ("best", "paper"), split=split)
    _check_scale("tuned", m, R, D)
    c1, c2 = constants(m, A, R, D)
    ratio = (c1 / c2) ** 2 if split == "best" else m**2 * math.log(m * A)  # T : K
    if epsilon is not None:
        if ratio == 0.0:  # only theta is to be learnt: one iteration
            T, K = 1, math.ceil((c2 / epsilon) ** 2)
        else:  # c1/sqrt(T) + c2 sqrt(ratio)/sqrt(T) = epsilon
            wanted = (c1 + c2 * math.sqrt(ratio)) / epsilon
            if wanted > 1e9:
                raise InputError(
                    f"An epsilon of {epsilon:g} needs more than 10^18 iterations; nobody can run them. Ask for less."
                )
            T, K = _fewest(c1, c2, epsilon) if split == "best" else _split(wanted, ratio)
    else:
        assert budget is not None
        K = (
            best_K(m, A, R, D, budget)
            if split == "best"
            else max(1, min(round(math.sqrt(budget / max(ratio, 1e-9))), budget - 1))
        )
        T = budget // (K + 1)
        if T < 1:
            raise InputError(f"A budget of {budget} queries is below K + 1 = {K + 1}, one iteration.")
    eta, beta, alpha = best_rates(m, A, R, D, T, K)
    total = bound(T=T, K=K, eta=eta, beta=beta, alpha=alpha, m=m, A=A, R=R, D=D)
    return Tuned(T=T, K=K, eta=eta, beta=beta, alpha=alpha, D=D, bound=total)


def _split(wanted: float, ratio: float) -> tuple[int, int]:
    """T = wanted^2 and K = T / ratio, rounded up."""
    T = math.ceil(wanted**2)
    return T, max(1, math.ceil(T / ratio))


def _fewest(c1: float, c2: float, epsilon: float) -> tuple[int, int]:
    """T and K that minimise T (K + 1) among those with c1/sqrt(T) + c2/sqrt(K) <= epsilon.

    For a given K the least T is (c1 / (epsilon - c2/sqrt(K)))^2. The derivative of log T (K + 1) in K vanishes where
    epsilon sqrt(K) = c2 (2 + 1/K), which has one solution, and T (K + 1) falls before it and rises after it. In z = sqrt(K)
    that is epsilon z^3 - 2 c2 z^2 - c2 = 0.
    """
    (z,) = (
        r.real for r in np.roots([epsilon, -2 * c2, 0.0, -c2]) if abs(r.imag) < 1e-9 * abs(r) and r.real > 0
    )
    below = max(1, math.floor(z**2))

    def iterations(K: int) -> float:
        left = epsilon - c2 / math.sqrt(K)
        return math.ceil((c1 / left) ** 2) if left > 0 else math.inf

    K = min((below, below + 1), key=lambda K: iterations(K) * (K + 1))
    return int(iterations(K)), K


def _error(owner: str, **given: Any) -> float:
    return float(as_number(owner, "a finite number of at least 0", lambda number: number >= 0.0, **given))


def _check_scale(owner: str, m: int, R: float, D: float) -> None:
    if not m * max(R, 1.0) * max(D, 1.0) < 1e60 or not min(R, D) > 1e-60:
        raise InputError(
            f"`{owner}` cannot work with m = {m}, R = {R:g}, D = {D:g}: the products leave all floats."
        )


def queries_needed(epsilon: float, *, m: int, A: int, R: float, D: float, split: str = "best") -> int:
    """The queries for which Theorem 1 guarantees eps_opt <= epsilon: O(m^2 R^4 D^4 log(m A) / epsilon^4) for R D >= 1."""
    return tuned(epsilon=epsilon, m=m, A=A, R=R, D=D, split=split).queries


def default_D(core_features: Phi, dimension: int, discount: float) -> float:
    """The radius D that planners use by default: see `Frame.radius`."""
    return Frame(core_features, dimension).radius(discount)
