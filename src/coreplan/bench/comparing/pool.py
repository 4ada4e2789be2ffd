"""Tasks through an executor, as many at a time as it has workers; a worker that dies costs one task, and never the grid."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import Any

from ...base import CoreplanError, InputError, text_of
from ...simulate import Engine
from .one import Task, ended, hard_limit, run
from .row import INTERRUPTED, Row


def finished(tasks: list[Task], engine: Engine | None) -> Iterator[Row]:
    """The rows of tasks as they end; without an engine they are made in this process, one after the other.

    KeyboardInterrupt where a run was interrupted: its row would say nothing about its planner.
    """
    for row in _here(tasks) if engine is None else _Flights(tasks, engine).rows():
        if row.status == INTERRUPTED:
            raise KeyboardInterrupt
        yield row


def _here(tasks: list[Task]) -> Iterator[Row]:
    for task in tasks:
        yield run(task, os.getpid())


class _Flights:
    """Tasks that wait, those that are on their way, and those that may have killed a worker.

    When a worker dies, executors tell it of all that was on its way. The one task that is over its time is the culprit; if
    there is no such one, all are suspects, and suspects fly alone.
    """

    def __init__(self, tasks: list[Task], engine: Engine) -> None:
        self.engine, self.waiting, self.suspects = engine, deque(tasks), deque[Task]()
        self.flying: dict[Future[Row], tuple[Task, float]] = {}

    def rows(self) -> Iterator[Row]:
        try:
            while self.waiting or self.suspects or self.flying:
                self._launch()
                done, _ = wait(self.flying, return_when=FIRST_COMPLETED)
                yield from self._landed(done)
        finally:
            if self.flying:  # this process gives up: nobody would see what they find
                self.engine.abandon()

    def _launch(self) -> None:
        alone = not self.waiting and bool(self.suspects)
        room = 1 if alone else self.engine.workers
        queue = self.suspects if alone else self.waiting
        while queue and len(self.flying) < room:
            task = queue.popleft()
            executor = self.engine.executor
            try:
                future = executor.submit(run, task, os.getpid())
            except BrokenExecutor as error:
                self.engine.broken(executor, error)
                queue.appendleft(task)
                continue
            self.flying[future] = task, time.monotonic()

    def _landed(self, done: set[Future[Row]]) -> Iterator[Row]:
        """The rows of tasks that have ended; where their worker died, of the one to blame."""
        lost: list[tuple[Task, float]] = []
        fault: BrokenExecutor | None = None
        for future in done:
            task, begin = self.flying.pop(future)
            error = future.exception()
            if error is None:
                yield future.result()
            elif isinstance(error, BrokenExecutor):
                lost.append((task, time.monotonic() - begin))
                fault = error
            else:
                raise _not_sent(task, error) from error
        if fault is None:
            return
        if self.engine.shared_fate:  # all others have the same fate, if they do not know it yet
            lost += [(task, time.monotonic() - begin) for task, begin in self.flying.values()]
            self.flying.clear()
        self.engine.broken(self.engine.executor, fault)
        yield from self._blamed(lost)

    def _blamed(self, lost: list[tuple[Task, float]]) -> Iterator[Row]:
        over = [found for found in lost if found[1] >= (hard_limit(found[0].seconds) or float("inf"))]
        guilty = lost if len(lost) == 1 else over if len(over) == 1 else []
        for task, seconds in lost:
            if guilty and task is guilty[0][0]:
                yield ended(task, seconds)
            elif guilty:
                self.waiting.append(task)
            else:
                self.suspects.append(task)


def _not_sent(task: Task, error: BaseException) -> Any:
    """What a worker could not be given, or could not give back."""
    if isinstance(error, CoreplanError):
        return error
    return InputError(
        f"The run of '{task.row.planner}' on '{task.row.problem}' cannot be made by workers ({type(error).__name__}: "
        f"{text_of(error)[:300]}). Give problems and planners by name, or make the runs here: executor='serial'."
    )
