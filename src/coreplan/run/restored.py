"""What a checkpoint holds, checked before a run goes on with it: the planner's state, the counters and the trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import checks, planner_stream, require_stream
from ..features import checked
from ..planners import Planner, Sum
from ..simulate import First, Kept
from .stepping import Run
from .trace import Trace

_NUMBERS = 1 << 22  # the most numbers in a batch of features


def restored(planner: Planner, like: Any, arrays: dict[str, Any]) -> Any:
    """The state in a checkpoint; it must have the type of `like` and, except for growing fields, its dtypes and shapes."""
    state = type(like)(**{name.removeprefix("state."): a for name, a in arrays.items()})
    plain = {}
    for name, old, new in zip(like._fields, like, state, strict=True):
        expected = np.asarray(old)
        if name not in planner.growing and (expected.dtype != new.dtype or expected.shape != new.shape):
            raise ValueError(f"'{name}' has dtype {new.dtype} and shape {new.shape}")
        if not isinstance(old, np.ndarray):
            plain[name] = type(old)(new.item())
    return state._replace(**plain)


def check_visited(run: Run, state: Any) -> None:
    """Raise ValueError or FeatureError unless the states in a planner's state are some that the features know.

    A planner hands them back to the simulator, whose compiled code may look up tables by them.
    """
    batch = max(1, _NUMBERS // (run.problem.n_actions * run.problem.features.dimension))
    kinds = set()
    for name in sorted(run.planner.visited):
        states = getattr(state, name)
        if len(states):
            kinds.add((states.dtype, states.shape[1:]))
            if len(kinds) > 1 or not states.dtype.isnative:
                raise ValueError(f"'{name}' has dtype {states.dtype} and shape {states.shape}")
        if states.dtype.kind == "f" and not np.isfinite(states).all():
            raise ValueError(f"'{name}' has numbers that are not finite")
        for start in range(0, len(states), batch):
            checked(run.problem.features, states[start : start + batch])


def check_kept(run: Run, kept: Kept | None) -> None:
    """Raise an error unless answers that were kept when an ask failed are some that simulator and features can give."""
    if kept is None:
        return
    if kept.stream is not None:
        require_stream(kept.stream, run.simulator.seed)
    like, states = run.simulator.guard.like, kept.next_states
    if len(states) and (
        like is None or like.shape[1:] == states.shape[1:]
    ):  # those of another shape are never used
        checked(run.problem.features, states)


def check_first(run: Run, first: First | None) -> None:
    """Raise an error unless the first pairs, which a resume asks for again, are some that simulator and features know."""
    if first is None:
        return
    if first.stream is not None:
        require_stream(first.stream, run.simulator.seed)
    checks.require_within(first, 0, run.problem.n_actions - 1, "actions")
    for states in (first.states, first.next_states):
        checked(run.problem.features, states)


def check_counters(run: Run, state: Any, trace: Trace, budget: Any) -> None:
    """Raise ValueError unless planner, simulator and trace agree on how far the run has come."""
    queries, told = run.simulator.queries, run.planner.told(state)
    if budget is not None and queries > checks.whole({"budget": budget}, "budget", 1):
        raise ValueError(f"it counts {queries} queries, more than its budget of {budget}")
    if told is not None and told > queries:
        raise ValueError(f"the planner has been told {told} answers, and {queries} queries are counted")
    ask = run.planner.ask(state, planner_stream(0))
    if ask is not None and ask.sweep is not None and run.simulator.next_sweep != ask.sweep:
        raise ValueError(
            f"the planner's next sweep is {ask.sweep}, the simulator's {run.simulator.next_sweep}"
        )
    if not len(trace):
        return
    if trace["queries"][-1] > queries:
        raise ValueError(f"its trace ends after {trace['queries'][-1]:g} queries, and {queries} are counted")
    if set(trace.columns) != run.columns(state):
        raise ValueError(f"its trace has the columns {', '.join(trace.columns)}"[:200])


def sums_of(saved: Any, numbers: Any) -> dict[str, tuple[float, float]]:
    """What the numbers of the trace had added up to at its last row."""
    sums = {}
    for name, pair in dict(saved).items():
        if not isinstance(numbers.get(name), Sum) or not isinstance(pair, list) or len(pair) != 2:
            raise ValueError(f"there is no sum '{name[:80]}' in the trace")
        known = dict(zip(("total", "number"), pair, strict=True))
        sums[name] = (checks.number(known, "total"), checks.number(known, "number", 0.0))
    return sums
