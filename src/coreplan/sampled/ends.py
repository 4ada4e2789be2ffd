"""Ends of episodes, noticed from samples alone.

An *end* is a state that no action leaves. It is recognised by its features f, which are equal for all actions: every sampled
pair with features f led to a state whose features are f again, for every action, and paid the same reward r. Its value
r / (1 - gamma) is then known exactly, and a fit need not estimate it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ..base import FloatArray, IntArray
from ..features import UNAVAILABLE, Sparse

LEAST = 30  # samples at an end before it counts as one: a state that is left one time in ten passes 4% of the time
MOST = 64  # ends; of more, those that were sampled most often


class Ends(NamedTuple):
    """The ends that were noticed, by their features and rewards."""

    index: IntArray  # type: ignore[assignment]  # [e, K]; hides tuple.index on purpose
    weight: FloatArray  # [e, K]
    rewards: FloatArray  # [e]


class Exits(NamedTuple):
    """What the ends make of N samples."""

    inside: Any  # bool [N]: taken at an end
    ended: Any  # bool [N]: the next state is an end
    rewards: FloatArray  # [N]: the reward at that end; 0 if the next state is none


@njit(cache=True, nogil=True)
def _equal(index, weight, f_index, f_weight):
    same = True
    for i in range(f_index.shape[0]):
        same = same and index[i] == f_index[i] and weight[i] == f_weight[i]
        if not same:
            break
    return same


@njit(cache=True, nogil=True)
def _is(index, weight, f_index, f_weight):
    """Whether every available action of a state, features `[A, K]`, has the features f `[K]`."""
    some = False
    for a in range(index.shape[0]):
        if weight[a, 0] != UNAVAILABLE:
            some = True
            if not _equal(index[a], weight[a], f_index, f_weight):
                return False
    return some


@njit(cache=True, nogil=True)
def _stays(pair, next_phi, out):
    for n in range(out.shape[0]):
        out[n] = _is(next_phi.index[n], next_phi.weight[n], pair.index[n], pair.weight[n])


@njit(cache=True, nogil=True)
def _is_left(pair, stays, rewards, f_index, f_weight, reward):
    """Whether a pair with the features f led elsewhere, or paid another reward."""
    for n in range(stays.shape[0]):
        if _equal(pair.index[n], pair.weight[n], f_index, f_weight) and (
            not stays[n] or rewards[n] != reward
        ):
            return True
    return False


@njit(cache=True, nogil=True)
def _matched(phi, index, weight, out):
    """The number of the end that each state, features `[n, A, K]`, is; -1 if it is none."""
    for n in range(out.shape[0]):
        out[n] = -1
        for e in range(index.shape[0]):
            if _is(phi.index[n], phi.weight[n], index[e], weight[e]):
                out[n] = e
                break


def noticed(pair: Sparse, next_phi: Sparse, rewards: FloatArray) -> Ends:
    """The ends among N samples: features `[N, K]` of the pairs, `[N, A, K]` of the next states, and rewards `[N]`."""
    stays = np.empty(len(rewards), dtype=np.bool_)
    _stays(pair, next_phi, stays)
    rows = np.flatnonzero(stays)
    keys = np.concatenate([pair.index[rows].astype(np.float64), pair.weight[rows]], axis=1)
    _, first, count = np.unique(keys, axis=0, return_index=True, return_counts=True)
    first = rows[first[np.argsort(-count, kind="stable")][: min(MOST, int((count >= LEAST).sum()))]]
    left = [_is_left(pair, stays, rewards, pair.index[n], pair.weight[n], rewards[n]) for n in first]
    kept = first[~np.array(left, dtype=np.bool_)]
    return Ends(pair.index[kept], pair.weight[kept], rewards[kept])


def which_end(phi: Sparse, ends: Ends) -> IntArray:
    """The number of the end that each state is, `[n]`; -1 for a state that is none. Features `[n, A, K]`."""
    out = np.full(len(phi.weight), -1, dtype=np.int64)
    if len(ends.rewards):
        _matched(phi, ends.index, ends.weight, out)
    return out


def exits(pair: Sparse, next_phi: Sparse, ends: Ends) -> Exits:
    """Which samples were taken at an end, and which lead to one. If all were taken at ends, none count as such."""
    inside = which_end(Sparse(pair.index[:, None], pair.weight[:, None]), ends) >= 0
    to = which_end(next_phi, ends)
    if inside.all():
        inside, to = np.zeros_like(inside), np.full_like(to, -1)
    rewards = np.zeros(len(to))
    rewards[to >= 0] = ends.rewards[to[to >= 0]]
    return Exits(inside, to >= 0, rewards)


def completed(theta: FloatArray, ends: Ends, free: Any, discount: float) -> None:
    """Give `theta [d + 1]` the known values of the ends, in place, as far as the coordinates that no fit uses allow it.

    `free [d + 1]` says which coordinates these are: an end that has a feature of its own leaves it to no other state.
    """
    for index, weight, reward in zip(*ends, strict=True):
        own = free[index] & (weight != 0.0)
        if own.any():
            lack = reward / (1.0 - discount) - weight @ theta[index]
            theta[index[own]] += lack * weight[own] / (weight[own] @ weight[own])
