"""`Batch`: chains of calls on their way to workers and back, with every fault of a worker on the way.

Answers are handed out in the order of the chains, so that nobody can tell who simulated what. A chain whose worker died is
simulated again from the state in which its stream was: the same noise, the same bits.
"""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple

from ...base import ExecutorError, FileError, text_of
from .engine import Engine, Parcel
from .task import Answer, CannotTake, Chain, Done, is_transient, joined, rest, work

_LOOK = 0.2  # seconds after which it is looked whether a task is overdue
_SOON = 0.5  # seconds that a task has to end when nobody waits for it any more
_STARTING = 30.0  # seconds that a foreign worker may take before a task's time begins to count


class Flight(NamedTuple):
    """A task on its way."""

    chains: tuple[int, ...]
    queries: int
    sent: float  # when
    alone: (
        bool  # no other task was on its way, and it did not carry the model: what it takes besides is its own
    )
    suspect: bool  # one chain, and nothing else is on its way, so that it is known who is at fault
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
        self.engine, self.parcel, self.lost, self.name, self.came = engine, parcel, lost, name, came
        self.chains = list(chains)  # what is left of each
        self.sizes = [chain.size for chain in chains]
        self.begun: dict[int, list[Answer]] = {}  # what came before a fault in the middle of a chain
        self.answered: dict[int, list[Answer]] = {}
        self.waiting = deque(range(len(chains)))
        self.suspects: deque[int] = deque()  # chains that are sent alone, when nothing else is on its way
        self.flying: dict[Future[Done | None], Flight] = {}
        self.landed: SimpleQueue[tuple[Batch, Future[Done | None]]] = SimpleQueue()
        self.failures: Counter[int] = Counter()
        self.deaths: Counter[int] = Counter()  # of workers while a chain was on its way, its own or not
        self.next: Batch | None = (
            None  # what will be asked after this; its tasks go where workers would be idle
        )
        self.early = 0  # tasks that were sent before anybody waited for them
        self.waited_for = False
        self.error: ExecutorError | None = None  # met before anybody waited

    def take(self, k: int) -> list[Answer]:
        """The answers to chain k, when they are there."""
        self.waited_for, begin = True, time.monotonic()
        while k not in self.answered:
            if self.error is not None:
                raise self.error
            self._fill()
            self._wait()
        self.engine.waited(time.monotonic() - begin)
        return self.answered.pop(k)

    def precede(self, following: Batch) -> None:
        """Send tasks of the following batch when this one has none left to send."""
        self.next, following.landed = following, self.landed

    def close(self) -> None:
        """Take back what is on its way. What nobody waits for any more is paid and lost, unless a log keeps it.

        Workers of ours who do not come to an end soon are ended: what they simulate is for nobody.
        """
        flying, self.flying = self.flying, {}
        begun = {future: flight for future, flight in flying.items() if not future.cancel()}
        if wait(begun, timeout=_SOON).not_done and self.engine.ours:
            self.engine.abandon()
        paid = sum(flight.queries for future, flight in begun.items() if not self._kept(future, flight))
        if self.came is None:
            paid += sum(self.sizes[k] for k in self.answered)
            paid += sum(self.sizes[k] - self.chains[k].size for k in self.begun)
        self.answered.clear()
        self.begun.clear()
        self.waiting.clear()
        self.suspects.clear()
        self.lost(paid)

    def _kept(self, future: Future[Done | None], flight: Flight) -> bool:
        """Whether a task that nobody waits for has come back, and its answers are kept."""
        if self.came is None or not future.done() or future.cancelled() or future.exception() is not None:
            return False
        done = future.result()
        try:
            for k, answers in zip(flight.chains, done.answers if done else [], strict=False):
                self.came(self.chains[k], answers)
        except FileError:  # a disk that is full, which is said already
            return False
        return done is not None

    # Away.

    @property
    def away(self) -> int:
        """Tasks that are on their way, also those of the following batch."""
        return len(self.flying) + (len(self.next.flying) if self.next is not None else 0)

    def _fill(self) -> None:
        """Send tasks, about twice as many as there are workers; suspects one by one, when nothing else is on its way."""
        if self.suspects:
            if not self.away:
                self._send((self.suspects.popleft(),), suspect=True)
            return
        room = 2 * self.engine.workers - self.away
        room -= self._send_waiting(room)
        if self.next is not None and not self.waiting:
            self.next.send_early(room)

    def send_early(self, room: int) -> None:
        """Send tasks before anybody waits for their answers; no more than keep the workers busy meanwhile."""
        if self.error is None and not self.suspects:
            most = 2 * self.engine.workers - self.early
            with self._for_later():
                self.early += self._send_waiting(min(room, most))

    def _send_waiting(self, room: int) -> int:
        """Send at most so many tasks; returns how many."""
        sent = 0
        while self.waiting and sent < room:
            first = self.waiting.popleft()
            if self.failures[first]:  # it is to be seen whether it was this one
                self._send((first,))
            else:
                many = self.engine.together(self.chains[first].size, len(self.waiting) + 1)
                chains = [first]
                while len(chains) < many and self.waiting and not self.failures[self.waiting[0]]:
                    chains.append(self.waiting.popleft())
                self._send(tuple(chains))
            sent += 1
        return sent

    def _send(self, chains: tuple[int, ...], *, suspect: bool = False, whole: bool | None = None) -> None:
        """Send a task; the first ones, one for each worker, carry the model (`whole`)."""
        engine, queries = self.engine, sum(self.chains[k].size for k in chains)
        limit = engine.timeout if engine.ours else None
        load = [self.chains[k] for k in chains]
        for _ in range(2):
            executor = engine.executor
            carries = self.parcel.sent < engine.workers or suspect if whole is None else whole
            try:
                future = executor.submit(
                    work, self.parcel.name, self.parcel.data if carries else None, load, limit
                )
                break
            except BrokenExecutor as error:
                engine.broken(executor, error)
            except RuntimeError as error:  # it was shut down
                if engine.ours:
                    engine.broken(executor, error)
                    continue
                raise ExecutorError(
                    f"The executor takes no more work ({text_of(error)}). Everything that was answered before is kept; make "
                    "a new executor and resume."
                ) from error
        else:
            raise ExecutorError("The executor breaks as soon as it is made. Try `serial`.")
        self.parcel.sent += carries
        alone = self.waited_for and not carries and not self.away
        self.flying[future] = Flight(
            chains=chains,
            queries=queries,
            sent=time.monotonic(),
            alone=alone,
            suspect=suspect,
            executor=executor,
        )
        future.add_done_callback(lambda done: self.landed.put((self, done)))

    # Back.

    def _wait(self) -> None:
        """Take back what has come, or look for what is overdue."""
        try:
            batch, future = self.landed.get(timeout=_LOOK)
        except Empty:
            if self.engine.timeout is not None and not self.engine.ours:
                self._abandon_overdue()
            return
        with suppress(Empty):
            while True:
                batch.take_back(future, self)
                batch, future = self.landed.get_nowait()

    def take_back(self, future: Future[Done | None], waited_for: Batch) -> None:
        """A task has come back, while somebody waited for this batch or for an earlier one."""
        flight = self.flying.pop(future, None)
        if flight is None:  # it was given up
            return
        if waited_for is self:
            self._landed(future, flight)
            return
        with self._for_later():
            self._landed(future, flight)

    @contextmanager
    def _for_later(self) -> Iterator[None]:
        """Around what is done before anybody waits for this batch: an error is raised when somebody does."""
        try:
            yield
        except ExecutorError as error:
            self.error = error

    def _landed(self, future: Future[Done | None], flight: Flight) -> None:
        try:
            done = future.result()
        except BrokenExecutor as error:
            self._died(flight, error)
        except CannotTake as error:
            raise ExecutorError(
                f"A worker could not take the simulator: {text_of(error)}. What it is made of must be there too: the same "
                "packages, and modules that can be imported."
            ) from error
        except CancelledError as error:
            if self.engine.ours:
                self._failed(flight, error)
                return
            raise ExecutorError(
                "A task was cancelled by someone else: the executor was shut down. Everything that was answered before is "
                "kept; make a new executor and resume."
            ) from error
        except Exception as error:
            if "pickle" in f"{type(error).__name__} {error}".lower():
                raise ExecutorError(
                    f"What the simulator returned cannot be sent back from a worker ({text_of(error)}). Let it return "
                    "arrays and numbers."
                ) from error
            self._failed(flight, error)
        else:
            if done is None:  # a worker that has not seen the model yet
                self._send(flight.chains, suspect=flight.suspect, whole=True)
                return
            elapsed = time.monotonic() - flight.sent
            self.engine.measured(flight.queries, done.seconds, elapsed, flight.alone)
            for k, answers in zip(flight.chains, done.answers, strict=True):
                self._came(k, answers)

    def _came(self, k: int, answers: list[Answer]) -> None:
        """A chain is answered; if the simulator raised, somewhere else it may not: what comes before that is kept."""
        chain, error = self.chains[k], answers[-1].error
        if self.came is not None:
            self.came(chain, answers)
        if is_transient(error) and self.failures[k] < self.engine.retries:
            self.failures[k] += 1
            self.begun[k] = joined(self.begun.get(k), answers)
            self.chains[k] = rest(chain, answers)
            self.waiting.appendleft(k)
        else:
            self.answered[k] = joined(self.begun.pop(k, None), answers)

    def _died(self, flight: Flight, error: BaseException) -> None:
        """A worker died while this task was on its way: its own, or that of another task of the same executor.

        Where it may have been another's, all that was on its way gets a second chance, since most deaths are nobody's
        fault; what is on its way at a second death is sent alone.
        """
        if not self.engine.shared_fate:
            self._failed(flight, error)
            return
        self.lost(flight.queries)
        self.engine.broken(flight.executor, error)
        if flight.suspect:
            self._blame(flight, error)
        for k in reversed(flight.chains):
            self.deaths[k] += 1
            if self.deaths[k] > 1:
                self.suspects.appendleft(k)
            else:
                self.waiting.appendleft(k)

    def _failed(self, flight: Flight, error: BaseException) -> None:
        """A task did not come back, by itself: its chains are sent again, each apart."""
        self.lost(flight.queries)
        if len(flight.chains) == 1:
            self._blame(flight, error)
        for k in reversed(flight.chains):
            self.failures[k] = max(self.failures[k], 1)
            self.waiting.appendleft(k)

    def _blame(self, flight: Flight, error: BaseException) -> None:
        """Count a failure of one chain; an ExecutorError if it has failed too often."""
        k = flight.chains[0]
        self.failures[k] += 1
        if self.failures[k] > self.engine.retries:
            raise ExecutorError(self._why(k, time.monotonic() - flight.sent, error)) from error

    def _why(self, k: int, elapsed: float, error: BaseException | None = None) -> str:
        chain, times, limit = self.chains[k], self.failures[k], self.engine.timeout
        pairs = f"{chain.size:,} pairs from {self.name(chain)} on" if chain.size > 1 else self.name(chain)
        signal = re.search(r"\bSIG[A-Z]+", text_of(error) if error is not None else "")
        what = f"The simulator ended its worker {times} times on {pairs}{f' ({signal[0]})' if signal else ''}"
        if limit is not None and elapsed >= limit and not signal:
            what = (
                f"The simulator took longer than the limit of {limit:g} s per query {times} times on {pairs}"
            )
        elif error is not None and not isinstance(error, BrokenExecutor):
            said = (text_of(error) or "no message").splitlines()[0][:200]
            what = (
                f"The executor failed {times} times on {pairs}, at last with {type(error).__name__}: {said}"
            )
        return (
            f"{what.rstrip('.')}. Everything that was answered before is kept. Look at this pair, or raise `timeout` or "
            "`retries`, and resume."
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
            if not future.cancel():  # it has begun
                self.lost(flight.queries)
            for k in flight.chains:
                self.failures[k] += 1
                if self.failures[k] > self.engine.retries:
                    raise ExecutorError(self._why(k, now - flight.sent))
                self.waiting.appendleft(k)
