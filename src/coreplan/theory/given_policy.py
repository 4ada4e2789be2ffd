"""A policy given by probabilities, as a compact one: for the initial policy pi_1 of Algorithm 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import InputError, as_array
from ..policy import SoftmaxPolicy
from ..problem import Problem, check_policy
from .definitions import as_dense
from .tables import Enumerated

EXACT = 1e-8  # the largest error of a log-probability


def compact(problem: Problem, pi: Any) -> SoftmaxPolicy:
    """The policy softmax(Phi w) with the probabilities pi `[X, A]`, for a problem that can be enumerated.

    `PrimalDual(pi1=compact(problem, pi))` starts there. The policies of Algorithm 1 are pi_1 exp(beta sum_k Q_k), and one
    vector over the features says such a policy only if it says pi_1: with unit features (one per state and action) any
    pi without zeros; otherwise an InputError tells how far the nearest one is.
    """
    e = Enumerated.of(problem)
    form = f"one distribution over the {e.A} actions for each of the {e.X} states, shape ({e.X}, {e.A})"
    pi = as_array("compact", form, 2, pi=pi).astype(np.float64)
    check_policy(pi, e.X, e.A)
    x, a = (int(i) for i in np.unravel_index(pi.argmin(), pi.shape))
    if not pi[x, a] > 0.0:
        raise InputError(
            f"`compact(pi=...)` gives action {a} of state number {x} the probability 0. Where an optimal policy takes such "
            "an action, H(pi*|pi_1) is infinite, the bound of Theorem 1 with it, and no update ever gives it mass. Mix in "
            "a little of the uniform policy."
        )
    phi, logs = as_dense(e.Phi).reshape(e.X, e.A, e.d), np.log(pi)
    phi = (phi - phi.mean(axis=1, keepdims=True)).reshape(e.Z, e.d)  # a constant per state changes no policy
    wanted = (logs - logs.mean(axis=1, keepdims=True)).ravel()
    w = np.linalg.lstsq(phi, wanted, rcond=None)[0]
    off = float(np.abs(phi @ w - wanted).max())
    if off > EXACT:
        raise InputError(
            "`compact(pi=...)`: no softmax over these features is this policy; the nearest one (in log-probabilities less "
            f"their mean per state) is off by {off:.2g}. So no vector over them says pi_1 exp(beta sum_k Q_k) either. Give "
            "a policy that is a softmax over the features, or add log pi_1 as a feature."
        )
    return SoftmaxPolicy(w, 1.0, problem.features)
