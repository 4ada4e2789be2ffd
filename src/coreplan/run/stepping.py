"""`Run`, and `steps`, a run as an iterator of values. `plan`, the theory and the benchmarks all use this module."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..base import (
    CoreplanError,
    InputError,
    Interrupt,
    as_count,
    as_function,
    as_kind,
    check_seed,
    one_thread,
    planner_stream,
    restore,
    state_of,
    text_of,
)
from ..core import CoreSet, HullWatch
from ..features import bounds_of, with_features
from ..planners import (
    CoreSetup,
    Planner,
    Setup,
    Sum,
    Verdict,
    broken,
    near_uniform,
    require_planner,
    require_policy,
    with_watch,
)
from ..policy import SoftmaxPolicy
from ..problem import ZOO, Problem
from ..simulate import Simulator
from .loop import Loop, make_loop
from .trace import Trace, next_point

NO_LIMIT = 2**62  # queries: a budget that no run reaches


@dataclass(frozen=True)
class Step:
    """A moment of a run. `state` is the planner's own and will change: copy what you want to keep."""

    state: Any
    queries: int
    row: Mapping[str, float]  # like a row of the trace


def steps(
    problem: Problem,
    planner: Planner,
    *,
    core: CoreSet | None = None,
    budget: int | None = None,
    seed: int = 0,
    block: int | None = None,
    stride: int = 1,
    value: Callable[[SoftmaxPolicy], float] | None = None,
) -> Iterator[Step]:
    """A run, step by step: first its start, then a step after every ask, or after `stride` queries if asks are smaller.

    It ends when the budget is used up or the planner is done, or when the caller stops iterating. `value(policy)` adds a
    column to the rows.
    """
    stride = as_count("steps", stride=stride)
    with one_thread:  # left at every `yield`: between two steps the threads are the caller's
        run = Run.of(problem, planner, core=core, budget=budget, seed=seed, block=block, value=value)
        run.warm_up()
        step = run.step_here()
    yield step
    while run.left:
        with one_thread:
            until = run.simulator.queries + stride
            while run.left and run.simulator.queries < until:  # `advance` may return earlier
                run.advance(until)
            step = run.step_here()
        yield step


class Moment(NamedTuple):
    """A copy of where a run stands."""

    state: Any
    simulator: dict[str, Any]
    stream: dict[str, Any]


class Run:
    """One run: a planner bound to a problem, its state, both streams, the counter and the trace."""

    def __init__(
        self, problem: Problem, core: CoreSet | None, planner: Planner, *, seed: int, block: int | None,
        value: Callable[[SoftmaxPolicy], float] | None = None,
    ) -> None:  # fmt: skip
        """`planner` must be resolved, so that it knows its setup."""
        self.problem, self.core, self.planner, self.value = problem, core, planner, value
        self.budget = int(planner.setup.budget)
        self.rng = planner_stream(seed)
        self.simulator = Simulator(problem, core, seed, None if block is None else int(block))
        self.watch: HullWatch | None = None
        if isinstance(planner.setup, CoreSetup):
            self.watch = HullWatch(planner.setup.frame, problem.discount)
        self.simulator.watch = self.watch
        self.loop: Loop = make_loop(planner, self.simulator, self.rng)
        self.trace = Trace()
        self.sums: dict[str, tuple[float, float]] = {}  # the `Sum`s at the last row of the trace
        self.seconds = 0.0

    @classmethod
    def of(
        cls, problem: Problem, planner: Planner, *, core: CoreSet | None = None, budget: int | None = None, seed: int = 0,
        block: int | None = None, value: Callable[[SoftmaxPolicy], float] | None = None,
    ) -> Run:  # fmt: skip
        """A run of a planner that is not yet resolved; by default with the problem's own core set."""
        if not isinstance(problem, Problem):
            raise InputError(f"A run needs a Problem, got {type(problem).__name__}.")
        require_planner(planner)
        as_kind("steps", CoreSet, "a CoreSet(states, actions)", optional=True, core=core)
        as_function("steps", "value(policy) -> number", optional=True, value=value)
        value = None if value is None else _checked_value(value)
        budget = planner.first_budget if budget is None else budget
        budget, block = as_count("steps", budget=budget), as_count("steps", optional=True, block=block)
        core, setup = setup_for(problem, planner, core, budget)
        planner = resolved(planner, setup)
        return cls(problem, core, planner, seed=check_seed(seed), block=block, value=value)

    @property
    def left(self) -> bool:
        """Whether there is a next ask, and the budget has room for it."""
        size = self.loop.size()
        return size is not None and size <= self.budget - self.simulator.queries

    def warm_up(self) -> None:
        """Compile everything that will be called; a policy that breaks its contract raises here, before the first query."""
        self.policy()
        if self.left:
            self.loop.warm_up()

    def advance(self, until: int, interrupt: Interrupt | None = None) -> None:
        """Make at least one ask, and stop once the number of queries reaches `until`, if not earlier."""
        begin = time.perf_counter()
        try:
            self.loop.advance(min(until, self.budget), self.budget, interrupt or Interrupt())
        finally:
            self.seconds += time.perf_counter() - begin

    def moment(self, most: float) -> Moment | None:
        """Where the run stands; None if the planner's state has more than `most` bytes, which take long to copy."""
        state = self.loop.state
        if sum(getattr(value, "nbytes", 0) for value in state) > most:
            return None
        copy = state._make(value.copy() if isinstance(value, np.ndarray) else value for value in state)
        return Moment(copy, self.simulator.mark(), state_of(self.rng))

    def return_to(self, moment: Moment) -> None:
        """Go back to an earlier moment; the trace must not have grown since."""
        self.loop.state, self.loop.torn = moment.state, False
        self.simulator.return_to(moment.simulator)
        restore(self.rng, moment.stream)

    @property
    def due(self) -> int:
        """The number of queries at which the next row of the trace is due."""
        last = self.trace["queries"][-1] if len(self.trace) else 0
        return next_point(int(last), self.budget)

    def record(self) -> None:
        """Append a row to the trace."""
        self.trace.append(self._row())

    def step_here(self) -> Step:
        """The current moment of the run; its row is not added to the trace."""
        return Step(state=self.loop.state, queries=self.simulator.queries, row=self._row())

    def _row(self) -> dict[str, float]:
        """The next row of the trace; every `Sum` starts afresh after it."""
        numbers = dict(self.planner.numbers(self.loop.state))
        self._require_names(numbers)
        row: dict[str, float] = {"queries": self.simulator.queries, "seconds": self.seconds}
        row |= {name: self._since_last_row(name, number) for name, number in numbers.items()}
        if self.watch is not None:
            row["outside"] = self.watch.outside
        row["value"] = math.nan if self.value is None else self.value(self.policy())
        self.sums = {k: (v.total, v.number) for k, v in numbers.items() if isinstance(v, Sum)}
        return row

    def columns(self, state: Any) -> set[str]:
        """The names of the trace's columns, for a state of the planner."""
        watched = set() if self.watch is None else {"outside"}
        return {"queries", "seconds", "value", *self.planner.numbers(state)} | watched

    def _require_names(self, numbers: Mapping[str, Any]) -> None:
        """An InputError if the numbers of a planner cannot be columns of the trace."""
        own = {"row", "queries", "seconds", "outside", "value"}  # "row" is the number of a row for callbacks
        wrong = [name for name in numbers if name in own or not str(name).replace("_", "").isalnum()]
        if self.trace.columns:
            wrong += sorted(set(self.trace.columns) - own ^ set(numbers))
        if wrong:
            what = f"has numbers for the trace that cannot be its columns: {', '.join(map(str, wrong))}"
            contract = (
                "the same names in every row, of letters, digits and underscores, other than "
                + ", ".join(sorted(own))
            )
            raise broken(self.planner, what, contract)

    def _since_last_row(self, name: str, number: float | Sum) -> float:
        """For a `Sum`, its mean since the last row of the trace; for other numbers, the number itself."""
        if not isinstance(number, Sum):
            return float(number)
        total, n = self.sums.get(name, (0.0, 0.0))
        return (number.total - total) / (number.number - n) if number.number > n else math.nan

    def policy(self) -> SoftmaxPolicy:
        """The current policy."""
        name = self.problem.name if self.problem.name.partition(":")[0] in ZOO else ""
        state, features = self.loop.state, self.problem.features
        own = self.planner.features(state)
        read = require_policy(self.planner, self.planner.policy(state), own)
        return SoftmaxPolicy(*read, features if own is None else with_features(features, own), name)

    def verdict(self) -> Verdict | None:
        """The planner's judgement of its result, or that it is near uniform, combined with what the watch has seen."""
        own = self.planner.verdict(self.loop.state)
        if own is None and self.planner.from_uniform and self.core is not None:
            policies = (self.policy(), SoftmaxPolicy.uniform(self.problem.features))
            own = near_uniform(*(policy.probabilities(self.core.states) for policy in policies))
        return own if self.watch is None else with_watch(own, self.watch)


def _checked_value(value: Callable[[SoftmaxPolicy], Any]) -> Callable[[SoftmaxPolicy], float]:
    """A user's `value(policy)`; whatever it raises, or returns that is no number, becomes an InputError."""

    def checked(policy: SoftmaxPolicy) -> float:
        try:
            return float(value(policy))
        except CoreplanError:
            raise
        except Exception as error:
            raise InputError(
                f"`steps(value=...)` must be value(policy) -> number; it raised {type(error).__name__}: {text_of(error)}."
            ) from error

    return checked


def setup_for(
    problem: Problem, planner: Planner, core: CoreSet | None, budget: int
) -> tuple[CoreSet | None, Setup]:
    """The core set that a run uses (by default the problem's own), and what the planner may know."""
    if bounds_of(problem.features) is not None and not planner.needs_box:
        raise InputError(
            f"The problem '{problem.name}' has bounds and no features, and the planner '{planner.name}' needs features. "
            "Plan with Refine(), which makes its own, or give features."
        )
    if planner.needs_core and planner.core_of == "all":
        core = CoreSet.every(problem)
    elif core is None and planner.needs_core:
        core = CoreSet.of(problem)
    if core is not None and planner.needs_core and planner.core_of == "states":
        core = core.completed(problem)
    if core is None or not planner.needs_core:
        return core, Setup.of(problem, budget)
    return core, CoreSetup.with_core(problem, core, budget)


def resolved(planner: Planner, setup: Setup) -> Planner:
    """The planner with every hyperparameter filled in, bound to its setup."""
    planner = planner.resolve(setup)
    return planner if planner.setup is setup else planner.bind(setup)
