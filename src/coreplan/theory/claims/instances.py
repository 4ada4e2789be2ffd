"""The small problems on which `verify` tests claims."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import FloatArray
from ...features import one_hot, table_features
from ...problem import Problem, Tabular, make, tabular_model


def _problem(
    name: str, discount: float, r: Any, P: Any, phi: FloatArray, core: Any, nu0: Any = None
) -> Problem:
    """A problem from rewards `[X, A]`, transitions `[X A, X]`, features `[X, A, d]` and core pairs (states, actions)."""
    r, P, phi = (np.asarray(a, dtype=np.float64) for a in (r, P, phi))
    X, d = len(r), phi.shape[2]
    table = Tabular(np.arange(X), r, np.full(X, 1 / X) if nu0 is None else np.asarray(nu0, dtype=float), P=P)
    radius = float(np.linalg.norm(phi, axis=2).max())
    states, actions = (np.asarray(a, dtype=np.int64) for a in core)
    return Problem(
        tabular_model(table), table_features(phi, d, radius), discount, core_pairs=(states, actions), name=name,
        tabular=lambda: table,
    )  # fmt: skip


def linear_instance() -> Problem:
    """A linear MDP with an exact core set: 36 pairs, d = m = 4, nu0 with full support."""
    return make("random-linear:states=12,actions=3,d=4,discount=0.8")


def tiny_instance() -> Problem:
    """A linear MDP with two core pairs, so small that all outcomes of two inner steps can be enumerated."""
    return make("random-linear:states=3,actions=2,d=2,discount=0.7")


def two_actions() -> Problem:
    """One state, two actions that pay .3 and .9, unit features."""
    table = Tabular(np.zeros(1, dtype=np.int64), np.array([[0.3, 0.9]]), np.ones(1), P=np.ones((2, 1)))
    return Problem(
        tabular_model(table), one_hot(1, 2), 0.9, core_pairs=(np.zeros(2, dtype=np.int64), np.arange(2)),
        tabular=lambda: table,
    )  # fmt: skip


def opposite_instance() -> Problem:
    """One state, d = 1, features +1 and -1, action 1 pays 1: here the gradients are as large as their bounds."""
    phi = np.array([[[1.0], [-1.0]]])
    return _problem("opposite", 0.9, [[0.0, 1.0]], np.ones((2, 1)), phi, ([0, 0], [0, 1]))


def misspecified_instance() -> Problem:
    """Random P and r, three features that explain neither, an incomplete core set: every error is positive."""
    rng = np.random.default_rng(12)
    X, A, d = 8, 2, 3
    r, P = rng.random((X, A)), rng.dirichlet(np.full(X, 0.5), size=X * A)
    phi = rng.dirichlet(np.ones(d), size=(X, A))
    table = Tabular(np.arange(X), r, np.full(X, 1 / X), P=P)
    core = (np.array([0, 3, 5, 6]), np.array([0, 1, 0, 1]))
    return Problem(
        tabular_model(table), table_features(phi, d, 1.0), 0.7, core_pairs=core, name="misspecified",
        tabular=lambda: table,
    )  # fmt: skip


def nearly_linear_instance() -> Problem:
    """The linear instance with P, r and features slightly perturbed: every error is positive, but small."""
    base = linear_instance()
    table = base.tabular()  # type: ignore[misc]
    X, A, rng = table.n_states, table.n_actions, np.random.default_rng(8)
    Phi, W = table.factors  # type: ignore[misc]
    P = 0.99 * (Phi @ W) + 0.01 * rng.dirichlet(np.full(X, 0.3), size=X * A)
    r = 0.99 * table.r + 0.01 * rng.random((X, A))
    phi = 0.999 * Phi.reshape(X, A, -1) + 0.001 * rng.dirichlet(np.ones(Phi.shape[1]), size=(X, A))
    off = Tabular(table.states, r, table.nu0, P=P)
    return Problem(
        tabular_model(off), table_features(phi, Phi.shape[1], 1.0), base.discount, core_pairs=base.core_pairs,
        name="nearly linear", tabular=lambda: off,
    )  # fmt: skip


def optimality_complete_instance() -> Problem:
    """Complete under the Bellman OPTIMALITY operator, not linear, with an exact core set: phi(x, a) = s(x) e_a with s >= 0.

    Q = s(x) theta_a has the maximum s(x) max theta; r(x, a) = rho_a s(x), and the mean of s after (x, a) is kappa_a s(x):
    so r + gamma P max_a Q = s(x) (rho_a + gamma kappa_a max theta) again. Rows P(.|x, a) = s(x) W_a would have to sum to
    s(x) sum W_a = 1 for every x, which no W does.
    """
    s, rho, kappa = np.array([0.25, 0.5, 1.0]), np.array([0.9, 0.5]), np.array([0.4, 0.9])
    X, A = len(s), len(rho)
    bottom = np.concatenate([[0.0], s])  # states: an empty one with s = 0, then those of `s`
    P = np.zeros(((X + 1) * A, X + 1))
    for x in range(X + 1):
        for a in range(A):
            at, mean = P[x * A + a], kappa[a] * bottom[x]
            high = int(np.searchsorted(bottom, mean, side="left"))  # spread over the neighbours of the mean
            low = max(high - 1, 0)
            share = (mean - bottom[low]) / (bottom[high] - bottom[low]) if high > low else 1.0
            at[high] += share
            at[low] += 1 - share
    phi = bottom[:, None, None] * np.eye(A)[None]
    core = ([0, X, X], [0, 0, 1])
    return _problem("complete under maxima", 0.8, bottom[:, None] * rho, P, phi, core)


def constant_feature_instance() -> Problem:
    """phi = 1 everywhere and constant rewards: no Bellman error for any policy, and P is anything but linear."""
    P = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    return _problem("constant feature", 0.7, np.full((2, 2), 0.5), P, np.ones((2, 2, 1)), ([0], [0]))


def false_lemma_instance() -> Problem:
    """One state, features (1, 1) and (.5, 1), the second pair as the core, r = the first coordinate, discount .5.

    It is a linear MDP whose Bellman error is zero in the ball of radius 2 too, and the optimal pair is off the core by .5.
    """
    return _problem(
        "false lemma", 0.5, [[1.0, 0.5]], np.ones((2, 1)), np.array([[[1.0, 1.0], [0.5, 1.0]]]), ([0], [1])
    )


def theorem_instance() -> Problem:
    """m = 2 and a short horizon, so that Theorem 1's bound is below 1: one state, action 1 pays 1, action 0 pays 0."""
    phi = np.eye(2)[None]
    return _problem("theorem", 0.1, [[0.0, 1.0]], np.ones((2, 1)), phi, ([0, 0], [0, 1]))


def approximate_instance() -> Problem:
    """`theorem_instance` with a second state and everything slightly off: eps_pi, IBE and eps_core are all positive."""
    phi = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.02], [0.0, 0.98]]]) / np.hypot(1.0, 0.02)
    P = np.array([[0.5, 0.5], [0.48, 0.52], [0.52, 0.48], [0.5, 0.5]])
    r = [[0.0, 1.0], [0.03, 0.97]]
    return _problem("approximate", 0.1, r, P, phi, ([0, 0], [0, 1]))


def detour_instance() -> Problem:
    """A core set that is exact where the optimal policy goes and bad elsewhere.

    State 0: action 1 pays 1 and stays, action 0 pays 0 and leads to state 1, where nothing is ever paid. State 1 has a
    feature of its own, e_3, far from the core features e_1 and e_2; the optimal policy never goes there.
    """
    phi = np.zeros((2, 2, 3))
    phi[0, 0, 0] = phi[0, 1, 1] = phi[1, :, 2] = 1.0
    P = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    return _problem("detour", 0.1, [[0.0, 1.0], [0.0, 0.0]], P, phi, ([0, 0], [0, 1]), nu0=[1.0, 0.0])
