"""A simulator that counts what it is paid for, and plans with it; and the records of a query log."""

from __future__ import annotations

import os

import numpy as np

import coreplan
from coreplan.simulate.log.records import scanned
from helpers.executors import walk

BUDGET = 600


class Paid:
    """A simulator that counts what it is paid for: one state at a time, batches, or a function of noise."""

    def __init__(self, kind="scalar", places=6):
        self.queries = 0
        self.problem = walk(places=places) if kind == "scalar" else self._batched(kind, places)
        model = self.problem.model
        name = "step" if kind == "batches" else "_step"
        step = getattr(model, name)

        def counted(*arguments):
            n = 1 if kind == "scalar" else len(arguments[0] if kind == "noise" else arguments[1])
            answer = step(*arguments)
            self.queries += n
            return answer

        object.__setattr__(model, name, counted)

    @staticmethod
    def _batched(kind, places):
        def step(x, a, u):
            y = np.where((a == 1) & (u[:, 0] < 0.8), np.minimum(x + 1, places - 1), np.maximum(x - 1, 0))
            return (y == places - 1) * 1.0, y

        def initial(rng, n):
            return rng.integers(places, size=n)

        if kind == "noise":
            model = coreplan.NoiseModel(2, initial, step, 1)
        else:
            model = coreplan.FunctionModel(
                2, initial, lambda rng, x, a: step(x, a, rng.random((len(x), 1))), block=32
            )
        return coreplan.Problem(model, coreplan.features.one_hot(places, 2), 0.9, name="walk")


def outcome(paid, planner="plug-in", **more):
    """Everything that must not depend on a log; what the simulator was paid for; and what the log had."""
    before = paid.queries
    settings = {"budget": BUDGET, **more}
    found = coreplan.plan(paid.problem, planner=planner, **settings)
    same = (
        found.policy.theta.tobytes(), found.queries, found.initial_draws, found.reality_queries, found.status,
        None if found.earned is None else found.earned.value,
    )  # fmt: skip
    return same, paid.queries - before, found.logged_queries


def records_of(path):
    with open(path, "rb") as file:
        return list(scanned(file.fileno(), os.path.getsize(path), 0))
