"""`OptimisticPrimalDual`'s kernels in compiled code: expected features of next states, and one epoch of optimistic steps.

All sums are written as loops, whose order a compiler may not change, so that the same seed gives the same bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from ...base import FloatArray
from ...core import into
from ...features import add, softmax

STEP = 0.5  # optimistic steps converge below 1/sqrt(3) over the Lipschitz constant, which is 1 in our norms


class Game(NamedTuple):
    """The game: max over lam in the simplex, min over z in a ball, of <lam, r - M z> + <q, z>."""

    M: FloatArray  # [m, k] Phi~ W - gamma F_pi W
    MT: FloatArray  # [k, m] its transpose, for sums along rows
    r: FloatArray  # [m]
    q: FloatArray  # [k] (1 - gamma) times the features of the start
    radius: float  # of z's ball


@njit(cache=True, nogil=True)
def expected(phi, first, n, Theta, W, p, f, out):
    """Write the mean of sum_a pi(a|y) phi(y, a) over rows first to first + n - 1 into `out [k]`, in coordinates."""
    f[:] = 0.0
    for i in range(first, first + n):
        softmax(phi, i, Theta, 1.0, p)
        for a in range(p.shape[0]):
            if p[a] > 0.0:  # a forbidden action has no features
                add(phi, i, a, p[a] / n, f)
    into(f, W, out)


@njit(cache=True, nogil=True)
def observe(phi, n, Theta, W, weight, p, f, row, F):
    """Move F `[m, k]` by `weight` towards the expected features of n next states of each core pair."""
    for j in range(F.shape[0]):
        expected(phi, j * n, n, Theta, W, p, f, row)
        for l in range(F.shape[1]):
            F[j, l] += weight * (row[l] - F[j, l])


@njit(cache=True, nogil=True)
def set_game(U, F, gamma, M, MT):
    """Set M = U - gamma F and its transpose; return the largest sum of absolute values in a row."""
    largest = 0.0
    for j in range(M.shape[0]):
        total = 0.0
        for l in range(M.shape[1]):
            M[j, l] = U[j, l] - gamma * F[j, l]
            MT[l, j] = M[j, l]
            total += abs(M[j, l])
        largest = max(largest, total)
    return largest


@njit(cache=True, nogil=True)
def gradients(game, z, lam, c, delta, flow):
    """Set c = q - M' lam, delta = r - M z, and flow = |M|' lam, the total flow in and out of each coordinate."""
    m, k = game.M.shape
    c[:] = game.q
    flow[:] = 0.0
    for j in range(m):
        for l in range(k):
            x = lam[j] * game.M[j, l]
            c[l] -= x
            flow[l] += abs(x)
    delta[:] = game.r
    for l in range(k):
        for j in range(m):
            delta[j] -= z[l] * game.MT[l, j]


@njit(cache=True, nogil=True)
def follow(game, lam):
    """Set lam to (1 - gamma) start + gamma F' lam, by adding c to it; for coordinates that are core pairs."""
    m = lam.shape[0]
    c, unused, flow = np.empty(m), np.empty(m), np.empty(m)
    gradients(game, np.zeros(m), lam, c, unused, flow)
    total = 0.0
    for j in range(m):
        lam[j] = max(lam[j] + c[j], 1e-300)
        total += lam[j]
    lam /= total


@njit(cache=True, nogil=True)
def epoch(game, z, lam, steps, step, s):
    """Take `steps` optimistic steps from (z, lam), and replace both by the means of the iterates.

    The step size of z is step * s divided by the flow through each coordinate, that of log lam is step / s. In these norms
    the game's Lipschitz constant is the square root of M's largest row sum, by which `step` has been divided. Within an
    epoch the flows may only grow: if step sizes could grow again, so would the rotation of the two players.
    """
    m, k = game.M.shape
    c, delta, flow, most = np.empty(k), np.empty(m), np.empty(k), game.q.copy()
    x, log_lam, p = z.copy(), np.log(lam), lam.copy()
    gradients(game, x, p, c, delta, flow)
    old_c, old_delta = c.copy(), delta.copy()
    z[:] = 0.0
    lam[:] = 0.0
    for _ in range(steps):
        gradients(game, x, p, c, delta, flow)
        for l in range(k):
            most[l] = max(abs(most[l]), flow[l], 1e-300)
            x[l] -= step * s * (2.0 * c[l] - old_c[l]) / most[l]
        _project(x, game.radius)
        for j in range(m):
            log_lam[j] += step / s * (2.0 * delta[j] - old_delta[j])
        _normalise(log_lam, p)
        z += x
        lam += p
        old_c[:] = c
        old_delta[:] = delta
    z /= steps
    for j in range(m):
        lam[j] = max(lam[j] / steps, 1e-300)


@njit(cache=True, nogil=True)
def _project(x, radius):
    norm2 = 0.0
    for l in range(x.shape[0]):
        norm2 += x[l] * x[l]
    if norm2 > radius * radius:
        x *= radius / math.sqrt(norm2)


@njit(cache=True, nogil=True)
def _normalise(log_lam, p):
    """Set p to the distribution whose logarithm is log_lam up to a constant, and shift log_lam to maximum 0."""
    log_lam -= np.max(log_lam)
    total = 0.0
    for j in range(p.shape[0]):
        p[j] = math.exp(log_lam[j])
        total += p[j]
    p /= total
