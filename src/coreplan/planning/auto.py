"""`planner="auto"`: the first choice, and, where it ends with doubts, what is likely to help, all within one budget.

A stage is a run of its own, with a folder of its own (`1-plug-in`, `2-search`, ...) inside the run's. The policy of a later
stage takes the place of the one so far only where paired rollouts show that it earns more; those queries count too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..base import FileError, FolderLock, InputError, Interrupt, as_count, as_path, files
from ..core import CORE_FILE, CoreSet
from ..judge import LEAST, Faced, Reality, price
from ..planners import Planner, Status
from ..policy import POLICY_FILE, with_own_features
from ..problem import Problem
from ..run import EVALUATION_FILE, REALITY_FILE, RUN_FILE, TRACE_FILE, RunFolder, read_record
from ..tracking import Callbacks
from .advice import Way, pick, ways
from .defaults import ACCURACY
from .judges import Judges
from .result import Plan

AUTO = "auto"
FIRST = 0.5  # of the budget, for the first choice
RACE = 0.1  # of the budget, for paired rollouts of two policies
_STAGES = 3
_RACE_SEED = 2**62  # added to a seed: these rollouts share no noise with those that a stage was judged by


def is_auto(planner: Any, resumed: Path | None) -> bool:
    """Whether `planner` is "auto", or is left out and the run that is resumed was begun so."""
    if planner is not None or resumed is None:
        return isinstance(planner, str) and planner == AUTO
    try:
        return AUTO in read_record(resumed / RUN_FILE)
    except FileError:
        return False


@dataclass(frozen=True)
class Stage:
    """What one stage did, as it stands in run.json."""

    planner: str
    queries: int
    race: dict[str, Any] | None = None  # the paired rollouts against the policy so far
    won: bool = True


def plan_auto(
    plan: Callable[..., Plan], problem: Problem, core: CoreSet | None, *, budget: int | None, epsilon: Any, seed: int,
    out: Any, resume: bool, evaluate: Any, certify: Any, baseline: Any, **given: Any,
) -> Plan:  # fmt: skip
    """The plan of the first choice, or of what came after it. Without a budget, each stage has the one it would have."""
    where = as_path("plan", optional=True, out=out)
    budget, judges = as_count("plan", optional=True, budget=budget), Judges(evaluate, certify, seed)
    with FolderLock(where) if where is not None else nullcontext():
        kept = _Kept(where, resume)
        common = {"seed": seed, "baseline": baseline, "resume": resume, **given}
        chain = _Chain(plan, problem, core, budget=budget, kept=kept, common=common)
        result = chain.go(epsilon)
        return _judged(problem, result, judges, kept)


class _Kept:
    """The folder of the whole: stages in folders of their own, and the files of the stage whose policy stands."""

    def __init__(self, path: Path | None, resume: bool) -> None:
        self.path: Path | None = path
        self.record: dict[str, Any] = {}
        if path is None:
            return
        folder = RunFolder(path)
        self.record = read_record(path / RUN_FILE)
        if folder.used and not (resume and AUTO in self.record):
            raise FileError(
                f"{path} already holds a run. Resume it (resume=True, --resume), or give another folder."
                if not resume
                else f"{path} holds a run of one planner, not of planner='auto'. Resume it without a planner."
            )
        folder.require_own()
        if not folder.used:
            files.write_json(path / RUN_FILE, {"status": "running", AUTO: []})

    def stage(self, number: int, name: str) -> Path | None:
        return None if self.path is None else self.path / f"{number}-{name}"

    def race(self, number: int) -> Reality | None:
        """Paired rollouts that an earlier session made after stage `number`."""
        try:
            found = self.record[AUTO][number - 1]["race"]
            return None if found is None else Reality.from_dict(found)
        except (KeyError, IndexError, TypeError, ValueError, OverflowError):
            return None

    def write(self, stages: list[Stage], standing: Path | None, result: Plan, status: str) -> None:
        """The files of the stage that stands, and run.json with the story of all."""
        if self.path is None or standing is None:
            return
        for name in (POLICY_FILE, TRACE_FILE, CORE_FILE, REALITY_FILE):
            source = standing / name
            if source.exists():
                files.write_atomic(self.path / name, source.read_bytes())
            else:
                (self.path / name).unlink(missing_ok=True)
        said = {"status": status, "queries": result.queries, "reality_queries": result.reality_queries}
        said |= {"reason": result.reason, "helps": result.helps, "next": result.next, "picked": result.picked}
        record = read_record(standing / RUN_FILE) | said | {AUTO: [vars(stage) for stage in stages]}
        files.write_json(self.path / RUN_FILE, record)


class _Chain:
    """The stages, one after the other."""

    def __init__(
        self, plan: Callable[..., Plan], problem: Problem, core: CoreSet | None, *, budget: int | None, kept: _Kept,
        common: dict[str, Any],
    ) -> None:  # fmt: skip
        self.plan, self.problem, self.core, self.budget = plan, problem, core, budget
        self.kept, self.common, self.callbacks = kept, common, Callbacks.of(common.get("callbacks"))
        self.stages: list[Stage] = []
        self.tried: set[str] = set()
        self.spent = self.rollouts = self.draws = 0

    def go(self, epsilon: Any) -> Plan:
        first = pick(self.problem, self.core)
        planner, share = first.planner, self.budget
        if share is not None and self.problem.bounds is None:  # else nothing could come after `Refine`
            share = max(int(FIRST * share), 1)
        if epsilon is None and "epsilon" in planner.options():
            epsilon = ACCURACY  # what it does not need is left for others
        standing = self._stage(self.problem, planner, share, self.core, epsilon=epsilon)
        at = self._folder(planner.name)
        told = [f"auto: {self._told(standing)}"]
        result = self._summed(standing, told, first.why)
        while standing.status.doubted and len(self.stages) < _STAGES:
            self.kept.write(self.stages, at, result, "running")
            found = self._next(standing)
            if found is None:
                break
            way, (problem, planner), room = found
            try:
                other = self._stage(problem, planner, room, self.core if planner.needs_core else None)
            except InputError as error:  # it cannot be done with this budget, these features
                told.append(f"{way.name} could not be tried ({error})")
                self.tried.add(way.name)
                continue
            race = self._race(standing, other)
            won = race is not None and race.lead is not None and race.lead.low > 0.0
            last = Stage(way.name, other.queries, None if race is None else race.as_dict(), won)
            self.stages[-1] = last
            told.append(f"{self._told(other)} and {_compared(race)}")
            if won:
                standing, at = other, self._folder(way.name)
            elif other.status.stopped:  # a policy that was not compared takes nobody's place
                standing = replace(standing, status=other.status)
            result = self._summed(standing, told, first.why)
            if other.status.stopped or not won:
                break
        self.kept.write(self.stages, at, result, result.status.value)
        return result

    def _folder(self, name: str) -> Path | None:
        return self.kept.stage(len(self.stages), name)

    def _stage(
        self,
        problem: Problem,
        planner: Planner,
        budget: int | None,
        core: CoreSet | None,
        epsilon: Any = None,
    ) -> Plan:
        """One run, with what it cost added to the whole."""
        folder = self.kept.stage(len(self.stages) + 1, planner.name)
        common = {**self.common, "callbacks": self.callbacks.stage(len(self.stages) + 1)}
        result = self.plan(problem, core, planner, budget=budget, epsilon=epsilon, out=folder, **common)
        self.tried.add(planner.name)
        self.stages.append(Stage(planner.name, result.queries))
        self.spent, self.draws = self.spent + result.queries, self.draws + result.initial_draws
        self.rollouts = self.rollouts + result.reality_queries
        return result

    def _next(self, result: Plan) -> tuple[Way, tuple[Problem, Planner], int | None] | None:
        """The first way that was not tried, with the problem, the planner and the budget it goes on with."""
        assert result.planner is not None
        spent, name = result.queries, result.planner.name
        for way in ways(self.problem, name, result.helps, spent, len(result.policy.theta)):
            if (way.name if way.begin else f"{name}, more") in self.tried:
                continue
            begin = way.begin(result.policy) if way.begin else (self.problem, type(result.planner)())
            self.tried.add(f"{name}, more")
            room = None if self.budget is None else self.budget - self.spent - self._race_room()
            if room is not None and room <= spent // 4:  # too little to add anything
                return None
            return way, begin, room if room is not None else max(way.cost, 1)
        return None

    def _race_room(self) -> int:
        """Queries for one race."""
        least = price(self.problem, True, LEAST)
        return least if self.budget is None else min(max(int(RACE * self.budget), least), self.budget // 4)

    def _race(self, standing: Plan, other: Plan) -> Reality | None:
        """Both policies side by side, with common noise; `lead` is the other's value minus that of the one that stands."""
        known = self.kept.race(len(self.stages))
        if known is None and other.status.stopped:
            return None
        if known is None:
            room = self._race_room()
            if self.budget is not None:
                room = max(min(room, self.budget - self.spent), 0)
            else:
                room = max(room, int(RACE * (self.spent)))
            key = (int(self.common["seed"]) + _RACE_SEED + len(self.stages)) % 2**64
            problem = with_own_features(self.problem, other.policy)
            known = Faced(problem, other.policy, seed=key, baseline=standing.policy).see(room, ahead=False)
            if known.fault is not None:
                known = replace(known, fault=None, lead=None)
        self.spent, self.rollouts = self.spent + known.queries, self.rollouts + known.queries
        return known

    def _told(self, result: Plan) -> str:
        assert result.planner is not None
        ended = "ended with doubts" if result.status.doubted else "ended without doubts"
        ended = "was stopped" if result.status.stopped else ended
        return f"{result.planner.name} {ended} after {result.queries:,} queries"

    def _summed(self, standing: Plan, told: list[str], why: str) -> Plan:
        """The plan that stands, with the queries of all stages and their story."""
        return replace(
            standing, queries=self.spent, reality_queries=self.rollouts, initial_draws=self.draws, picked=why,
            reason=f"{standing.reason} ({'; '.join(told)}.)".strip(),
        )  # fmt: skip


def _compared(race: Reality | None) -> str:
    """What a race showed, to be read after "and"."""
    if race is None or race.lead is None:
        return "could not be compared, so that the first policy stays"
    lead, low, high = race.lead
    ends = "takes its place" if low > 0.0 else "does not take its place"
    return f"{ends}: in paired rollouts of {race.queries:,} queries it earned {lead:.3g} ({low:.3g} to {high:.3g}) more"


def _judged(problem: Problem, result: Plan, judges: Judges, kept: _Kept) -> Plan:
    """The plan with its evaluation and its certificate, if they were requested."""
    if result.status is Status.INTERRUPTED:
        return result
    with Interrupt() as interrupt:
        seen = with_own_features(problem, result.policy)
        evaluation, not_evaluated = judges.evaluation(seen, result.policy, interrupt)
        compared = None
        if evaluation is not None and problem.baseline is not None:
            compared, _ = judges.evaluation(seen, problem.baseline.rule, interrupt)
        certificate, refused = judges.certificate(seen, result.core, result.policy, interrupt)
    if kept.path is not None and evaluation is not None:
        record = evaluation.as_dict() | {"baseline": compared and compared.as_dict()}
        RunFolder(kept.path).write_judged(EVALUATION_FILE, record)
    return replace(
        result, evaluation=evaluation, compared=compared, not_evaluated=not_evaluated, certificate=certificate,
        refused=refused,
    )  # fmt: skip
