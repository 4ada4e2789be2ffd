"""`Results`: the table that a comparison comes to, what it says of each planner, and its pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...base import FloatArray, InputError, as_choice, as_path, as_positive, files, shown
from ...plots import draw_estimates, draw_panels, draw_profiles
from . import statistics
from .row import COLUMNS, DEFAULT, REFUSED, Row, line_of
from .statistics import Estimate
from .table import RESULTS_FILE, read_rows

FLOOR = 1e-5  # of sub in pictures with logarithmic axes, and in profiles
PICTURES = ("sub", "profile", "mean", "improvement")


class Cell(NamedTuple):
    """All seeds of one planner on one problem with one budget."""

    problem: str
    planner: str  # with how it was tuned, if it was
    budget: int
    what: str  # "sub", "value" where the optimum is not known, or "" where there is no number
    median: float
    low: float  # the quartiles
    high: float
    runs: int
    failed: int  # runs without a policy
    queries: float  # medians
    seconds: float
    memory: float
    statuses: tuple[str, ...]
    sentence: str  # why there is no number

    def __str__(self) -> str:
        if not self.what:
            return self.sentence
        text = f"{self.median:.2g} ({self.low:.2g} to {self.high:.2g})"
        return text if not self.failed else f"{text}, {self.failed} of {self.runs} failed"


class Overall(NamedTuple):
    """What a planner's runs come to over all tasks, a task being a problem at a budget."""

    planner: str
    tasks: int  # those whose optimum is known and which it does not refuse
    mean: Estimate | None  # the interquartile mean of sub
    reached: dict[str, int]  # by problem: the least budget at which the median of sub was at most a level


class Results:
    """The rows of a comparison. `print` shows, for each problem, medians and quartiles of sub over seeds.

    sub = (optimum - value) / (optimum - uniform) is 0 for an optimal policy and 1 for the uniform one. A run that failed
    counts as 1, since the uniform policy needs no planning; a refusal counts as nothing, and its sentence is shown.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        if not isinstance(rows, (list, tuple)) or not all(isinstance(row, Row) for row in rows):
            raise InputError(f"`Results(rows=...)` must be rows of a comparison, got {shown(rows)}.")
        self.rows = list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @property
    def problems(self) -> list[str]:
        """Their names, in the order of the rows."""
        return list(dict.fromkeys(row.problem for row in self.rows))

    @property
    def planners(self) -> list[str]:
        """Their names, with how they were tuned."""
        return list(dict.fromkeys(map(_name, self.rows)))

    @property
    def budgets(self) -> list[int]:
        """All budgets, from small to large."""
        return sorted({row.budget for row in self.rows})

    def csv(self) -> str:
        """The table as comma-separated text, as in results.csv."""
        return line_of(list(COLUMNS)) + "".join(row.line() for row in self.rows)

    def save(self, path: str | Path) -> None:
        """Write the table to a file, in place of what was there."""
        files.write_atomic(as_path("Results.save", path=path), self.csv().encode())

    @classmethod
    def load(cls, path: str | Path) -> Results:
        """The table in a file, or in the folder of a comparison."""
        where = as_path("Results.load", path=path)
        return cls(read_rows(where / RESULTS_FILE if where.is_dir() else where))

    # What it says.

    def cells(self) -> list[Cell]:
        """One cell for each problem, planner and budget."""
        groups: dict[tuple[str, str, int], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.problem, _name(row), row.budget), []).append(row)
        return [_cell(key, rows) for key, rows in groups.items()]

    def overall(self, level: float = 0.05) -> list[Overall]:
        """For each planner the interquartile mean of sub with its interval, and the least budgets that reach a level."""
        level = as_positive("Results.overall", level=level)
        cells = [cell for cell in self.cells() if cell.what == "sub"]
        found = []
        for name in self.planners:
            tasks = list(self._losses(name).values())
            mean = statistics.bootstrap(statistics.interquartile_mean, _matrix(tasks)) if tasks else None
            reached: dict[str, int] = {}
            for cell in sorted(cells, key=lambda c: -c.budget):
                if cell.planner == name and cell.median <= level:
                    reached[cell.problem] = cell.budget
            found.append(Overall(name, len(tasks), mean, reached))
        return found

    def improvement(self, a: str, b: str) -> Estimate:
        """The probability that a run of planner `a` loses less than one of `b`, over the tasks that both have runs on."""
        names = self.planners
        first, second = (
            self._losses(as_choice("Results.improvement", names, **{key: name}))
            for key, name in (("a", a), ("b", b))
        )
        both = [task for task in first if task in second]
        if not both:
            raise InputError(f"'{a}' and '{b}' have no task in common whose optimum is known.")
        x, y = (_matrix([losses[task] for task in both]) for losses in (first, second))
        return statistics.bootstrap(statistics.probability_of_improvement, x, y)

    def _losses(self, planner: str) -> dict[tuple[str, int], list[float]]:
        """sub over seeds, by task, of the tasks whose optimum is known and which the planner does not refuse."""
        subs = {row.problem for row in self.rows if row.sub is not None}
        found: dict[tuple[str, int], list[float]] = {}
        for row in self.rows:
            if _name(row) == planner and row.loss is not None and row.problem in subs:
                found.setdefault((row.problem, row.budget), []).append(row.loss)
        return found

    # Pictures.

    def plot(self, what: str = "sub", *, ax: Any = None) -> Any:
        """A figure by Matplotlib (the extra `plot`); returns the figure.

        Parameters
        ----------
        what: "sub": medians over seeds against queries, with quartiles, one panel per problem (values where the optimum is
            not known); "profile": the share of runs whose sub is at most a level, over all levels; "mean": interquartile
            means of sub with their intervals; "improvement": the probability that the first planner is better than each
            other one.
        ax: axes of your own, for all but "sub" with several problems; by default a new figure.
        """
        draw: dict[str, Callable[[Any], Any]] = {
            "sub": self._panels, "profile": self._profiles, "mean": self._means, "improvement": self._improvements,
        }  # fmt: skip
        return draw[as_choice("Results.plot", PICTURES, what=what)](ax)

    def _panels(self, ax: Any) -> Any:
        panels: dict[str, Any] = {}
        for problem in self.problems:
            cells = [cell for cell in self.cells() if cell.problem == problem and cell.what]
            lines: dict[str, Any] = {}
            for name in self.planners:
                rows = [(c.queries, c.median, c.low, c.high) for c in cells if c.planner == name]
                if rows:
                    lines[name] = np.array(sorted(rows), dtype=np.float64)
            if lines:
                panels[problem] = (cells[0].what, lines)
        if not panels:
            raise InputError("There is nothing to draw: no run of this comparison gave a policy.")
        return draw_panels("Results.plot", panels, self.planners, FLOOR, ax)

    def _profiles(self, ax: Any) -> Any:
        levels = np.logspace(np.log10(FLOOR), 0.0, 101)
        lines = {
            name: statistics.profile(_matrix(list(tasks.values())), levels)
            for name in self.planners
            if (tasks := self._losses(name))
        }
        _require_any(lines)
        return draw_profiles("Results.plot", levels, lines, ax)

    def _means(self, ax: Any) -> Any:
        found = {f"{o.planner} ({o.tasks})": o.mean for o in self.overall() if o.mean is not None}
        _require_any(found)
        return draw_estimates("Results.plot", found, "interquartile mean of sub (tasks)", None, ax)

    def _improvements(self, ax: Any) -> Any:
        first, *others = self.planners
        mine = self._losses(first)
        found = {
            name: self.improvement(first, name) for name in others if mine.keys() & self._losses(name).keys()
        }
        _require_any(found)
        return draw_estimates("Results.plot", found, f"P({first} is better)", 0.5, ax)

    def __str__(self) -> str:
        """For each problem one line per planner: medians and quartiles over seeds, or the sentence of a refusal."""
        return "\n".join(f"{problem}\n{self._text(problem)}" for problem in self.problems)

    def _text(self, problem: str) -> str:
        cells = [cell for cell in self.cells() if cell.problem == problem]
        wide = max(len(cell.planner) for cell in cells)
        return "\n".join(
            f"  {c.planner:<{wide}}  {c.budget:>10,}  {c.what or c.statuses[0]:<7} {c}" for c in cells
        )

    def __repr__(self) -> str:
        return f"Results({len(self)} runs of {len(self.planners)} planners on {len(self.problems)} problems)"


def _name(row: Row) -> str:
    return row.planner if row.tuning == DEFAULT else f"{row.planner}, {row.tuning}"


def _cell(key: tuple[str, str, int], rows: list[Row]) -> Cell:
    losses = [row.loss for row in rows if row.loss is not None]
    values = [row.value for row in rows if row.value is not None]
    exact = any(row.sub is not None for row in rows)
    what, numbers = ("sub", losses) if exact else ("value", values) if values else ("", [])
    median, low, high = statistics.quartiles(numbers) if numbers else (np.nan, np.nan, np.nan)
    first = next((row for row in rows if row.value is None), None)
    problem, planner, budget = key
    return Cell(
        problem=problem, planner=planner, budget=budget, what=what, median=median, low=low, high=high, runs=len(rows),
        failed=sum(row.value is None and row.status != REFUSED for row in rows), queries=_median(rows, "queries"),
        seconds=_median(rows, "seconds"), memory=_median(rows, "memory"),
        statuses=tuple(dict.fromkeys(row.status for row in rows)), sentence="" if first is None else first.reason,
    )  # fmt: skip


def _median(rows: list[Row], name: str) -> float:
    found = [number for row in rows if (number := getattr(row, name)) is not None]
    return float(np.median(found)) if found else float("nan")


def _matrix(tasks: list[list[float]]) -> FloatArray:
    """Losses `[runs, tasks]`; where seeds are missing from some tasks, those that all have the number of."""
    runs = min(len(losses) for losses in tasks)
    return np.array([losses[:runs] for losses in tasks], dtype=np.float64).T


def _require_any(found: dict[str, Any]) -> None:
    if not found:
        raise InputError("There is nothing to draw: no run has a known sub; `what='sub'` draws values.")
