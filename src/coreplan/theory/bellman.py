"""The inherent Bellman error (`def:IBE`) as an interval.

It is the largest value, over policies and over theta' in the ball, of a convex function: how far a backup is from the
features. An ascent finds lower bounds. Upper bounds come from a relaxation. With a centre c(x) for every state's features,

    M^pi Phi theta' = C theta' + e,   |e(x)| <= D rho(x),   rho(x) = max_a |phi(x, a) - c(x)|

whatever the policy, so that a backup is r + gamma P C theta' + gamma P e, and theta = vartheta + gamma (G theta' + W e) is
a fit of it for any vartheta, G and W. Its error at z is at most

    E_z = |r - Phi vartheta|_z + gamma D |P C - Phi G|_z + gamma D sum_x rho(x) |P - Phi W|_zx

(the middle one the Euclidean norm of a row). With the ball, theta is shrunk into it where its norm, at most N, exceeds D:
that moves Phi theta at z by at most (1 - D/N) F_z, F_z being the largest |Phi theta|_z.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from ..base import FloatArray, as_positive
from .definitions import as_dense, best_fit
from .tables import Enumerated

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the least-squares fits
PAIRWISE = 3000  # the most states for which a bound is computed from all pairs of them


class Interval(NamedTuple):
    """Bounds on a number: it lies between `low` and `high`."""

    low: float
    high: float


def inherent_bellman_error(
    e: Enumerated, D: float, *, ball: bool = True, starts: int = 6, seed: int = 0
) -> Interval:
    """The inherent Bellman error (IBE, `def:IBE`) as an interval; with `ball=False` theta (not theta') may leave the ball.

    For a linear MDP the IBE is zero without the ball, but in general not with it: the backup of a large theta' can
    leave the ball. With one state, unit features and two actions, theta' = D e_1 is backed up to a vector of norm
    about gamma D sqrt(2), which is outside for every gamma above 1/sqrt(2), however large D is.
    """
    D = as_positive("inherent_bellman_error", D=D)
    high = upper(e, D, ball)
    return Interval(min(ascent(e, D, ball, starts, seed), high), high)


# From above.


def upper(e: Enumerated, D: float, ball: bool) -> float:
    """An upper bound: the least over centres, and over shares of the least-squares fits."""
    fits = Fits.of(e)
    phi = fits.Phi.reshape(e.X, e.A, e.d)
    centres = [np.zeros((e.X, e.d)), phi.mean(axis=1), (phi.max(axis=1) + phi.min(axis=1)) / 2]
    rhos = [np.linalg.norm(phi - C[:, None], axis=2).max(axis=1) for C in centres]  # [X] each
    of_W = [np.abs(fits.P - c * fits.Phi_W) @ np.array(rhos).T for c in SHARES]  # [Z, number of centres] each
    return min(
        _least(e, fits, C, rho, [all_of[:, i] for all_of in of_W], own, D, ball)
        for i, (C, rho) in enumerate(zip(centres, rhos, strict=True))
        for own in (True, False)
    )


class Fits(NamedTuple):
    """The least-squares fits of r and P, and how large things can be."""

    Phi: FloatArray  # [Z, d]
    P: FloatArray  # [Z, X]
    vartheta: FloatArray  # [d]
    W: FloatArray  # [d, X]
    Phi_W: FloatArray  # [Z, X]
    pinv: FloatArray  # [d, Z]
    sizes: FloatArray  # [X] max_a |phi(x, a)|
    together: float  # |W M^pi Phi| is at most this, for every pi

    @classmethod
    def of(cls, e: Enumerated) -> Fits:
        Phi, P = as_dense(e.Phi), as_dense(e.P)
        pinv: Any = np.linalg.pinv(Phi)
        W = pinv @ P
        sizes: Any = np.linalg.norm(Phi.reshape(e.X, e.A, e.d), axis=2).max(axis=1)
        widest = min(_norm(Phi), float(np.linalg.norm(sizes)))  # |M^pi Phi|
        return cls(Phi, P, pinv @ e.r, W, Phi @ W, pinv, sizes, _norm(W) * widest)


def _least(
    e: Enumerated, fits: Fits, C: FloatArray, rho: FloatArray, of_W: list[FloatArray], own: bool, D: float, ball: bool
) -> float:  # fmt: skip
    """The least bound with these centres. With `own`, G is a fit of P C by itself, else it is W C."""
    gamma_D, PC = e.discount * D, fits.P @ C
    G = fits.pinv @ PC if own else fits.W @ C
    fitted_r, fitted_G = fits.Phi @ fits.vartheta, fits.Phi @ G
    of_G = [np.linalg.norm(PC - b * fitted_G, axis=1) for b in SHARES]  # [Z] each
    most = np.abs(e.r) + gamma_D * (fits.P @ fits.sizes)  # of a backup, [Z]
    largest_G, largest_W = _norm(G), _largest_sum(fits.W * rho)
    high = np.inf
    for a, (b, E_G), (c, E_W) in itertools.product(
        (0.0, 1.0), zip(SHARES, of_G, strict=True), zip(SHARES, of_W, strict=True)
    ):
        error = np.abs(e.r - a * fitted_r) + gamma_D * (E_G + E_W)
        if ball:
            moved = b * largest_G + c * largest_W
            if b == c and not own:
                moved = min(moved, b * fits.together)
            N = a * float(np.linalg.norm(fits.vartheta)) + gamma_D * moved
            F = most + error  # Phi theta is the backup, but for the error
            error = error + max(0.0, 1.0 - D / max(N, D)) * F
        high = min(high, float(error.max()))
    return high


def _norm(A: FloatArray) -> float:
    """The largest singular value."""
    return float(np.linalg.norm(A, 2))


def _largest_sum(W: FloatArray) -> float:
    """At least |W e| for every e in [-1, 1]^X: |W e|^2 = sum_xy e_x e_y <W_x, W_y> <= sum_xy |<W_x, W_y>|."""
    if W.shape[1] > PAIRWISE:
        return float(np.linalg.norm(W, axis=0).sum())
    return float(np.sqrt(np.abs(W.T @ W).sum()))


# From below.


def ascent(e: Enumerated, D: float, ball: bool, starts: int, seed: int) -> float:
    """Ascent over (pi, theta').

    For fixed multipliers w of the inner fit, <w, r + gamma P M^pi Phi theta'> is linear in theta', and largest at the pi
    that picks the best or worst action according to the sign of (P' w)(x).
    """
    rng = np.random.default_rng(seed)
    low = 0.0
    for i, start in enumerate(_starts(e, starts, rng)):
        theta = D * start / np.linalg.norm(start)
        # Half of the starts with a random policy: features may be closed under maxima and under nothing else.
        greedy = (e.Phi @ theta).reshape(e.X, e.A).argmax(axis=1)
        choice = rng.integers(0, e.A, e.X) if i % 2 else greedy
        here = -1.0
        for _ in range(6):
            pi = np.eye(e.A)[choice]
            y = e.r + e.discount * (e.P @ (e.M(pi) @ (e.Phi @ theta)))
            inner = best_fit(e.Phi, y, D if ball else None)
            low = max(low, inner.low)
            if inner.low <= here + 1e-12:
                break
            here = inner.low
            push = e.P.T @ inner.weights  # [X]
            Q = (e.Phi @ theta).reshape(e.X, e.A)
            choice = np.where(push >= 0, Q.argmax(axis=1), Q.argmin(axis=1))
            direction = e.Phi.T @ (e.M(np.eye(e.A)[choice]).T @ push)
            norm = float(np.linalg.norm(direction))
            if norm > 1e-14:
                theta = D * direction / norm
    return low


def _starts(e: Enumerated, n: int, rng: np.random.Generator) -> list[FloatArray]:
    """Directions of theta' to start from: the constant function, large coordinates, random ones, and the farthest backup."""
    Phi = as_dense(e.Phi)
    constant = np.asarray(np.linalg.lstsq(Phi, np.ones(e.Z), rcond=None)[0], dtype=np.float64)
    coordinates = np.argsort(-np.abs(Phi).sum(axis=0))[:n]
    starts = [
        constant,
        -constant,
        *np.eye(e.d)[coordinates],
        *rng.normal(size=(n, e.d)),
        _farthest(e, constant),
    ]
    return [s for s in starts if np.linalg.norm(s) > 0]


def _farthest(e: Enumerated, theta: FloatArray, steps: int = 20) -> FloatArray:
    """A theta' whose backup, fitted by W M^pi Phi theta', has a large norm for some pi: power iteration over both."""
    W = np.linalg.pinv(as_dense(e.Phi)) @ as_dense(e.P)
    for _ in range(steps):
        Q = (e.Phi @ theta).reshape(e.X, e.A)
        push = W.T @ (W @ Q.max(axis=1))  # [X]
        choice = np.where(push >= 0, Q.argmax(axis=1), Q.argmin(axis=1))
        direction = e.Phi.T @ (e.M(np.eye(e.A)[choice]).T @ push)
        norm = float(np.linalg.norm(direction))
        if norm <= 1e-14:
            break
        theta = direction / norm
    return theta
