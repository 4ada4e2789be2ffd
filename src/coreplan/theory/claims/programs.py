"""Sections 2 and 3 and appendix A: the linear programs, what their solutions are, and what can be read from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from scipy.optimize import linprog

from ...base import FloatArray
from ..definitions import as_dense, core_errors, linear_fit
from ..lp import PAIRS, Solution, solve
from ..operators import occupancy, optimal, value
from ..rows import Row, above, at_most, equal, group
from ..saddle import saddle_point
from ..tables import Enumerated
from .instances import linear_instance, optimality_complete_instance, two_actions

LABELS = {"classic": "eq:LP_primal", "relaxed": "eq:Q-ALP", "core": "eq:QRALP-primal, eq:QRALP-dual"}
APPENDIX = "app:linMDP-realizability"


# The programs as printed, written out without the code of `lp`, and each solved by itself.


def _chosen(e: Enumerated, which: str) -> FloatArray:
    """U for the core LP, the identity for the relaxed one, `[., Z]`."""
    return np.eye(e.Z)[e.rows] if which == "core" else np.eye(e.Z)


def printed_primal(e: Enumerated, which: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """max <c, y> s.t. G y = g, y >= 0: (c, G, g), y being mu, or (mu, u), or (lambda, u)."""
    E, P, Phi, gamma = as_dense(e.E), as_dense(e.P), as_dense(e.Phi), e.discount
    if which == "classic":  # E' mu = (1 - gamma) nu0 + gamma P' mu
        return e.r, E.T - gamma * P.T, (1 - gamma) * e.nu0
    U = _chosen(e, which)
    flow = np.hstack([-gamma * P.T @ U.T, E.T])  # E' u = (1 - gamma) nu0 + gamma P' U' lambda
    match = np.hstack([Phi.T @ U.T, -Phi.T])  # Phi' U' lambda = Phi' u
    g = np.concatenate([(1 - gamma) * e.nu0, np.zeros(e.d)])
    return np.concatenate([U @ e.r, np.zeros(e.Z)]), np.vstack([flow, match]), g


def printed_dual(e: Enumerated, which: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """min <g, w> s.t. A w >= b: (g, A, b), w being V, or (V, theta)."""
    E, P, Phi, gamma = as_dense(e.E), as_dense(e.P), as_dense(e.Phi), e.discount
    if which == "classic":  # E V >= r + gamma P V
        return (1 - gamma) * e.nu0, E - gamma * P, e.r
    U = _chosen(e, which)
    backup = np.hstack([-gamma * U @ P, U @ Phi])  # U Phi theta >= U (r + gamma P V)
    above_q = np.hstack([E, -Phi])  # E V >= Phi theta
    g = np.concatenate([(1 - gamma) * e.nu0, np.zeros(e.d)])
    return g, np.vstack([backup, above_q]), np.concatenate([U @ e.r, np.zeros(e.Z)])


def _values(e: Enumerated, which: str) -> tuple[float, float]:
    """The optimal values of the printed primal and of the printed dual."""
    c, G, g = printed_primal(e, which)
    primal = -float(linprog(-c, A_eq=G, b_eq=g, bounds=(0, None)).fun)
    cost, A, b = printed_dual(e, which)
    return primal, float(linprog(cost, A_ub=-A, b_ub=-b, bounds=(None, None)).fun)


def _violations(e: Enumerated, which: str, form: str) -> tuple[float, float]:
    """How far the points that `solve` returns violate the printed constraints, primal and dual."""
    found = solve(e, which, form)
    y = found.mu if found.u is None else np.concatenate([found.mu, found.u])
    w = found.V if found.theta is None else np.concatenate([found.V, found.theta])
    _, G, g = printed_primal(e, which)
    _, A, b = printed_dual(e, which)
    return float(max(np.abs(G @ y - g).max(), (-y).max())), float((b - A @ w).max())


@group(
    "eq:LP_primal", "eq:Q-ALP", "eq:QRALP-primal", "eq:QRALP-dual", "app:linMDP-realizability",
    "strong duality", "the classic LP", "the relaxed LP", "the core LP", "`solve`", "V of the", "theta of the dual",
    "greedy on", "u of the", "(B' mu*, mu*)",
)  # fmt: skip
def lp_pairs() -> Iterable[Row]:
    """The three pairs of programs on a linear MDP with an exact core set and a nu0 of full support."""
    e = Enumerated.of(linear_instance())
    values, star = optimal(e)
    best = value(e, star)
    for which in PAIRS:
        primal, dual = _values(e, which)
        yield equal(f"strong duality of the {which} LPs, each as printed", LABELS[which], dual, primal, 1e-6)
        yield equal(f"the {which} LP has the optimal value", APPENDIX, best, solve(e, which).value, 1e-6)
    off = np.array([_violations(e, which, form) for which in PAIRS for form in ("primal", "dual")])
    labels = "eq:LP_primal, eq:Q-ALP, eq:QRALP-primal, eq:QRALP-dual"
    yield at_most("`solve`: its primal points satisfy the printed constraints", labels, 1e-7, off[:, 0].max())
    yield at_most("`solve`: its dual points satisfy the printed constraints", labels, 1e-7, off[:, 1].max())
    for which in ("relaxed", "core"):
        gap = float(np.abs(solve(e, which, "dual").V - values.V).max())
        yield at_most(f"V of the {which} dual is V*", APPENDIX, 1e-5, gap)
    yield from _primal_half(e, star, best)
    yield from _extraction(e, best)


def core_primal(e: Enumerated) -> Solution:
    """(lambda, u) of the core LP."""
    return solve(e, "core", "primal")


def conditionals(e: Enumerated, u: FloatArray | None) -> FloatArray:
    """pi_u(a|x) = u(x, a) / sum_a' u(x, a'), `[X, A]`."""
    assert u is not None
    policy = np.maximum(u, 0.0).reshape(e.X, e.A)
    return policy / policy.sum(axis=1, keepdims=True)


def greedy(e: Enumerated, V: FloatArray) -> FloatArray:
    """The policy that is greedy on r + gamma P V, `[X, A]`."""
    return np.eye(e.A)[(e.r + e.discount * (e.P @ V)).reshape(e.X, e.A).argmax(axis=1)]


def _primal_half(e: Enumerated, star: FloatArray, best: float) -> Iterable[Row]:
    """Appendix A: a feasible u is an occupancy measure with the reward of lambda, and (B' mu*, mu*) is feasible."""
    found = core_primal(e)
    assert found.u is not None
    flow = e.E.T @ found.u - (1 - e.discount) * e.nu0 - e.discount * (e.P.T @ found.u)
    yield at_most("u of the core LP is an occupancy measure", APPENDIX, 1e-6, float(np.abs(flow).max()))
    yield equal(
        "u of the core LP earns what lambda earns", APPENDIX, found.primal_value, float(found.u @ e.r), 1e-6
    )
    mu = occupancy(e, star)
    y = np.concatenate([core_errors(e)[0].T @ mu, mu])
    c, G, g = printed_primal(e, "core")
    yield at_most("(B' mu*, mu*) is feasible in the core LP", APPENDIX, 1e-9, float(np.abs(G @ y - g).max()))
    yield equal("(B' mu*, mu*) has the optimal value", APPENDIX, best, float(c @ y), 1e-9)


def _extraction(e: Enumerated, best: float) -> Iterable[Row]:
    """Policies from solutions: from u by its conditionals, from V by one backup, and not from theta."""
    policy = conditionals(e, solve(e, "core", "primal").u)
    yield equal(
        "u of the core LP: its conditionals are an optimal policy",
        "eq:LP_primal",
        best,
        value(e, policy),
        1e-6,
    )
    policy = greedy(e, solve(e, "core", "dual").V)
    yield equal("greedy on one backup of the dual's V is optimal", "eq:Q-ALP", best, value(e, policy), 1e-6)
    yield _other_theta()


def _other_theta() -> Row:
    """Every theta with Q* <= Phi theta <= E V* is optimal; takes the one farthest above Q*, with one state, two actions."""
    e = Enumerated.of(two_actions())
    values, _ = optimal(e)
    Phi = as_dense(e.Phi)
    A, b = np.vstack([Phi, -Phi]), np.concatenate([e.E @ values.V, -values.Q])
    theta = linprog(-Phi.sum(axis=0), A_ub=A, b_ub=b + 1e-12, bounds=(None, None)).x
    most = float(np.abs(Phi @ theta - values.Q).max())
    claim = "theta of the dual is not unique: an optimal one is off Q* by (against the paper)"
    return above(claim, APPENDIX, 0.1, most)


@group("fn:realizability", "complete under maxima")
def footnote() -> Iterable[Row]:
    """The footnote of appendix A: completeness under the Bellman optimality operator is enough for the dual half."""
    e = Enumerated.of(optimality_complete_instance())
    values, star = optimal(e)
    label = "fn:realizability"
    yield above("complete under maxima: P is off every Phi W by", label, 0.5, linear_fit(e).transition_error)
    yield at_most(
        "complete under maxima: ... and max-backups are off the features by", label, 1e-9, _closed(e)
    )
    found = solve(e, "core", "dual")
    yield equal(
        "complete under maxima: the core dual has the optimal value", label, value(e, star), found.value, 1e-6
    )
    yield at_most("complete under maxima: its V is V*", label, 1e-5, float(np.abs(found.V - values.V).max()))


def _closed(e: Enumerated, n: int = 200) -> float:
    """The largest distance of r + gamma P max_a Phi theta from the span of Phi, over random theta."""
    Phi, rng = as_dense(e.Phi), np.random.default_rng(0)
    project = Phi @ np.linalg.pinv(Phi)
    backups = [
        e.r + e.discount * (e.P @ (Phi @ theta).reshape(e.X, e.A).max(axis=1))
        for theta in 10 * rng.normal(size=(n, e.d))
    ]
    return max(float(np.abs(y - project @ y).max()) for y in backups)


@group("section 4", "the game")
def saddle() -> Iterable[Row]:
    """Section 4: the Lagrangian over the compact sets, which is what Algorithm 1 approaches.

    Of a linear MDP the value of the game is at most v*, by (theta*, V*), and at least v* - 2 D <mu*, eps_core>, by
    (lambda*, mu*).
    """
    e = Enumerated.of(linear_instance())
    best = value(e, optimal(e)[1])
    found = saddle_point(e, 10.0)
    yield equal(
        "the game over the compact sets has the LP's value (exact core)", "section 4", best, found.value, 1e-6
    )
    few = replace(e, rows=e.rows[:-1])
    mu, D = occupancy(e, optimal(e)[1]), 10.0
    slack = 2 * D * float(mu @ core_errors(few)[1])
    lost = best - saddle_point(few, D).value
    yield at_most("the game loses at most 2 D <mu*, eps_core> (inexact core)", "section 4", slack, lost)
    yield above("the game ... and it does lose", "section 4", 0.01, lost)
