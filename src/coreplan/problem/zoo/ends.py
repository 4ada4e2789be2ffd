"""A feature of its own for the states in which a game has ended, added after the features of another map."""

from __future__ import annotations

import numpy as np
from numba import njit

from ...base import IntArray, States
from ...features import CompiledFeatures, Formula


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


@njit(cache=True, nogil=True)
def shared_feature(out, n, coordinate):
    """Set the sparse features of state n to the unit vector of `coordinate`, the same one for every action."""
    index, weight = out
    for a in range(index.shape[1]):
        for i in range(index.shape[2]):
            weight[n, a, i] = 0.0
        index[n, a, 0] = coordinate
        weight[n, a, 0] = 1.0


def ended_pairs(states: States, actions: IntArray, n_actions: int) -> tuple[States, IntArray]:
    """Core pairs of living states `[m, D]`, with a last column 0, and the ended state (0, ..., 0, 1) with every action."""
    last = np.append(np.zeros(states.shape[1]), 1.0)
    states = np.vstack([np.pad(states, ((0, 0), (0, 1))), np.repeat(last[None], n_actions, axis=0)])
    return states, np.append(actions, np.arange(n_actions))


def own_end(base: Formula, column: int, above: float, feature: int) -> Formula:
    """The description of features that are `own_feature(feature)` where a column exceeds a number, and `base` elsewhere."""
    end = {"kind": "own_end", "column": column, "above": above, "feature": feature, "base": base["base"]}
    return base | {"base": end}


def shared_end(base: Formula, column: int, above: float, coordinate: int) -> Formula:
    """The description of features that are `shared_feature(coordinate)` where a column exceeds a number, else `base`."""
    return {"kind": "shared_end", "column": column, "above": 0.0, "coordinate": coordinate, "base": base}


def with_end(
    base: CompiledFeatures, kernel: object, *, shared: bool, columns: int | None = None
) -> CompiledFeatures:
    """`base` for states with a last column that is 1 at the end, and a feature for the end: `kernel` computes both.

    The end has one feature for all actions (`shared`) or one per action; then a core set of the base gets one pair for each.
    `columns` is the width of a state with that column, where it is not the base's and one more.
    """
    A, carried = base.n_actions, base.core
    columns = columns or base.state_shape[0] + 1
    core = None if carried is None or shared else lambda: ended_pairs(*carried(), A)
    return CompiledFeatures(
        kernel, A, base.dimension + (1 if shared else A), base.radius, nonzeros=base.nonzeros,  # type: ignore[arg-type]
        data=base.data, name=f"{base.name} with an end", state_shape=(columns,), state_dtype=np.float64, core=core,
        ends=True,
    )  # fmt: skip
