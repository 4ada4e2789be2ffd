"""What the page needs to show what a policy does: its numbers, the coordinates of a state, core pairs and trajectories.

Where the features are built in, the page itself computes the policy at any state. Else, and where the numbers would make
the page too large, scores are computed here on grids over pairs of coordinates.
"""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np

from ..base import CoreplanError, FloatArray, States
from ..core import CoreSet
from ..export import policy_spec
from ..features import bounds_of, has_terminal
from ..policy import SoftmaxPolicy
from ..problem import Problem
from ..simulate import Simulator
from .facts import Facts
from .packing import packed

_LARGEST = 1_100_000  # bytes of an exported policy in the page
_GRID = 250_000  # numbers of all grids together
_FINEST = 41  # cells of one axis of a grid
_PAIRS = 2_000  # core pairs that are drawn
_STATES = 20_000  # of a table that is looked at
_STARTS = 64  # initial states that are looked at
FITTED = frozenset(  # planners whose scores are estimated Q-values: see `SoftmaxPolicy.q_values`
    ("plug-in", "sampled-lp", "refine", "core-mirror", "grow", "lspi", "fitted-q", "q-learning")
)


def explorer(facts: Facts) -> tuple[dict[str, Any] | None, str]:
    """The data, and what is to be said about them; None if the policy cannot act here."""
    policy, problem = facts.policy, facts.problem
    if policy is None:
        return _core_alone(facts), "There is no policy to look at."
    if problem is None or policy.features is None:
        return _core_alone(facts), (
            "The features of this policy are not known here, so that it cannot act. Give its problem: "
            f"coreplan report {facts.path} --problem FILE.py:NAME."
        )
    try:
        starts = _typical(facts, problem)
    except CoreplanError as error:
        return None, f"The simulator gave no initial state: {error}"
    if starts is None:
        return None, "Which states there are is not known yet."
    if starts.dtype.kind not in "fiub" or not np.isfinite(starts).all():
        return None, "States are not finite numbers, so that there is nothing to draw."
    axes = _axes(facts, problem, starts)
    spec, why = _spec(policy, problem)
    data: dict[str, Any] = {
        "actions": facts.names("action", problem.n_actions),
        "axes": axes,
        "scale": policy.scale,
        "score": "Q-value" if facts.planner in FITTED else "score",
        "one": starts.ndim == 1,
        "spec": spec,
        "core": _core(facts),
        "sample": [] if facts.sample is None else [t.living for t in facts.sample.trajectories],
    }
    if spec is None and facts.running:
        return None, f"{why} It is shown when the run has ended."
    if spec is None:
        try:
            data["grids"] = _grids(policy, starts, axes)
        except CoreplanError as error:  # states of a user's own that no grid can reach
            return None, f"{why} And they cannot be computed on a grid of states: {error}"
    return data, why


def _core_alone(facts: Facts) -> dict[str, Any] | None:
    """What the picture of the core pairs needs, where no policy can act; None if there are none to draw."""
    core, problem = facts.core, facts.problem
    if core is None or problem is None or core.states.dtype.kind not in "fiub":
        return None
    axes = _axes(facts, problem, core.states)
    return {"actions": facts.names("action", problem.n_actions), "axes": axes, "core": _core(facts)}


def _spec(policy: SoftmaxPolicy, problem: Problem) -> tuple[dict[str, Any] | None, str]:
    """The policy as the page computes it; or None, and why."""
    try:
        spec = policy_spec(policy, problem)
    except CoreplanError as error:
        return None, f"The page cannot compute this policy: {error} What is shown was computed on a grid."
    if spec["mask"]:
        return None, (
            "Which actions a state allows is decided by a function of your own, which the page does not have. What is shown "
            "was computed on a grid of states."
        )
    spec = packed(spec)
    if len(json.dumps(spec)) > _LARGEST:
        return None, (
            f"With {len(policy.theta):,} numbers the policy is too large for this page. What is shown was computed on a "
            "grid of states."
        )
    return spec, ""


def _axes(facts: Facts, problem: Problem, starts: States) -> list[dict[str, Any]]:
    """The coordinates of a state: name, range, whether they are whole, and a typical value."""
    seen = [starts.reshape(len(starts), -1).astype(float)]
    if facts.core is not None:
        seen.append(facts.core.states.reshape(len(facts.core), -1).astype(float))
    if facts.sample is not None:
        D = seen[0].shape[1]
        seen += [np.array(t.living) for t in facts.sample.trajectories if len(t.states[0]) == D]
    table = None if facts.running else _table(problem)
    if table is not None:
        seen.append(table.reshape(len(table), -1).astype(float))
    every = np.concatenate([rows for rows in seen if rows.shape[1] == seen[0].shape[1]])
    low, high = every.min(axis=0), every.max(axis=0)
    box = _box(problem)
    whole = (every == np.round(every)).all(axis=0)
    names = facts.names("state", every.shape[1])
    hidden = has_terminal(problem.features)
    axes = []
    for i, name in enumerate(names):
        inside = box is not None and i < len(box[0]) and np.isfinite([box[0][i], box[1][i]]).all()
        a, b = (float(box[0][i]), float(box[1][i])) if inside and box is not None else (low[i], high[i])
        if a == b:
            a, b = a - 0.5, b + 0.5
        typical = float(np.median(seen[0][:, i]))
        is_whole = bool(whole[i] and float(a).is_integer() and float(b).is_integer())
        axes.append(
            {
                "name": "ended" if hidden and i == len(names) - 1 else name,
                "low": float(a),
                "high": float(b),
                "whole": is_whole,
                "start": float(round(typical)) if is_whole else float(f"{typical:.6g}"),
                "fixed": hidden and i == len(names) - 1,
            }
        )
    return axes


def _typical(facts: Facts, problem: Problem) -> States | None:
    """Some states `[n, ...]`; None if none is known.

    While a run is going on its simulator is left alone: this is another thread, and nobody promised that it may be called
    from two.
    """
    if not facts.running:
        return np.asarray(Simulator(problem).initial(_STARTS))
    if facts.core is not None:
        return facts.core.states
    box = _box(problem)
    middle = None if box is None else np.array([[(a + b) / 2 for a, b in zip(*box, strict=True)]])
    return middle if middle is not None and np.isfinite(middle).all() else None


def _table(problem: Problem) -> Any:
    """All states, where the problem is small enough to have them at hand."""
    if problem.tabular is None:
        return None
    try:
        found = problem.tabular()
    except (CoreplanError, MemoryError):
        return None
    return found.states if found.n_states <= _STATES else None


def _box(problem: Problem) -> Any:
    """(low, high) of the box of the features, if there is one."""
    bounds = bounds_of(problem.features)
    if bounds is not None:
        return bounds.low, bounds.high
    inner: Any = problem.features
    while inner is not None:
        if getattr(inner, "box", None) is not None:
            return inner.box
        inner = getattr(inner, "base", getattr(inner, "features", None))
    return None


def _core(facts: Facts) -> dict[str, Any] | None:
    """The core pairs, the heaviest if there are very many, with how the planner weighs them."""
    core = facts.core
    if core is None:
        return None
    which = heaviest(core, facts.weights)
    return {
        "states": [[float(f"{v:.6g}") for v in row] for row in _rows(core)[which].tolist()],
        "actions": core.actions[which].tolist(),
        "weights": None if facts.weights is None else facts.weights[which].tolist(),
        "total": len(core),
    }


def heaviest(core: CoreSet, weights: FloatArray | None, most: int = _PAIRS) -> Any:
    """The numbers of the core pairs to show: the heaviest first, else evenly many of all."""
    if weights is not None:
        return np.argsort(-weights, kind="stable")[:most]
    return np.unique(np.linspace(0, len(core) - 1, min(most, len(core))).astype(int))


def _rows(core: CoreSet) -> FloatArray:
    return core.states.reshape(len(core), -1).astype(float)


def _grids(policy: SoftmaxPolicy, starts: States, axes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Scores on grids over pairs of coordinates, the others typical; over one coordinate, if there is one only."""
    shown = [i for i, axis in enumerate(axes) if not axis["fixed"]]
    pairs = list(combinations(shown[:4], 2)) or [(shown[0], shown[0])]
    A = policy.features.n_actions if policy.features is not None else 1
    cells = max(int((_GRID / (A * len(pairs))) ** 0.5), 5)
    typical = np.array([axis["start"] for axis in axes])
    found = []
    for x, y in pairs:
        xs = _nodes(axes[x], min(cells, _FINEST) if x != y else 400)
        ys = _nodes(axes[y], min(cells, _FINEST)) if x != y else [axes[x]["start"]]
        rows = np.tile(typical, (len(xs) * len(ys), 1))
        rows[:, x] = np.tile(xs, len(ys))
        if x != y:
            rows[:, y] = np.repeat(ys, len(xs))
        states = rows.reshape(-1, *starts.shape[1:]).astype(starts.dtype)
        q = [
            [None if v == -np.inf else float(f"{v:.5g}") for v in row]
            for row in policy.q_values(states).tolist()
        ]
        found.append({"x": x, "y": y, "xs": xs, "ys": ys, "q": q})
    return found


def _nodes(axis: dict[str, Any], most: int) -> list[float]:
    low, high = axis["low"], axis["high"]
    if axis["whole"] and high - low < most:
        return [float(v) for v in range(int(low), int(high) + 1)]
    nodes = np.linspace(low, high, most)
    return [float(f"{v:.6g}") for v in (np.unique(np.round(nodes)) if axis["whole"] else nodes)]
