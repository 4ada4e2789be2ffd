"""A feature of its own for the states that end a game, behind those of any other map."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def own_feature(out, n, base):
    """Make the sparse row n the unit vector of base feature number `base`, one copy an action."""
    index, weight = out
    A = index.shape[1]
    for a in range(A):
        for i in range(index.shape[2]):
            weight[n, a, i] = 0.0
        index[n, a, 0] = base * A + a
        weight[n, a, 0] = 1.0
