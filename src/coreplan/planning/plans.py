"""`plan`: the one loop from a problem to a policy. Budget, seeds, progress, checkpoints and faults live here."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._version import __version__
from ..base import (
    CoreplanError,
    FileError,
    FolderLock,
    InputError,
    check_seed,
    planner_stream,
    require_count,
    require_positive,
)
from ..core import CoreSet, Cover
from ..features import fingerprint
from ..judge import is_cheap, policy_value
from ..planners import Planner, Setup, Status, to_accuracy, with_watch
from ..policy import SoftmaxPolicy
from ..problem import ZOO, Problem, Tabular
from ..run import Interrupt, Loop, Progress, RunFolder, Trace, digest_of, make_loop, make_progress, next_point
from ..sampled import Stored
from ..simulate import BLOCK, Simulator
from .choose import default_planner

CAP = 10_000_000  # queries, where an accuracy is asked for and no budget is given


@dataclass(frozen=True)
class Plan:
    """What a run gives: the policy and how it came about."""

    policy: SoftmaxPolicy
    queries: int
    status: Status
    trace: Trace
    initial_draws: int  # draws from nu0, counted apart from queries
    seconds: float  # planning time, without compilation and without evaluating the trace's values
    warmup_seconds: float
    planner: Planner  # with every hyperparameter filled in
    reason: str = ""  # why the planner doubts its result, and the cure; or the accuracy that it estimates
    core: CoreSet | None = None  # the core set that was given, or the pairs that the planner chose
    stored: Stored | None = None  # the samples that the planner kept, for other planners to solve on


def plan(
    problem: Problem,
    core: CoreSet | None = None,
    planner: Planner | None = None,
    *,
    budget: int | None = None,
    epsilon: float | str | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    progress: Any = False,
    resume: bool = False,
    checkpoint_seconds: float = 30.0,
    block: int = BLOCK,
) -> Plan:
    """Plan: from a problem to ONE compact policy, with at most `budget` simulator queries or to an accuracy `epsilon`.

    Parameters
    ----------
    core: the core set; by default the one that the problem brings. A planner that finds its own needs none.
    planner: by default `PlugIn()`, or `Grow()` where there is no core set.
    epsilon: stop when the planner estimates that sampling loses at most this: a normalised value such as 0.01, or a share of
        what the optimum is above the uniform policy such as "1%". The budget is then a cap, by default 10 million.
    seed: same seed, same bits, however often the run is stopped and resumed.
    out: a folder for policy.npz, run.json, trace.csv and checkpoint.npz, and for core.npz where the core pairs are not the
        problem's own; one run a folder.
    progress: True for a bar on stderr, None for a bar if stderr is a terminal.
    resume: go on from the folder's checkpoint; in an empty folder, start. What is left out (planner, its settings, budget)
        is as it was; the budget may be raised, and rates that were filled in for the first budget are kept. A planner that
        is given is given with its defaults: `CoreMirror()` is refused where the run began with output="greedy".
    checkpoint_seconds: time between checkpoints.
    block: queries that share one stream of simulator noise; changes the noise, so it belongs to the run.

    Ctrl-C stops after the current batch, writes a checkpoint and returns what was reached; a second one
    abandons the batch. An error of the simulator is raised, after a checkpoint of every batch before the faulty one.
    """
    if not isinstance(problem, Problem):
        raise InputError(f"`plan(problem=...)` must be a Problem, got {type(problem).__name__}.")
    started = RunFolder(Path(out)).started() if resume and out is not None else None
    if planner is None:
        has_core = core is not None or problem.core_pairs is not None
        planner = started.make() if started else default_planner(has_core)
    if not hasattr(planner, "resolve"):
        raise InputError(f"`plan(planner=...)` must be a planner, for example PlugIn(); got {planner!r}.")
    if epsilon is not None:
        planner = to_accuracy(planner, epsilon)
    if budget is None and started:
        budget = started.budget
    if budget is None:
        if getattr(planner, "epsilon", None) is None:
            raise InputError(
                "`plan` needs budget=..., the queries to spend at most, or epsilon=..., an accuracy."
            )
        budget = CAP
    if core is not None and not isinstance(core, CoreSet):
        raise InputError(f"`plan(core=...)` must be a CoreSet(states, actions), got {type(core).__name__}.")
    require_count("plan", budget=budget, block=block)
    require_positive("plan", checkpoint_seconds=checkpoint_seconds)
    begin = time.perf_counter()
    budget, block, seed = int(budget), int(block), check_seed(seed)
    if core is None and planner.needs_core:
        core = CoreSet.of(problem)
    setup = Setup.of(problem, core, budget)
    with FolderLock(Path(out)) if out is not None else nullcontext():
        folder = RunFolder(Path(out)) if out is not None else None
        if folder and folder.used and not resume:
            raise FileError(
                f"{out} already holds a run. Resume it (resume=True, --resume), or give another folder."
            )
        planner = (started.fill_in(planner) if started else planner).resolve(setup)
        if folder:
            folder.config = _config(problem, core, planner, seed, block)
        return _Run(problem, core, planner, setup, seed, block, folder, checkpoint_seconds, begin).go(
            progress
        )


def _config(
    problem: Problem, core: CoreSet | None, planner: Planner, seed: int, block: int
) -> dict[str, Any]:
    """What must agree for a checkpoint to be resumed, as JSON types."""
    return {
        "problem": problem.name,
        "features": fingerprint(problem.features),
        "core": None if core is None else digest_of(core),
        "discount": problem.discount,
        "reward_range": list(problem.reward_range),
        "planner": planner.name,
        "settings": dict(planner.settings()),
        "seed": seed,
        "block": block,
    }


class _Run:
    """One run, from its first ask to its files."""

    def __init__(
        self, problem: Problem, core: CoreSet | None, planner: Planner, setup: Setup, seed: int, block: int,
        folder: RunFolder | None, checkpoint_seconds: float, begin: float,
    ) -> None:  # fmt: skip
        self.problem, self.core, self.planner, self.budget = problem, core, planner, setup.budget
        self.folder, self.checkpoint_seconds, self.begin = folder, checkpoint_seconds, begin
        self.rng = planner_stream(seed)
        self.simulator = Simulator(problem, core, seed, block)
        self.watch: Cover | None = None
        if setup.core_features is not None and planner.needs_core:
            self.watch = Cover(setup.core_features, setup.dimension, setup.discount)
        self.simulator.cover = self.watch
        self.loop: Loop = make_loop(planner, setup, self.simulator, self.rng)
        self.trace = Trace()
        self.seconds = 0.0
        table = problem.tabular() if problem.tabular else None
        self.table: Tabular | None = table if table is not None and is_cheap(table) else None

    def go(self, progress: Any) -> Plan:
        if self.folder and self.folder.used:
            self.loop.state, self.trace, self.seconds = self.folder.load_checkpoint(
                self.planner, self.loop.state, self.rng, self.simulator
            )
            if self.simulator.queries > self.budget:
                raise InputError(
                    f"The run in {self.folder.path} has made {self.simulator.queries} queries already, more than "
                    f"the budget of {self.budget}. Give at least as many, or another folder."
                )
        if self._left():
            self.loop.warm_up()
        warmup = time.perf_counter() - self.begin
        if self.folder:
            self._checkpoint()
            if self.core is not None:
                self.folder.write_core(self.core, self.problem)
            self.folder.write_record(self._record("running", warmup))
        bar = make_progress(progress, self.budget, self.simulator.queries)
        try:
            with Interrupt() as interrupt:
                status = self._work(interrupt, bar)
            bar.close()
            return self._finish(status, warmup)
        except CoreplanError:
            bar.close()
            if self.folder:  # every batch before the faulty one; a resume asks the faulty one again
                with suppress(FileError):  # a full disk is what may have brought us here
                    self._checkpoint()
                    self.folder.write_record(self._record("failed", warmup))
            raise

    def _left(self) -> bool:
        size = self.planner.size(self.loop.state)
        return size is not None and size <= self.budget - self.simulator.queries

    def _work(self, interrupt: Interrupt, bar: Progress) -> Status:
        if not len(self.trace):
            self._sample()
        saved = time.perf_counter()
        while self._left():
            due = next_point(self.simulator.queries, self.budget)
            begin = time.perf_counter()
            try:
                self.loop.advance(due, self.budget, interrupt)
            except KeyboardInterrupt:  # the second Ctrl-C: this batch never happened
                interrupt.asked = True
            self.seconds += time.perf_counter() - begin
            # Before any checkpoint, so that a resumed run has the same rows.
            if self.simulator.queries >= due or not self._left():
                self._sample()
            bar.update(self.simulator.queries)
            if interrupt.asked and self._left():
                return Status.INTERRUPTED
            if self.folder and time.perf_counter() - saved > self.checkpoint_seconds:
                self._checkpoint()
                saved = time.perf_counter()
        return Status.FINISHED

    def _sample(self) -> None:
        row = {
            "queries": self.simulator.queries,
            "seconds": self.seconds,
            **self.planner.diagnostics(self.loop.state),
        }
        if self.watch is not None:
            row["outside"] = self.watch.outside
        value = math.nan
        if self.table is not None:
            value = policy_value(self.table, self._policy(), self.problem.discount)
        self.trace.append({**row, "value": value})

    def _policy(self) -> SoftmaxPolicy:
        name = self.problem.name if self.problem.name.partition(":")[0] in ZOO else ""
        return SoftmaxPolicy(*self.planner.policy(self.loop.state), self.problem.features, name)

    def _checkpoint(self) -> None:
        assert self.folder is not None
        self.folder.save_checkpoint(
            self.loop.state, self.rng, self.simulator, self.trace, self.seconds, self.budget
        )

    def _record(self, status: str, warmup: float) -> dict[str, Any]:
        return {
            "status": status,
            "budget": self.budget,
            "queries": self.simulator.queries,
            "initial_draws": self.simulator.initial_draws,
            "seconds": self.seconds,
            "warmup_seconds": warmup,
            "coreplan": __version__,
        }

    def _finish(self, status: Status, warmup: float) -> Plan:
        policy = self._policy()
        verdict = self.planner.verdict(self.loop.state)
        if self.watch is not None:
            verdict = with_watch(verdict, self.watch)
        reason = verdict.reason if verdict else ""
        if verdict and status is Status.FINISHED:
            status = verdict.status
        core = self.planner.core(self.loop.state) or self.core
        if self.folder:
            self._checkpoint()
            if core is not self.core and core is not None:
                self.folder.write_core(core, self.problem)
            self.folder.write_results(
                policy, self.trace, self._record(status.value, warmup) | {"reason": reason}
            )
        return Plan(
            policy=policy, queries=self.simulator.queries, status=status, trace=self.trace,
            initial_draws=self.simulator.initial_draws, seconds=self.seconds, warmup_seconds=warmup,
            planner=self.planner, reason=reason, core=core, stored=self.planner.stored(self.loop.state),
        )  # fmt: skip
