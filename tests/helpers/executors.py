"""Executors that run tasks at once in this process, and break when they are told to; and simulators for them."""

from __future__ import annotations

import copy
from concurrent.futures import BrokenExecutor, Executor, Future

import coreplan
from coreplan.simulate.elsewhere.engine import Engine


class Here(Executor):
    """Runs every task when it is submitted, on copies of what it is given, as if it had been sent.

    `breaks`: numbers of tasks (0, 1, ...) at which the executor dies: that task and all later ones fail.
    `forgets`: every worker has forgotten the model, unless it is sent along.
    """

    def __init__(self, breaks=(), log=None):
        self.breaks, self.log, self.dead, self.closed = set(breaks), [] if log is None else log, False, False

    def submit(self, function, *arguments):
        if self.closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        number = len(self.log)
        self.log.append(arguments)
        future = Future()
        if self.dead or number in self.breaks:
            self.dead = True
            future.set_exception(BrokenExecutor("a worker died"))
            return future
        try:
            future.set_result(copy.deepcopy(function(*copy.deepcopy(arguments))))
        except Exception as error:
            future.set_exception(error)
        return future


class Eager(Engine):
    """Sends everything, however quick it is."""

    def pays(self, queries, chains):
        return True

    def end(self):
        """Nothing is said of what it costs."""


def breaking(breaks, *, workers=2, retries=3):
    """An engine of ours whose executor dies at the tasks of these numbers and is replaced."""
    log = []
    engine = Eager(
        "breaking",
        lambda: Here(breaks, log),
        workers=workers,
        retries=retries,
        ours=True,
        close=lambda e: None,
    )
    engine.log = log
    return engine


def eager(executor, workers=2, **more):
    """An engine for any executor that sends everything."""
    return Eager("eager", lambda: executor, workers=workers, **more)


def walk(block=4, places=6):
    """A corridor of places, one state at a time, with small blocks so that there is something to share out."""

    def step(rng, x, a):
        y = min(x + 1, places - 1) if a == 1 and rng.random() < 0.8 else max(x - 1, 0)
        return float(y == places - 1), y

    model = coreplan.ScalarModel(2, lambda rng: rng.integers(places), step)
    model.block = block
    return coreplan.Problem(model, coreplan.features.one_hot(places, 2), 0.9, name="walk")
