"""`plan`: from a problem to a policy, with a budget, progress, checkpoints, an evaluation and a certificate."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from .._version import __version__
from ..base import (
    CoreplanError,
    FileError,
    FolderLock,
    InputError,
    check_seed,
    digest,
    require_count,
    require_positive,
)
from ..core import CoreSet
from ..features import fingerprint
from ..judge import Certificate, Evaluation, cheap_value
from ..planners import Planner, Status
from ..policy import SoftmaxPolicy
from ..problem import Problem
from ..run import (
    CERTIFICATE_FILE,
    EVALUATION_FILE,
    Interrupt,
    Progress,
    Run,
    RunFolder,
    Trace,
    make_progress,
    resolved,
    setup_for,
)
from ..sampled import Stored
from .defaults import choose
from .judged import certified, evaluated

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """The result of a run: the policy, and how it was found."""

    policy: SoftmaxPolicy
    queries: int
    status: Status
    trace: Trace
    initial_draws: int  # draws from nu0, counted apart from queries
    seconds: float  # planning time, without compilation and without computing the trace's values
    warmup_seconds: float
    # With every hyperparameter filled in; None for a loaded run of a planner that is not built in.
    planner: Planner | None
    settings: dict[str, Any]  # the planner's hyperparameters as JSON types
    reason: str = ""  # why the result is doubtful, and the cure; or the accuracy that the planner estimates
    core: CoreSet | None = None  # the core set that was used, or the pairs that the planner chose
    stored: Stored | None = None  # the samples that the planner stored, for other planners to solve on
    evaluation: Evaluation | None = None  # if requested
    certificate: Certificate | None = None  # if requested
    not_evaluated: str = ""  # why there is no evaluation although it was requested
    refused: str = ""  # why there is no certificate although it was requested

    @property
    def sentence(self) -> str:
        """How the run ended, after how many queries, and the reason."""
        return f"{self.status.after(self.queries)} {self.reason}".strip()


def plan(
    problem: Problem,
    core: CoreSet | None = None,
    planner: Planner | str | None = None,
    *,
    budget: int | None = None,
    epsilon: float | str | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    progress: Any = False,
    resume: bool = False,
    checkpoint_seconds: float = 30.0,
    block: int | None = None,
    evaluate: bool | int = False,
    certify: bool | int = False,
) -> Plan:
    """Find ONE compact policy for a problem, with at most `budget` simulator queries or to an accuracy `epsilon`.

    Parameters
    ----------
    core: the core set; by default the problem's own. A planner that finds its own pairs needs none.
    planner: a planner, or a name such as "core-mirror"; by default `PlugIn()`, or `Grow()` if there is no core set.
    budget: the most simulator queries to make. If neither a budget nor an accuracy is given, the accuracy is 1%, provided
        that the planner can estimate its own; otherwise the budget is the planner's `first_budget`.
    epsilon: stop when the planner estimates that sampling loses at most this: a normalised value such as 0.01, or a
        fraction of the difference between the optimum and the uniform policy such as "1%". The budget is then a cap, by
        default 10 million.
    seed: the same seed gives the same bits, however often the run is stopped and resumed.
    out: a folder for policy.npz, run.json, trace.csv and checkpoint.npz; for core.npz, if the core pairs are not the
        problem's own; and for evaluation.json and certificate.json, if requested. One run per folder.
        `load_run(folder)` reads all of it.
    progress: True for a bar on stderr, None for a bar if stderr is a terminal.
    resume: continue from the folder's checkpoint; in an empty folder, or after a run without any answer, start. What is
        left out (planner, its settings, budget) is taken from the run. The budget may be raised; rates that were set for
        the first budget are kept. If you do pass a planner, its settings must be those of the run: `CoreMirror()` is
        refused if the run began with output="greedy". The reward range may be wider than before if the planner stores its
        rewards (PlugIn, SampledLP).
    checkpoint_seconds: time between checkpoints.
    block: the number of queries that share one stream of simulator noise, and the most per call; by default that of the
        model (`model.block`, else 65,536). It changes the noise, so it is part of the run's settings.
    evaluate: True for the value of the policy, exact if possible, else by rollouts; or the number of rollouts.
    certify: True for a certificate from fresh queries, or the number of these queries. If it cannot be made, the plan is
        returned nevertheless, with the reason in `refused`.

    Ctrl-C stops after the current batch, writes a checkpoint and returns the policy reached so far; a second one
    abandons the batch. An error of the simulator is raised after a checkpoint with every batch before the faulty one.
    """
    if not isinstance(problem, Problem):
        raise InputError(f"`plan(problem=...)` must be a Problem, got {type(problem).__name__}.")
    if core is not None and not isinstance(core, CoreSet):
        raise InputError(f"`plan(core=...)` must be a CoreSet(states, actions), got {_not_a_core(core)}.")
    folder = RunFolder(Path(out)) if out is not None else None
    started = folder.started() if resume and folder else None
    planner, budget = choose(problem, core, planner, budget, epsilon, started)
    require_count("plan", budget=budget, block=block)
    require_positive("plan", checkpoint_seconds=checkpoint_seconds)
    begin = time.perf_counter()
    seed = check_seed(seed)
    core, setup = setup_for(problem, planner, core, int(budget))
    with FolderLock(Path(out)) if out is not None else nullcontext():
        if folder and folder.blank:  # an earlier run failed before its first answer
            folder.clear()
        if folder and folder.used and not resume:
            raise FileError(
                f"{out} already holds a run. Resume it (resume=True, --resume), or give another folder."
            )
        planner = resolved(started.fill_in(planner) if started else planner, setup)
        run = Run(problem, core, planner, seed=seed, block=block, value=cheap_value(problem))
        if folder:
            folder.config = _config(problem, core, planner, seed, run.simulator.block)
        session = _Session(
            run,
            folder,
            begin=begin,
            checkpoint_seconds=checkpoint_seconds,
            judges=_Judges(evaluate, certify, seed),
        )
        return session.go(progress)


def _not_a_core(value: Any) -> str:
    """What was given in place of a core set; a planner is the likeliest."""
    kind = value if isinstance(value, type) else type(value)
    if not issubclass(kind, Planner):
        return f"the class {kind.__name__}" if value is kind else kind.__name__
    return (
        f"the planner {kind.__name__}: the second argument is the core set. Write planner={kind.__name__}()"
    )


def _config(
    problem: Problem, core: CoreSet | None, planner: Planner, seed: int, block: int
) -> dict[str, Any]:
    """What must agree for a checkpoint to be resumable, as JSON types."""
    return {
        "problem": problem.name,
        "features": fingerprint(problem.features),
        "core": None if core is None else digest(core.states, core.actions),
        "discount": problem.discount,
        "reward_range": list(problem.reward_range),
        "planner": planner.name,
        "settings": planner.settings(),
        "seed": seed,
        "block": block,
    }


@dataclass(frozen=True)
class _Judges:
    """What was requested besides the policy."""

    evaluate: bool | int
    certify: bool | int
    seed: int

    def __post_init__(self) -> None:
        if not isinstance(self.evaluate, bool):  # checked before the first query, not after the last
            require_count("plan", least=2 if self.evaluate else 0, evaluate=self.evaluate)
        if not isinstance(self.certify, bool):
            require_count("plan", certify=self.certify)

    def evaluation(self, problem: Problem, policy: SoftmaxPolicy) -> tuple[Evaluation | None, str]:
        """The value of the policy, or why there is none."""
        if self.evaluate is False:
            return None, ""
        rollouts = None if self.evaluate is True else self.evaluate
        return _or_why(lambda: evaluated(problem, policy, rollouts, self.seed))

    def certificate(
        self, problem: Problem, core: CoreSet | None, policy: SoftmaxPolicy
    ) -> tuple[Certificate | None, str]:
        """The certificate, or why there is none."""
        if self.certify is False:
            return None, ""
        queries = None if self.certify is True else self.certify
        return _or_why(lambda: certified(problem, core, policy, queries=queries, seed=self.seed))


def _or_why(judge: Callable[[], T | None]) -> tuple[T | None, str]:
    """What a judge finds, or why it finds nothing: the plan is complete and must not be lost."""
    try:
        return judge(), ""
    except CoreplanError as error:
        return None, str(error)
    except KeyboardInterrupt:
        return None, "It was interrupted."


class _Session:
    """A run with its folder, from the first ask to the last file."""

    def __init__(
        self, run: Run, folder: RunFolder | None, *, begin: float, checkpoint_seconds: float, judges: _Judges
    ) -> None:
        self.run, self.folder, self.judges = run, folder, judges
        self.checkpoint_seconds, self.begin = checkpoint_seconds, begin

    def go(self, progress: Any) -> Plan:
        run, folder = self.run, self.folder
        if folder and folder.used:
            folder.load_checkpoint(run)
            if run.simulator.queries > run.budget:
                raise InputError(
                    f"The run in {folder.path} has made {run.simulator.queries} queries already, more than "
                    f"the budget of {run.budget}. Give at least as many, or another folder."
                )
        run.warm_up()
        warmup = time.perf_counter() - self.begin
        if folder:
            folder.save_checkpoint(run)
            if run.core is not None:
                folder.write_core(run.core, run.problem)
            folder.write_record(self._record("running", warmup))
        bar = make_progress(progress, run.budget, run.simulator.queries)
        try:
            with Interrupt() as interrupt:
                status = self._work(interrupt, bar)
            bar.close()
            result = self._finish(status, warmup)
        except Exception:
            bar.close()
            if folder:
                with suppress(FileError):  # a full disk is what may have brought us here
                    if not run.loop.torn:  # everything before the faulty ask; a resume asks that one again
                        folder.save_checkpoint(run)
                    folder.write_record(self._record("failed", warmup))
            raise
        return self._judged(result)  # outside the try: even if it fails, the run is complete and on disk

    def _work(self, interrupt: Interrupt, bar: Progress) -> Status:
        run = self.run
        if not len(run.trace):
            run.record()
        saved = time.perf_counter()
        while run.left:
            due, cut = run.due, False
            try:
                run.advance(due, interrupt)
            except KeyboardInterrupt:  # the second Ctrl-C: what of this batch was not answered is undone
                interrupt.asked = cut = True
            # Recorded before any checkpoint, so that a resumed run has the same rows.
            if (run.simulator.queries >= due and not cut) or not run.left:
                run.record()
            bar.update(run.simulator.queries)
            if interrupt.asked and run.left:
                return Status.INTERRUPTED
            if self.folder and time.perf_counter() - saved > self.checkpoint_seconds:
                self.folder.save_checkpoint(run)
                saved = time.perf_counter()
        return Status.FINISHED

    def _record(self, status: str, warmup: float) -> dict[str, Any]:
        run = self.run
        return {
            "status": status,
            "budget": run.budget,
            "queries": run.simulator.queries,
            "initial_draws": run.simulator.initial_draws,
            "seconds": run.seconds,
            "warmup_seconds": warmup,
            "coreplan": __version__,
        }

    def _finish(self, status: Status, warmup: float) -> Plan:
        run, folder = self.run, self.folder
        policy, verdict = run.policy(), run.verdict()
        reason = verdict.reason if verdict else ""
        interrupted = status is Status.INTERRUPTED
        if verdict and not interrupted:
            status = verdict.status
        core = run.planner.core(run.loop.state) or run.core
        if folder:
            folder.save_checkpoint(run)
            if core is not run.core and core is not None:
                folder.write_core(core, run.problem)
            folder.forget_judged(policy)
            folder.write_results(policy, run.trace, self._record(status.value, warmup) | {"reason": reason})
        return Plan(
            policy=policy, queries=run.simulator.queries, status=status, trace=run.trace,
            initial_draws=run.simulator.initial_draws, seconds=run.seconds, warmup_seconds=warmup, planner=run.planner,
            settings=run.planner.settings(), reason=reason, core=core, stored=run.planner.stored(run.loop.state),
        )  # fmt: skip

    def _judged(self, result: Plan) -> Plan:
        """The plan with its evaluation and its certificate, if they were requested."""
        problem, folder = self.run.problem, self.folder
        interrupted = result.status is Status.INTERRUPTED
        evaluation = certificate = None
        not_evaluated = refused = ""
        # Somebody who pressed Ctrl-C does not want to wait for rollouts.
        if not interrupted or problem.tabular is not None:
            evaluation, not_evaluated = self.judges.evaluation(problem, result.policy)
            if folder and evaluation:
                folder.write_judged(EVALUATION_FILE, evaluation.as_dict())
        if not interrupted:
            certificate, refused = self.judges.certificate(problem, result.core, result.policy)
            if folder and certificate:
                folder.write_judged(CERTIFICATE_FILE, certificate.as_dict())
        return replace(
            result,
            evaluation=evaluation,
            certificate=certificate,
            not_evaluated=not_evaluated,
            refused=refused,
        )
