"""A feature of its own for the states in which a game has ended, added after the features of another map."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def own_feature(out, n, base):
    """Set the sparse features of state n to the unit vector of base feature number `base`, one copy per action."""
    index, weight = out
    A = index.shape[1]
    for a in range(A):
        for i in range(index.shape[2]):
            weight[n, a, i] = 0.0
        index[n, a, 0] = base * A + a
        weight[n, a, 0] = 1.0
