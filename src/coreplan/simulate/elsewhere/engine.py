"""`Engine`: an executor, with what executors lack: retries, time limits, and whether workers pay at all."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ...base import (
    CoreplanWarning,
    ExecutorError,
    InputError,
    as_count,
    as_positive,
    processors,
    shown,
    text_of,
)

P = ParamSpec("P")
T = TypeVar("T")

TASK = 0.1  # seconds that a task should take
PAYS = 4.0  # a share of work goes to workers if it takes this many times as long as sending a task, or ...
LONG = 0.02  # ... seconds
MANY = (
    1024  # pairs of a share of work that is simulated here, from which on it is said that workers do not pay
)
NOTICED = 0.1  # seconds that workers may cost besides before a word is said


class Engine:
    """Who simulates: workers behind a `concurrent.futures.Executor`, and how faults of theirs are treated.

    Made by `processes`, `ray` or `given` of `coreplan.executors`. One engine may serve several plans, one after the other.
    """

    def __init__(
        self,
        name: str,
        open_: Callable[[], Executor],
        *,
        workers: int | None = None,
        timeout: float | None = None,
        retries: int = 3,
        ours: bool = False,
        shared_fate: bool = True,
        close: Callable[[Executor], None] | None = None,
    ) -> None:
        """`open_` makes the executor, when it is first needed and after each break, if it is `ours`.

        `shared_fate`: one worker that dies takes the tasks of the others with it.
        """
        self.name = name
        self.workers = as_count(name, optional=True, workers=workers) or processors()
        self.timeout = as_positive(name, optional=True, timeout=timeout)
        self.retries = as_count(name, least=0, retries=retries)
        self.ours, self.shared_fate = ours, shared_fate
        self._open, self._close = open_, close
        self._executor: Executor | None = None
        self._parcels: dict[tuple[int, int], tuple[Any, Parcel]] = {}
        self._queries, self._seconds = 0.0, 0.0  # of the tasks that came back, older ones with smaller weight
        self.overhead = 1e-3  # seconds per task besides
        self._told: set[str] = set()
        self._there, self._waited = (
            0.0,
            0.0,
        )  # seconds in the model, of all workers; seconds spent waiting for them

    # The executor.

    @property
    def executor(self) -> Executor:
        """The executor, opened if need be."""
        if self._executor is None:
            self._executor = self._open()
        return self._executor

    def broken(self, executor: Executor, error: BaseException) -> None:
        """An executor broke: another one takes its place, if it is ours to make one."""
        if not self.ours:
            raise ExecutorError(
                f"The executor {shown(type(executor).__name__)} broke: {text_of(error) or type(error).__name__}. Everything "
                "that was answered before is kept; make a new executor and resume."
            ) from error
        if executor is self._executor:
            self.shut()

    def shut(self) -> None:
        """End the workers, if they are ours. The engine may be used again."""
        executor, self._executor = self._executor, None
        for _, parcel in self._parcels.values():
            parcel.sent = 0
        if executor is not None and self._close is not None:
            self._close(executor)

    def abandon(self) -> None:
        """End the workers in the middle of what they do, if they are ours; others' go on with what they have begun."""
        executor, self._executor = self._executor, None
        for _, parcel in self._parcels.values():
            parcel.sent = 0
        if executor is not None and self.ours:
            try:
                executor.shutdown(wait=False, kill_workers=True)  # type: ignore[call-arg]  # loky's
            except TypeError:
                executor.shutdown(wait=False, cancel_futures=True)

    # What is sent.

    def begin(self) -> None:
        """Before a plan, and after it: nothing of an earlier one is used, since its model may have been changed in place."""
        self._parcels.clear()
        self._there = self._waited = 0.0

    def end(self) -> None:
        """After a plan: say it if workers made it slower, unless they are wanted for their time limit."""
        more = self._waited - self._there
        if more > max(0.1 * self._there, NOTICED) and self.timeout is None and "do not pay" not in self._told:
            self._tell(
                "did not pay",
                f"Workers did not pay here: {self._waited:.2g} s were spent on starting and waiting for them, and the "
                f"simulator took {self._there:.2g} s of it. For so little work leave out the executor.",
            )

    def parcel(self, model: Any, core: Any) -> Parcel:
        """The model and the core set, pickled once per plan."""
        key = (id(model), id(core))
        if key not in self._parcels:
            self._parcels[key] = (model, core), Parcel.of(model, core)
        return self._parcels[key][1]

    # What is measured.

    @property
    def cost(self) -> float | None:
        """Seconds per query, as measured; None: nothing is known yet."""
        return self._seconds / self._queries if self._queries else None

    def measured(self, queries: int, seconds: float, elapsed: float, alone: bool) -> None:
        """A task has come back: `seconds` in the model, `elapsed` since it was sent; `alone` if no other was on its way.

        Tasks count by their queries: a worker's first call is slow, and often small.
        """
        self._there += seconds
        self._queries, self._seconds = 0.8 * self._queries + queries, 0.8 * self._seconds + seconds
        if alone:
            self.overhead = 0.5 * self.overhead + 0.5 * max(elapsed - seconds, 1e-5)

    def waited(self, seconds: float) -> None:
        """So long this process has waited for a share of work."""
        self._waited += seconds

    def pays(self, queries: int, chains: int) -> bool:
        """Whether so many queries, in so many chains, are worth sending. With a time limit they always are."""
        if self.timeout is not None or self.cost is None:
            return True
        took = queries * self.cost
        if took > min(PAYS * self.overhead, LONG):
            if chains == 1 < self.workers and took > 1.0 and self._seconds > TASK:
                self._tell(
                    "one block",
                    f"All {queries:,} pairs of a share of work belong to one block of noise, so that one worker simulates "
                    "them all. Give the model, or the run, a smaller block (block=...), of about a tenth of a second.",
                )
            return True
        if queries >= MANY:
            self._tell(
                "do not pay",
                f"Workers do not pay here: a query takes {self.cost:.2g} s, and sending a task {self.overhead:.2g} s. What "
                "is so quick is simulated in this process.",
            )
        return False

    def _tell(self, subject: str, what: str) -> None:
        if subject not in self._told:
            self._told.add(subject)
            warnings.warn(what, CoreplanWarning, stacklevel=2)

    def together(self, queries_per_chain: float, chains: int) -> int:
        """How many chains one task should hold."""
        if self.cost is None:
            return 1
        long = int(TASK / max(self.cost * queries_per_chain, 1e-9))
        return max(min(long, -(-chains // (2 * self.workers))), 1)


class Parcel:
    """A model and a core set on their way: bytes, and the name by which workers remember them."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data = name, data
        self.sent = 0  # tasks that have carried it to the workers of this executor

    @classmethod
    def of(cls, model: Any, core: Any) -> Parcel:
        """InputError, with the name of the attribute at fault, if the model cannot be sent."""
        from cloudpickle import dumps

        if not getattr(model, "repeatable", True):
            raise InputError(
                f"The simulator, {type(model).__name__}, keeps its states in this process, so workers cannot simulate them. "
                "Give the environment a state that can be set (get_state, set_state) in place of copy=True."
            )
        states, actions = (None, None) if core is None else (core.states, core.actions)
        try:
            data = dumps((model, states, actions))
        except Exception as error:
            raise _not_sendable(model, error, dumps) from error
        return cls(hashlib.sha256(data).hexdigest(), data)


def _not_sendable(model: Any, error: Exception, dumps: Callable[[Any], bytes]) -> InputError:
    what = ""
    for name, value in getattr(model, "__dict__", {}).items():
        try:
            dumps(value)
        except Exception:
            what = f" its attribute '{name}', {shown(value)},"
            break
    reason = (text_of(error) or type(error).__name__).splitlines()[-1]
    return InputError(
        f"The simulator cannot be sent to workers:{what} cannot be pickled ({reason}). Let each worker make it: "
        "model=coreplan.executors.built(make_model), where the function make_model() returns the simulator."
    )


# Who simulates now.

_now: ContextVar[Engine | None] = ContextVar("coreplan_engine", default=None)


def engine_of() -> Engine | None:
    """The engine that is in use here; None: this process simulates."""
    return _now.get()


@contextmanager
def using(executor: Any) -> Iterator[Engine | None]:
    """Let an executor simulate whatever is simulated inside: one of ours, its name, or any Executor; None changes nothing.

    What is made from a name, or wrapped, is ended at the end.
    """
    if executor is None:
        yield engine_of()
        return
    from .kinds import as_engine

    engine, made = as_engine(executor)
    token = _now.set(engine)
    if engine is not None:
        engine.begin()
    try:
        yield engine
        if engine is not None:
            engine.end()
    finally:
        _now.reset(token)
        if engine is not None:
            engine.begin()
            if made:
                engine.shut()


def by_executor(function: Callable[P, T]) -> Callable[P, T]:
    """Let the keyword argument `executor` of a public function simulate whatever it simulates."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        with using(kwargs.get("executor")):
            return function(*args, **kwargs)

    return inside
