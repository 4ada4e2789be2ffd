"""`compare`: planners side by side on problems, at several budgets and seeds, with one counter of queries for all."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ...base import FolderLock, InputError, as_choice, as_count, as_path, as_positive
from ...run import make_progress
from ...simulate import Engine, as_engine, processes
from . import tuning
from .grid import Entrant, Grid, Place, grid_of, require_size
from .one import CLOCKS, Task
from .pool import finished
from .results import Results
from .row import DEFAULT, Row
from .table import RESULTS_FILE, TRIALS_FILE, Kept, require_same


def compare(
    problems: Any,
    planners: Any = None,
    *,
    budgets: Any,
    seeds: Any = 5,
    seconds: float | None = None,
    clock: str = "wall",
    tune: int = 0,
    rollouts: int = 1000,
    jobs: int | None = None,
    executor: Any = None,
    out: str | Path | None = None,
    progress: Any = False,
) -> Results:
    """Run every planner on every problem with every budget and seed, and return one tidy table.

    Each run is `plan(..., reality=0)`: the whole budget is the planner's, and queries are counted in one place. Its policy
    is then judged: exactly where states can be enumerated, else by rollouts that are not counted. A planner that cannot
    work on a problem is a row with its refusal as a sentence; one that raises, or whose process dies, is a row "failed",
    and the grid goes on.

    Parameters
    ----------
    problems: names of built-in problems, `path/to/file.py:name`, or `Problem`s.
    planners: names, with settings as in "primal-dual:K=5,eta=1e-4", or planners; by default all that are built in. "default"
        is the planner that `plan` picks. Each has its documented default settings unless others are given.
    budgets: simulator queries, one number or several; each is a run of its own.
    seeds: how many, or which; below a million.
    seconds: the limit per run, without compiling. A run that is over it has the status "time is up", and the policy that it
        had by then. A worker that does not stop by itself is ended after twice that and a minute, without a policy.
    clock: what the limit counts: "wall", or "processor", the processor time of the process that makes the run, which other
        programs on the machine do not prolong.
    tune: besides the defaults, the best of so many random configurations of every planner that has something to tune, each
        tried with two seeds that are not scored and judged by rollouts, never by the optimum. Rows of both are kept apart.
    rollouts: by which a policy is judged where states cannot be enumerated, and by which configurations are chosen.
    jobs: how many runs at a time, by default one per processor; 1 is this process.
    executor: who makes the runs: "serial", "processes", "ray", or any `concurrent.futures.Executor`; with more than one job,
        processes. A run that hangs, or crashes, can only be ended where it has a process of its own.
    out: a folder for results.csv, which grows by a line whenever a run ends. Given again, it goes on with the runs that are
        missing; it may then have more problems, planners, budgets or seeds, but not other conditions.
    progress: True for a bar on stderr, None for a bar if stderr is a terminal.
    """
    grid = grid_of(problems, planners, budgets, seeds)
    seconds, tune = (
        as_positive("compare", optional=True, seconds=seconds),
        as_count("compare", least=0, tune=tune),
    )
    rollouts, folder = (
        as_count("compare", least=2, rollouts=rollouts),
        as_path("compare", optional=True, out=out),
    )
    clock = as_choice("compare", CLOCKS, clock=clock)
    engine, ours = _engine(executor, as_count("compare", optional=True, jobs=jobs))
    _require_size(grid, tune)
    with FolderLock(folder) if folder is not None else nullcontext():
        if folder is not None:
            require_same(folder, {"seconds": seconds, "clock": clock, "rollouts": rollouts})
        work = _Work(
            grid,
            tune=tune,
            seconds=seconds,
            clock=clock,
            rollouts=rollouts,
            engine=engine,
            folder=folder,
            progress=progress,
        )
        try:
            return work.results()
        finally:
            if ours and engine is not None:
                engine.shut()


def _engine(executor: Any, jobs: int | None) -> tuple[Engine | None, bool]:
    """Who makes the runs, and whether it was made here; None: this process."""
    if executor is None:
        return (None, False) if jobs == 1 else (processes(jobs), True)
    if isinstance(executor, str) and executor == "serial":
        if jobs not in (None, 1):
            raise InputError(
                f"`serial` makes one run at a time, and {jobs} jobs were asked for. Try `processes`."
            )
        return None, False
    return as_engine(executor, **({} if jobs is None or not isinstance(executor, str) else {"workers": jobs}))


def _require_size(grid: Grid, tune: int) -> None:
    cells = len(grid.places) * len(grid.entrants) * len(grid.budgets)
    require_size(cells * (len(grid.seeds) * (2 if tune else 1) + tune * len(tuning.SEEDS)))


class _Work:
    """All runs of a comparison: those that choose settings first, then those that are scored."""

    def __init__(
        self, grid: Grid, *, tune: int, seconds: float | None, clock: str, rollouts: int, engine: Engine | None,
        folder: Path | None, progress: Any,
    ) -> None:  # fmt: skip
        self.grid, self.tune, self.seconds, self.clock, self.rollouts = grid, tune, seconds, clock, rollouts
        self.engine, self.progress = engine, progress
        self.kept, self.tried = Kept(folder, RESULTS_FILE), Kept(folder, TRIALS_FILE)

    def results(self) -> Results:
        """The rows of this grid, those included that an earlier comparison in the same folder made."""
        if self.tune:
            self._run(tuning.trials(self.grid, self.tune, self._task), self.tried, "choosing")
        tasks = self._scored()
        self._run(tasks, self.kept, "comparing")
        return Results([self.kept.rows[task.row.key] for task in tasks])

    def _task(self, place: Place, entrant: Entrant, budget: int, seed: int, tuned: str) -> Task:
        row = Row(problem=place.label, planner=entrant.label, tuning=tuned, seed=seed, budget=budget)
        return Task(
            row=row, problem=place.problem, planner=entrant.planner, settings=entrant.settings, seconds=self.seconds,
            rollouts=self.rollouts, clock=self.clock,
        )  # fmt: skip

    def _scored(self) -> list[Task]:
        """One task per row. Where no configuration gave a policy, its rows are kept at once."""
        found = []
        for place in self.grid.places:
            for entrant in self.grid.entrants:
                for budget in self.grid.budgets:
                    found += [self._task(place, entrant, budget, seed, DEFAULT) for seed in self.grid.seeds]
                    found += self._tuned(place, entrant, budget)
        return found

    def _tuned(self, place: Place, entrant: Entrant, budget: int) -> list[Task]:
        configured = tuning.configurations(entrant, self.tune) if self.tune else []
        if not configured:
            return []
        names = {f"trial {k} of {self.tune}" for k in range(self.tune)}
        about = (place.label, entrant.label, budget)
        rows = [
            row for row in self.tried.rows.values()
            if row.tuning in names and (row.problem, row.planner, row.budget) == about
        ]  # fmt: skip
        chosen, called = tuning.best(entrant, rows, self.tune), tuning.name_of(self.tune)
        tasks = [self._task(place, chosen or entrant, budget, seed, called) for seed in self.grid.seeds]
        for task in tasks if chosen is None else []:
            if task.row.key not in self.kept.rows:
                self.kept.add(tuning.without_settings(task.row, rows))
        return tasks

    def _run(self, tasks: list[Task], kept: Kept, doing: str) -> None:
        """Make the runs that are missing."""
        missing = [task for task in tasks if task.row.key not in kept.rows]
        done = len(tasks) - len(missing)
        bar = make_progress(self.progress, len(tasks), done, "compare", doing, "runs")
        try:
            for row in finished(missing, self.engine):
                kept.add(row)
                done += 1
                bar.update(done)
        finally:
            bar.close()
