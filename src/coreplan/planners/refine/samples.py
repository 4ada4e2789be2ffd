"""The samples of `Refine`: what each of them says at the present tree, and which pairs should be sampled again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...base import FloatArray, IntArray
from ...features import Box, Tree
from .growth import Steps, q_values


class Samples(NamedTuple):
    """Samples in the order of their pairs: pair j has those from first[j] to first[j + 1]."""

    first: IntArray  # [m + 1]
    R: FloatArray  # [S], discounted rewards while the action was held
    g: FloatArray  # [S], gamma^steps
    y: FloatArray  # [S, D], where the sample ends
    end: NDArray[np.bool_]  # [S]


def moves(box: Box, x: FloatArray, y: FloatArray) -> FloatArray:
    """The moves `[n, D]` from states x to y, as parts of the box; the short way round where a coordinate is periodic."""
    moved = (y - x) / box.width
    return np.where(box.periodic, moved - np.rint(moved), moved)


def moved_parts(box: Box, x: FloatArray, y: FloatArray) -> FloatArray:
    """How far states have moved from x to y in each coordinate, `[n, D]`, as a part of the box."""
    return np.abs(moves(box, x, y))


def cut(
    pair: IntArray, first: IntArray, R: FloatArray, y: FloatArray, end: NDArray[np.bool_], *, x: FloatArray,
    far: FloatArray, box: Box, discount: float, hold: int, n_pairs: int,
) -> Samples:  # fmt: skip
    """The stored samples, each ended where it has moved so `far [D]` from its node `x [S, D]`, or after `hold` steps."""
    W = len(R)
    lengths = np.diff(np.append(first, W))
    k = np.arange(W) - np.repeat(first, lengths)
    moved = moved_parts(box, np.repeat(x, lengths, axis=0), y)
    over = (moved >= far).any(axis=1) | (k + 1 >= hold)
    stop = np.minimum(np.minimum.reduceat(np.where(over, np.arange(W), W), first), first + lengths - 1)
    order = np.argsort(pair, kind="stable")
    stop = stop[order]
    return Samples(
        first=np.searchsorted(pair[order], np.arange(n_pairs + 1)), R=R[stop], g=np.power(discount, k[stop] + 1.0),
        y=y[stop], end=end[stop],
    )  # fmt: skip


def doubtful_pairs(
    tree: Tree, theta: FloatArray, samples: Samples, steps: Steps, discount: float, end_value: float
) -> tuple[IntArray, FloatArray, float]:
    """Pairs on the path, those first whose sampling error matters most; their scores; and the sum of those errors.

    A pair's error is u s / sqrt(n): u is how much of the path rests on it, s the standard deviation of its n targets, shrunk
    towards that of all pairs on the path (or, where each has one sample, the Bellman error of the steps).
    """
    A = len(theta) // len(tree.keys)
    node, weight, _ = tree.places(steps.x)
    visited = np.bincount(
        (node * A + steps.action[:, None]).ravel(), weights=(steps.weight[:, None] * weight).ravel(), minlength=len(theta)
    )  # fmt: skip
    n = np.diff(samples.first)
    V = np.where(samples.end, end_value, q_values(tree, theta, samples.y).max(axis=1))
    target = samples.R + samples.g * V
    owner = np.repeat(np.arange(len(n)), n)
    mean = np.bincount(owner, weights=target) / n
    squares = np.bincount(owner, weights=(target - mean[owner]) ** 2)
    pairs = np.flatnonzero(visited > 0)
    u = visited[pairs]
    known = float((u * (n[pairs] - 1)).sum())
    if known > 0:
        common = float((u * squares[pairs]).sum()) / known
    else:
        after = np.where(steps.end, end_value, q_values(tree, theta, steps.y).max(axis=1))
        Q = np.take_along_axis(q_values(tree, theta, steps.x), steps.action[:, None], axis=1)[:, 0]
        common = float(np.mean((steps.reward + discount * after - Q) ** 2))
    s = np.sqrt((squares[pairs] + common) / n[pairs])  # one more sample, as uncertain as all
    error = u * s / np.sqrt(n[pairs])
    order = np.argsort(-error, kind="stable")
    return pairs[order], error[order], float(error.sum())
