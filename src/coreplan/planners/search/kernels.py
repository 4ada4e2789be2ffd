"""Compiled code of `Search`: the actions of many candidates side by side, and how far features differ among actions."""

from __future__ import annotations

from numba import njit

from ...features import add, choose, is_available, n_actions


@njit(cache=True, nogil=True)
def act(phi, row, who, thetas, scales, u, p, actions):
    """The action of each chain j: at state `row[j]` of the batch, by candidate `who[j]` (`thetas [N, d]`, `scales [N]`).

    `u [c]` are uniforms, which only a finite scale needs; `p [A]` is scratch space; writes `actions [c]`.
    """
    for j in range(row.shape[0]):
        actions[j] = choose(phi, row[j], thetas[who[j]], scales[who[j]], u[j], p)


@njit(cache=True, nogil=True)
def add_spread(phi, rows, centred, spread):
    """Add to `spread [d, d]`, for each of the states `rows`, the covariance of phi(x, a) over its available actions.

    `centred [A + 1, d]` is scratch space.
    """
    A, d = n_actions(phi), spread.shape[0]
    for n in rows:
        centred[:] = 0.0
        number = 0
        for a in range(A):
            if is_available(phi, n, a):
                add(phi, n, a, 1.0, centred[number])
                number += 1
        for b in range(number):
            for i in range(d):
                centred[A, i] += centred[b, i] / number
        for b in range(number):
            for i in range(d):
                centred[b, i] -= centred[A, i]
            for i in range(d):
                w = centred[b, i] / number
                if w != 0.0:
                    for k in range(d):
                        spread[i, k] += w * centred[b, k]
