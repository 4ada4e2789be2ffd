"""The frontier: next states that were seen and whose features the samples do not speak of.

The leverage of a feature, phi' (n G + g I)^-1 phi, is about one over the number of times that its direction was
sampled, and above 1 where it hardly was. It only falls as samples come in, so that old values are upper bounds.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..problem import Sparse
from ..problem.features import UNAVAILABLE
from ..problem.model import FloatArray, IntArray
from .lspi import quadratic

STALE = 0.5  # bounds below this are left as they are: g moves a little from round to round, not by a factor of two


@njit(cache=True, nogil=True)
def _leverage(phi, S, rows, out):
    """The largest phi(y_n, a)' S phi(y_n, a) over the actions, for the rows asked for."""
    for i in range(rows.shape[0]):
        n = rows[i]
        out[i] = 0.0
        for a in range(phi.index.shape[1]):
            if phi.weight[n, a, 0] != UNAVAILABLE:
                out[i] = max(out[i], quadratic(phi.index[n, a], phi.weight[n, a], S))


def open_places(next_phi: Sparse, S: FloatArray, known: FloatArray, measured: int) -> FloatArray:
    """Leverage at the next states, `[N]`: computed where it is new (from row `measured` on) or was large."""
    bounds = known.copy()
    rows = np.flatnonzero((np.arange(len(known)) >= measured) | (known >= STALE))
    out = np.empty(len(rows))
    _leverage(next_phi, S, rows, out)
    bounds[rows] = out
    return bounds


def pick(next_phi: Sparse, S: FloatArray, bounds: FloatArray, m: int, most: int = 2000) -> IntArray:
    """m next states of large leverage that are far from one another: each pick counts as sampled for the next."""
    rows = np.argsort(-bounds, kind="stable")[:most]
    S, picks, leverage = S.copy(), [], np.empty(len(rows))
    for _ in range(min(m, len(rows))):
        _leverage(next_phi, S, rows, leverage)
        best = rows[leverage.argmax()]
        picks.append(best)
        for a in range(next_phi.index.shape[1]):  # every action will be queried there
            if next_phi.weight[best, a, 0] == UNAVAILABLE:
                continue
            phi = np.zeros(len(S))
            np.add.at(phi, next_phi.index[best, a], next_phi.weight[best, a])  # padding may repeat an index
            u = S @ phi
            S -= np.outer(u, u) / (1.0 + phi @ u)  # Sherman and Morrison
    return np.array(picks, dtype=np.int64)
