"""`Batch`: chains of calls on their way to workers and back, with every fault of a worker on the way.

Answers are handed out in the order of the chains, so that nobody can tell who simulated what. A chain whose worker died is
simulated again from the state in which its stream was: the same noise, the same bits.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from typing import NamedTuple

from ...base import ExecutorError, text_of
from .engine import Engine, Parcel
from .task import Answer, Chain, Done, is_transient, work

_LOOK = 0.2  # seconds after which it is looked whether a task is overdue
_STARTING = 30.0  # seconds that a foreign worker may take before a task's time begins to count


class Flight(NamedTuple):
    """A task on its way."""

    chains: tuple[int, ...]
    queries: int
    sent: float  # when
    alone: bool  # no other task was on its way
    suspect: bool  # sent alone, since a worker died while it was on its way
    executor: Executor


class Batch:
    """The answers to chains of calls, in their order."""

    def __init__(
        self, engine: Engine, parcel: Parcel, chains: Sequence[Chain], *, lost: Callable[[int], None],
        name: Callable[[Chain], str], came: Callable[[Chain, list[Answer]], None] | None = None,
    ) -> None:  # fmt: skip
        """`lost(n)` counts queries that were paid and lost; `name(chain)` says in a message which pairs a chain has.

        `came(chain, answers)` keeps answers when they have come, so that they are not lost where nobody waits for them.
        """
        self.engine, self.parcel, self.chains, self.lost, self.name = engine, parcel, chains, lost, name
        self.came = came
        self.waiting = deque(range(len(chains)))
        self.suspects: deque[int] = deque()
        self.flying: dict[Future[Done | None], Flight] = {}
        self.answered: dict[int, list[Answer]] = {}
        self.failures: Counter[int] = Counter()
        self.sent = 0  # tasks that carried the model

    def take(self, k: int) -> list[Answer]:
        """The answers to chain k, when they are there."""
        while k not in self.answered:
            self._fill()
            landed, _ = wait(self.flying, timeout=_LOOK, return_when=FIRST_COMPLETED)
            for future in landed:
                self._landed(future)
            if not landed and self.engine.timeout is not None and not self.engine.ours:
                self._abandon_overdue()
        return self.answered.pop(k)

    def close(self) -> None:
        """Take back what is on its way. What nobody waits for any more is paid and lost."""
        for future, flight in self.flying.items():
            if not future.cancel() and not self._kept(future, flight):
                self.lost(flight.queries)
        self.flying.clear()
        if self.came is None:
            self.lost(sum(self.chains[k].size for k in self.answered))
        self.answered.clear()

    def _kept(self, future: Future[Done | None], flight: Flight) -> bool:
        """Whether a task that nobody waits for has come back, and its answers are kept."""
        if self.came is None or not future.done() or future.exception() is not None:
            return False
        done = future.result()
        for k, answers in zip(flight.chains, done.answers if done else [], strict=False):
            self.came(self.chains[k], answers)
        return done is not None

    # Away.

    def _fill(self) -> None:
        """Send tasks, about twice as many as there are workers; suspects one by one, when nothing else is on its way."""
        if self.suspects:
            if not self.flying:
                self._send((self.suspects.popleft(),), suspect=True)
            return
        while self.waiting and len(self.flying) < 2 * self.engine.workers:
            size = self.chains[self.waiting[0]].size
            many = self.engine.together(size, len(self.waiting))
            self._send(tuple(self.waiting.popleft() for _ in range(min(many, len(self.waiting)))))

    def _send(self, chains: tuple[int, ...], *, suspect: bool = False, whole: bool | None = None) -> None:
        """Send a task; the first ones, one for each worker, carry the model (`whole`)."""
        engine, queries = self.engine, sum(self.chains[k].size for k in chains)
        if whole is None:
            whole = self.sent < engine.workers or suspect
        limit = engine.timeout if engine.ours else None
        load = [self.chains[k] for k in chains]
        for _ in range(2):
            executor = engine.executor
            try:
                future = executor.submit(
                    work, self.parcel.name, self.parcel.data if whole else None, load, limit
                )
                break
            except BrokenExecutor as error:
                engine.broken(executor, error)
            except RuntimeError as error:  # it was shut down
                raise ExecutorError(
                    f"The executor takes no more work ({text_of(error)}). Everything that was answered before is kept; make "
                    "a new executor and resume."
                ) from error
        else:
            raise ExecutorError("The executor breaks as soon as it is made. Try `serial`.")
        self.sent += whole
        self.flying[future] = Flight(
            chains=chains, queries=queries, sent=time.monotonic(), alone=not self.flying, suspect=suspect,
            executor=executor,
        )  # fmt: skip

    # Back.

    def _landed(self, future: Future[Done | None]) -> None:
        flight = self.flying.pop(future)
        try:
            done = future.result()
        except BrokenExecutor as error:
            self._died(flight, error)
            return
        except CancelledError as error:
            raise ExecutorError(
                "A task was cancelled by someone else: the executor was shut down. Everything that was answered before is "
                "kept; make a new executor and resume."
            ) from error
        except Exception as error:
            raise ExecutorError(
                f"A worker could not take the simulator: {type(error).__name__}: {text_of(error)}. What it is made of must "
                "be there too: the same packages, and modules that can be imported."
            ) from error
        if done is None:  # a worker that has not seen the model yet
            self._send(flight.chains, suspect=flight.suspect, whole=True)
            return
        self.engine.measured(flight.queries, done.seconds, time.monotonic() - flight.sent, flight.alone)
        for k, answers in zip(flight.chains, done.answers, strict=True):
            self._came(k, answers)

    def _came(self, k: int, answers: list[Answer]) -> None:
        """A chain is answered; if the simulator raised, somewhere else it may not."""
        if is_transient(answers[-1].error) and self.failures[k] < self.engine.retries:
            self.failures[k] += 1
            calls = self.chains[k].calls
            self.lost(sum(call.size for call in calls[: len(answers) - 1]) + answers[-1].answered)
            self.waiting.appendleft(k)
        else:
            self.answered[k] = answers
            if self.came is not None:
                self.came(self.chains[k], answers)

    def _died(self, flight: Flight, error: BaseException) -> None:
        """A worker died while this task was on its way: its own, or that of another task of the same executor."""
        self.lost(flight.queries)
        if self.engine.shared_fate:
            self.engine.broken(flight.executor, error)
        if flight.suspect or (not self.engine.shared_fate and len(flight.chains) == 1):
            k = flight.chains[0]
            self.failures[k] += 1
            if self.failures[k] > self.engine.retries:
                raise ExecutorError(self._why(k, time.monotonic() - flight.sent)) from error
        self.suspects.extend(flight.chains)

    def _why(self, k: int, elapsed: float) -> str:
        chain, times, limit = self.chains[k], self.failures[k], self.engine.timeout
        pairs = f"{chain.size:,} pairs from {self.name(chain)} on" if chain.size > 1 else self.name(chain)
        if limit is not None and elapsed >= limit * min(call.size for call in chain.calls):
            what = f"took longer than the limit of {limit:g} s per query"
        else:
            what = "ended its worker"
        return (
            f"The simulator {what} {times} times on {pairs}. Everything that was answered before is kept. Look at this "
            "pair, or raise `timeout` or `retries`, and resume."
        )

    def _abandon_overdue(self) -> None:
        """Give up tasks of a foreign executor that take too long; their workers stay occupied."""
        assert self.engine.timeout is not None
        now = time.monotonic()
        for future, flight in list(self.flying.items()):
            ahead = 2 if len(self.flying) > self.engine.workers else 1  # it may have waited for its turn
            if now - flight.sent < _STARTING + ahead * flight.queries * self.engine.timeout:
                continue
            del self.flying[future]
            self.lost(flight.queries)
            for k in flight.chains:
                self.failures[k] += 1
                if self.failures[k] > self.engine.retries:
                    raise ExecutorError(self._why(k, now - flight.sent))
                self.waiting.appendleft(k)
