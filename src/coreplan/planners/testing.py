"""`check_planner`: the contract of planners, as tests that a planner's author can run.

    from coreplan.planners.testing import check_planner
    check_planner(MyPlanner())

Each check plans small problems with the planner and raises an AssertionError that says what is broken. This module imports
parts above `planners`, and no other module imports it: planners themselves know nothing of runs.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..base import CoreplanError, SimulatorError, planner_stream
from ..features import Box, Coordinates, available, interpolation, one_hot, with_terminal
from ..planning import plan
from ..problem import FunctionModel, Problem, Tabular, make
from ..run import Run, RunFolder
from ..simulate import given
from .protocol import Planner, require_planner

BUDGET = 1500  # queries per run, by default
Check = Callable[..., None]  # of a planner and a number of queries
CHECKS: dict[str, Check] = {}


def check_planner(
    planner: Planner, *, budget: int = BUDGET, only: str | None = None, executor: Any = None
) -> None:
    """Run every check, or those whose name contains `only`, and raise an AssertionError for the first that fails.

    Parameters
    ----------
    planner: as a user would pass it to `plan`, with any settings.
    budget: queries per run; the checks plan some forty times.
    executor: who simulates in the check that this changes nothing, as for `plan`; by default two threads.
    """
    for _, check in planner_checks(planner, budget=budget, only=only, executor=executor):
        check()


def planner_checks(
    planner: Planner, *, budget: int = BUDGET, only: str | None = None, executor: Any = None
) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks one by one, as (name, function without arguments): for a parametrised test."""
    require_planner(planner)
    for name, check in CHECKS.items():
        if only is None or only in name:
            more = {"executor": executor} if check is who_simulates_changes_nothing else {}
            yield name, partial(check, planner, budget, **more)


def _check(check: Check) -> Check:
    CHECKS[check.__name__.replace("_", " ")] = check
    return check


# The problems.


def _problems(planner: Planner) -> list[Problem]:
    """Small problems of every kind: dense, sparse, NumPy functions, masks, ends of episodes, dependent core features.

    For a planner that makes its own features: problems with bounds only; for one that needs a table, or all pairs, problems
    that have them.
    """
    if planner.needs_box:
        return [bounded_corridor(), bounded_places(), replace(ending_corridor(), features=_ending_bounds())]
    if planner.needs_table:
        return [make("river-swim"), in_numpy(make("river-swim")), masked_corridor(), make("frozen-lake")]
    if planner.core_of == "all":  # few states, so that the budget is enough for all their pairs
        small = make("random-linear:states=50")
        return [
            small,
            in_numpy(small),
            make("river-swim"),
            masked_corridor(),
            make("hard-linear"),
            make("frozen-lake"),
        ]
    return [
        make("random-linear"), make("river-swim"), make("random-linear:compiled=false"), masked_corridor(),
        ending_corridor(), make("hard-linear"),
    ]  # fmt: skip


def _corridor(rng: np.random.Generator, x: Any, a: Any) -> tuple[Any, Any]:
    """A step between six places: action 1 goes right but sometimes slips, 0 goes left, 2 stays and pays 0.1 at place 2."""
    slip = rng.random(len(x)) < 0.1
    y = np.clip(x + np.where(a == 1, np.where(slip, -1, 1), np.where(a == 0, -1, 0)), 0, 5)
    return (x == 5) * 1.0 * (a == 1) + 0.1 * ((x == 2) & (a == 2)), y


def masked_corridor() -> Problem:
    """A corridor where going left is forbidden at the left end, and staying at odd places; forbidden pairs pay NaN."""

    def mask(x: Any) -> Any:
        return np.stack([x > 0, np.ones(len(x), dtype=bool), x % 2 == 0], axis=1)

    def step(rng: np.random.Generator, x: Any, a: Any) -> tuple[Any, Any]:
        rewards, y = _corridor(rng, x, a)
        return np.where(mask(x)[np.arange(len(x)), a], rewards, np.nan), y

    def table() -> Tabular:
        x, a = np.divmod(np.arange(18), 3)
        certain, moves, P = mask(x)[np.arange(18), a], np.array([-1, 1, 0])[a], np.zeros((18, 6))
        slips = np.where(a == 1, 0.1, 0.0)
        P[np.arange(18), np.clip(x + moves, 0, 5)] += 1.0 - slips
        P[np.arange(18), np.clip(x - moves, 0, 5)] += slips
        rewards = np.where(certain, (x == 5) * 1.0 * (a == 1) + 0.1 * ((x == 2) & (a == 2)), 0.0)
        return Tabular(
            np.arange(6), rewards.reshape(6, 3), np.full(6, 1 / 6), P, available=certain.reshape(6, 3)
        )

    model = FunctionModel(3, lambda rng, n: rng.integers(0, 6, n), step)
    return Problem(model, one_hot(6, 3), 0.8, mask=mask, name="masked corridor", tabular=table)


def in_numpy(problem: Problem) -> Problem:
    """The problem with its compiled simulator hidden behind NumPy functions, which draw the same."""
    model = problem.model
    return replace(problem, model=FunctionModel(model.n_actions, model.initial, model.step))


def bounded_corridor() -> Problem:
    """A corridor on [0, 1] and an angle that drifts, with bounds and no features; standing at the right end pays 1."""
    none: Any = None

    def step(rng: np.random.Generator, x: Any, a: Any) -> tuple[Any, Any]:
        place = np.clip(x[:, 0] + np.where(a == 1, 0.3, -0.3) * rng.random(len(x)), 0.0, 1.0)
        return (x[:, 0] >= 0.9) * 1.0, np.stack([place, (x[:, 1] + 0.1 * a) % 1.0], axis=1)

    model = FunctionModel(2, lambda rng, n: rng.random((n, 2)), step)
    return Problem(
        model, none, 0.8, box=([0.0, 0.0], [1.0, 1.0]), periodic=(False, True), name="bounded corridor"
    )


def bounded_places() -> Problem:
    """The corridor of six places, as a whole number with bounds and no features."""
    none: Any = None

    def step(rng: np.random.Generator, x: Any, a: Any) -> tuple[Any, Any]:
        rewards, y = _corridor(rng, x[:, 0], a)
        return rewards, y[:, None]

    model = FunctionModel(3, lambda rng, n: rng.integers(0, 6, (n, 1)), step)
    return Problem(model, none, 0.8, box=([0], [5]), whole=(True,), name="bounded places")


def _ending_bounds() -> Any:
    return with_terminal(Coordinates(Box(np.zeros(1), np.ones(1)), 2))


def _compiled_and_not(planner: Planner) -> tuple[Problem, Problem]:
    """One problem with a compiled simulator and with one of NumPy functions."""
    if planner.needs_table or planner.core_of == "all":
        return make("river-swim"), in_numpy(make("river-swim"))
    one, two = make("random-linear:compiled=true"), make("random-linear:compiled=false")
    return (bounded_corridor(), bounded_corridor()) if planner.needs_box else (one, two)


def ending_corridor() -> Problem:
    """A corridor on the interval [0, 1], where reaching the right end pays 1 and ends the episode."""

    def step(rng: np.random.Generator, x: Any, a: Any) -> tuple[Any, Any]:
        place, over = x[:, 0], x[:, 1] != 0
        y = np.clip(place + np.where(a == 1, 0.3, -0.3) * rng.random(len(x)), 0.0, 1.0)
        ends = ~over & (y >= 0.999)
        states = np.stack([np.where(over | ends, 0.0, y), (over | ends) * 1.0], axis=1)
        return ends * 1.0, states

    def initial(rng: np.random.Generator, n: int) -> Any:
        return np.stack([rng.random(n) * 0.5, np.zeros(n)], axis=1)

    features = with_terminal(interpolation([0.0], [1.0], [3], 2))
    return Problem(FunctionModel(2, initial, step), features, 0.8, name="ending corridor")


# The checks.


def _planned(planner: Planner, problem: Problem, budget: int, **more: Any) -> Any:
    try:
        return plan(problem, planner=planner, budget=budget, reality=0, **more)
    except CoreplanError as error:
        if isinstance(error, SimulatorError):
            raise
        raise AssertionError(
            f"'{planner.name}' refuses the problem '{problem.name}' with {budget} queries: {error} Give check_planner a "
            "larger `budget` if that is why."
        ) from error


def _same(one: Any, two: Any, what: str) -> None:
    assert one.policy.theta.tobytes() == two.policy.theta.tobytes(), f"{what}: the policies differ"
    assert one.policy.scale == two.policy.scale, (
        f"{what}: the scales are {one.policy.scale} and {two.policy.scale}"
    )
    assert (one.queries, one.status) == (two.queries, two.status), f"{what}: queries or status differ"
    columns = [c for c in one.trace.columns if c != "seconds"]
    assert columns == [c for c in two.trace.columns if c != "seconds"], (
        f"{what}: the traces have other columns"
    )
    for column in columns:
        assert one.trace[column].tobytes() == two.trace[column].tobytes(), (
            f"{what}: the traces differ in '{column}'"
        )


@_check
def settings_round_trip(planner: Planner, budget: int) -> None:
    """Settings are JSON types, and rebuild the same planner."""
    settings = planner.settings()
    assert json.loads(json.dumps(settings)) == settings, f"settings are not JSON types: {settings}"
    given = {name: settings[name] for name in planner.options()}
    again = type(planner)(**given)
    assert again.settings() == {**settings, **again.settings()}, "settings do not make the same planner again"


@_check
def same_seed_same_bits(planner: Planner, budget: int) -> None:
    """Two runs with one seed are equal to the last bit, on every kind of problem."""
    for problem in _problems(planner):
        one, two = (_planned(planner, problem, budget, seed=5) for _ in range(2))
        _same(one, two, f"two runs with one seed on '{problem.name}'")


@_check
def compiled_equals_numpy(planner: Planner, budget: int) -> None:
    """The compiled loop and the NumPy loop give the same bits."""
    one, two = (_planned(planner, problem, budget, seed=3) for problem in _compiled_and_not(planner))
    _same(one, two, "compiled and as NumPy functions")


@_check
def who_simulates_changes_nothing(planner: Planner, budget: int, executor: Any = None) -> None:
    """Workers in place of this process, and answers from a query log, give the same bits and counts."""
    for problem in _problems(planner)[2:4]:
        run = partial(_planned, planner, problem, budget, seed=6, block=16)  # blocks to be shared out
        plain = run()
        with ThreadPoolExecutor(2) as threads, tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "q.log"
            engine = given(threads, 2, timeout=60.0) if executor is None else executor
            there, again = run(executor=engine, log=log), run(log=log)  # with a limit everything is sent
        _same(plain, there, f"in this process and by workers on '{problem.name}'")
        _same(plain, again, f"without and with a query log on '{problem.name}'")
        assert plain.initial_draws == there.initial_draws == again.initial_draws, "the initial draws differ"
        assert there.lost_queries == 0, (
            f"{there.lost_queries} queries were paid for nothing: is `following` what is asked?"
        )
        assert again.logged_queries == again.queries, "a run asks again for answers that its log has"


@_check
def kill_and_resume(planner: Planner, budget: int) -> None:
    """A run that is resumed from its checkpoint alone ends as if it had never stopped."""
    for problem in _problems(planner):
        whole = _planned(planner, problem, budget, seed=2)
        with tempfile.TemporaryDirectory() as folder:
            _stopped(planner, problem, budget, 2, Path(folder))
            resumed = _planned(planner, problem, budget, seed=2, out=folder, resume=True)
        _same(whole, resumed, f"a whole and a resumed run on '{problem.name}'")


def _stopped(planner: Planner, problem: Problem, budget: int, seed: int, out: Path) -> None:
    """Leave in `out` what a run leaves behind when it is killed after its second checkpoint."""

    class Killed(BaseException):
        """Not an Exception, so that nothing handles it."""

    class Bar:
        def __init__(self) -> None:
            self.updates = 0

        def update(self, queries: int) -> None:
            self.updates += 1
            if self.updates == 3:
                raise Killed

        def close(self) -> None:
            pass

    with suppress(Killed):
        _planned(planner, problem, budget, seed=seed, out=out, progress=Bar(), checkpoint_seconds=1e-9)


@_check
def budget_is_never_exceeded(planner: Planner, budget: int) -> None:
    """A run never makes more queries than its budget, and its trace ends with the number that it made."""
    for more in (0, 1, 17):
        problem = bounded_corridor() if planner.needs_box else make("river-swim")
        result = _planned(planner, problem, budget + more, seed=1)
        assert result.queries <= budget + more, (
            f"{result.queries} queries were made with a budget of {budget + more}"
        )
        assert result.trace["queries"][-1] == result.queries, "the trace ends with another number of queries"


@_check
def read_out_is_finite(planner: Planner, budget: int) -> None:
    """The policy can be read at any time, and is d finite numbers with a positive scale."""
    for problem in _problems(planner):
        run = Run.of(problem, planner, budget=budget, seed=4)
        run.policy()  # checked by `require_policy`
        while run.left:
            run.advance(run.simulator.queries + budget // 10)
            policy = run.policy()
            states = run.simulator.initial(5)
            p = policy.probabilities(states)
            assert np.isfinite(p).all() and np.allclose(p.sum(axis=1), 1.0), (
                "probabilities are no distribution"
            )


@_check
def looking_changes_nothing(planner: Planner, budget: int) -> None:
    """Methods that only read leave the state unchanged, and `size` agrees with `ask`."""
    run = Run.of(_compiled_and_not(planner)[1], planner, budget=budget, seed=4)
    for _ in range(3):
        state, here = run.loop.state, run.planner
        before = [copy.copy(value) for value in state]
        ask, size = here.ask(state, planner_stream(1)), here.size(state)
        assert (None if ask is None else ask.size) == size, f"`size` says {size} and `ask` asks for {ask}"
        for look in (here.policy, here.numbers, here.verdict, here.core, here.stored):
            look(state)
        assert here.numbers(state).keys() == here.numbers(state).keys()
        for name, old, new in zip(state._fields, before, state, strict=True):
            assert np.array_equal(np.asarray(old), np.asarray(new), equal_nan=True), (
                f"looking changed '{name}'"
            )
        if run.left:
            run.advance(run.simulator.queries + 1)


@_check
def masks_are_respected(planner: Planner, budget: int) -> None:
    """A forbidden pair is never simulated (it would pay NaN, which is an error), and the policy never takes it."""
    problem = masked_corridor()
    if planner.needs_box:  # it makes states of its own, and nobody says which actions they have
        return
    policy = _planned(planner, problem, budget, seed=0).policy
    x = np.arange(6)
    forbidden = ~available(problem.features(x))
    assert (policy.probabilities(x)[forbidden] == 0).all(), "a forbidden action has a positive probability"


@_check
def ends_of_episodes_are_states(planner: Planner, budget: int) -> None:
    """A terminated state has action probabilities like any other state."""
    problem = (
        replace(ending_corridor(), features=_ending_bounds()) if planner.needs_box else ending_corridor()
    )
    if planner.needs_table or planner.core_of == "all":  # an end there is a state like any other
        assert np.isfinite(_planned(planner, make("frozen-lake"), budget, seed=0).policy.theta).all()
        return
    policy = _planned(planner, problem, budget, seed=0).policy
    assert np.isfinite(policy.probabilities(np.array([[0.0, 1.0], [0.3, 0.0]]))).all()


@_check
def faults_of_the_simulator_lose_nothing(planner: Planner, budget: int) -> None:
    """If the simulator fails once, the resumed run ends as if nothing had happened."""
    problem = _compiled_and_not(planner)[1]
    whole = _planned(planner, _failing(problem, at=0), budget, seed=6)
    with tempfile.TemporaryDirectory() as folder:
        failing = _failing(problem, at=2)
        try:
            first = _planned(planner, failing, budget, seed=6, out=folder)
        except SimulatorError:
            first = _planned(planner, failing, budget, seed=6, out=folder, resume=True)
        assert not RunFolder(Path(folder)).path.joinpath("run.json.partial").exists()
    _same(whole, first, "a run without and one with a fault of the simulator")


def _failing(problem: Problem, at: int) -> Problem:
    """The problem with a NumPy simulator that raises once, at call number `at`; 0: never."""
    calls = [0]

    def step(rng: np.random.Generator, x: Any, a: Any) -> tuple[Any, Any]:
        calls[0] += 1
        answer = problem.model.step(rng, x, a)  # consumes noise, as a real failure would
        if calls[0] == at:
            raise RuntimeError("the licence server is down")
        return answer

    model = FunctionModel(problem.n_actions, problem.model.initial, step)
    return replace(problem, model=model, name="failing")
