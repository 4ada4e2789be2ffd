"""`LocalPolicy`: a policy that is no vector, since a planner plans again at every state that is visited."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..base import IntArray, States, as_count, as_kind, check_seed, one_thread
from ..core import CoreSet
from ..planners import Planner, require_planner
from ..problem import FunctionModel, Problem
from ..run import Run


class LocalPolicy:
    """Acts at a state by planning for it alone: `planner` is run anew, with `budget` queries and the state as only start.

    It is a function of a batch of states that returns actions, and so can stand wherever a rule can: `evaluate(problem,
    rule)`, `compare_policies`, `plan(baseline=rule)`. What it simulates at run time goes through the one door and is
    counted in `queries`; `actions` is how many times it acted.

    Parameters
    ----------
    planner: any planner; `CoreStoMP` and `ConfidentLSPI` are those of papers that plan so.
    budget: queries per action.
    core: the core set, for a planner that needs one; by default the problem's own.
    seed: of the first action; every action has noise of its own.
    """

    def __init__(
        self, problem: Problem, planner: Planner, *, budget: int, core: CoreSet | None = None, seed: int = 0
    ) -> None:
        as_kind("LocalPolicy", Problem, "a Problem", problem=problem)
        as_kind("LocalPolicy", CoreSet, "a CoreSet(states, actions)", optional=True, core=core)
        require_planner(planner)
        self.problem, self.planner, self.core = problem, planner, core
        self.budget, self.seed = as_count("LocalPolicy", budget=budget), check_seed(seed)
        self.queries = self.actions = 0

    def __call__(self, states: States) -> IntArray:
        """One action per state, `[n]`."""
        return np.array([self._act(states[i : i + 1]) for i in range(len(states))], dtype=np.int64)

    @one_thread
    def _act(self, state: Any) -> int:
        model = self.problem.model
        there = FunctionModel(model.n_actions, lambda rng, n: np.repeat(state, n, axis=0), model.step)
        problem = replace(self.problem, model=there)
        run = Run.of(
            problem, self.planner, core=self.core, budget=self.budget, seed=(self.seed + self.actions) % 2**63
        )
        while run.left:
            run.advance(self.budget)
        self.queries, self.actions = self.queries + run.simulator.queries, self.actions + 1
        own = run.planner.action(run.loop.state)
        return int(run.policy().act(state, rng=run.rng)[0]) if own is None else own
