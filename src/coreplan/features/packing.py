"""Features of many states in little memory: those of one action, where they determine those of the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..base import FloatArray, IntArray
from .batch import Phi, Sparse, as_sparse, is_sparse, n_actions


class Packed(NamedTuple):
    """Features for storage and compiled code: phi(x_n, a) = sum_l weight[n, b, l] e_{index[n, b, l] + a step[n]}.

    Most maps give every action the same weights, at coordinates that are next to each other (step 1) or the same (step 0).
    Then only those of action 0 are stored: B = 1 and b = 0. Otherwise B = A, b = a and all steps are 0.
    """

    index: IntArray  # type: ignore[assignment]  # [n, B, k]; hides tuple.index on purpose
    weight: FloatArray  # [n, B, k]
    step: IntArray  # [n]
    n_actions: int


@njit(cache=True, nogil=True)
def _find_steps(index, weight, step):
    """Fill `step [n]` so that the features of action 0 determine those of the others; returns whether they do."""
    N, A, k = weight.shape
    for n in range(N):
        by = index[n, 1, 0] - index[n, 0, 0]
        if not 0 <= by <= 1:
            return False
        step[n] = by
        for a in range(A):
            for i in range(k):
                if weight[n, a, i] != weight[n, 0, i] or index[n, a, i] != index[n, 0, i] + a * by:
                    return False
    return True


def packed(phi: Phi) -> Packed:
    """A batch `[n, A, ...]` in the packed form; B = 1 if that is possible."""
    index, weight = as_sparse(phi)
    step = np.zeros(len(weight), dtype=np.int8)
    if is_sparse(phi) and len(weight) and n_actions(phi) > 1 and _find_steps(index, weight, step):
        return Packed(index[:, :1], weight[:, :1], step, n_actions(phi))
    return Packed(index, weight, np.zeros(len(weight), dtype=np.int8), n_actions(phi))


def take_packed(phi: Packed, which: IntArray) -> Packed:
    """The features of the states `which`."""
    return phi._replace(index=phi.index[which], weight=phi.weight[which], step=phi.step[which])


def unpacked(phi: Packed) -> Sparse:
    """The inverse of `packed`: Sparse `[n, A, k]`."""
    if phi.weight.shape[1] == phi.n_actions:
        return Sparse(phi.index, phi.weight)
    shift = np.arange(phi.n_actions)[:, None] * phi.step[:, None, None]  # [n, A, 1]
    return Sparse((phi.index + shift).astype(phi.index.dtype), np.repeat(phi.weight, phi.n_actions, axis=1))
