"""`plan`: from a problem to a policy, with a budget, progress, checkpoints, an evaluation and a certificate."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ..base import (
    FileError,
    FolderLock,
    InputError,
    as_count,
    as_flag,
    as_path,
    as_positive,
    breakable,
    check_seed,
    digest,
    one_thread,
    shown,
)
from ..core import CoreSet
from ..features import fingerprint
from ..judge import cheap_value
from ..planners import Planner
from ..problem import Problem
from ..run import RUN_FILE, Run, RunFolder, Started, read_record, resolved, setup_for
from ..simulate import by_executor, by_log
from ..tracking import Callbacks
from .advice import pick
from .auto import is_auto, plan_auto
from .defaults import choose
from .judges import Judges
from .limit import TimeLimit
from .reality import SHARE, RealityCheck
from .result import Plan
from .session import Session


@one_thread
@by_executor
@by_log
def plan(
    problem: Problem,
    core: CoreSet | None = None,
    planner: Planner | str | None = None,
    *,
    budget: int | None = None,
    epsilon: float | str | None = None,
    seconds: Any = None,
    seed: int = 0,
    out: str | Path | None = None,
    progress: Any = False,
    callbacks: Any = (),
    resume: bool = False,
    checkpoint_seconds: float = 30.0,
    block: int | None = None,
    evaluate: bool | int = False,
    certify: bool | int = False,
    reality: float | None = None,
    baseline: Any = None,
    executor: Any = None,
    log: Any = None,
    live: Any = None,
) -> Plan:
    """Find ONE compact policy for a problem, with at most `budget` simulator queries or to an accuracy `epsilon`.

    Parameters
    ----------
    core: the core set; by default the problem's own. A planner that finds its own pairs needs none.
    planner: a planner, or a name such as "core-mirror"; by default `PlugIn()` if there is a core set, `Refine()` if there
        are bounds and no features, else `Grow()`; `Plan.picked` says which and why. "auto" begins with that on half of
        the budget and, where it ends with doubts, goes on to what is likely to help (docs/how-to-choose.md).
    budget: the most simulator queries to make. If neither a budget nor an accuracy is given, the accuracy is 1%, provided
        that the planner can estimate its own; otherwise the budget is the planner's `first_budget`.
    epsilon: stop when the planner estimates that sampling loses at most this: a normalised value such as 0.01, or a
        fraction of the difference between the optimum and the uniform policy such as "1%". The budget is then a cap, by
        default 10 million.
    seconds: stop asking after this time, too, at the end of the batch in which it is up: `Status.TIME_UP`. At least one
        batch is made, so that a run that is resumed often enough ends. Rollouts of the policy, which are queries of the
        run, wait for its end, so that resumes give the bits of a run without a limit. Compiling is not counted; `evaluate`
        and `certify` come on top. With "auto" it is the time of all stages together.
    seed: the same seed gives the same bits, however often the run is stopped and resumed.
    out: a folder for policy.npz, run.json, trace.csv and checkpoint.npz; for core.npz, if the core pairs are not the
        problem's own; and for evaluation.json and certificate.json, if requested. One run per folder; a file
        of one of these names that no run here wrote is not overwritten, and the run is refused.
        `load_run(folder)` reads all of it.
    progress: True for a bar on stderr, None for a bar if stderr is a terminal.
    callbacks: a list of objects with one or more of the methods on_start(info), on_row(row), on_end(result) and
        on_error(error), such as `coreplan.tracking.JsonlTracker("run.jsonl")` (`tracking.Callbacks`). They change no
        numbers, and one that raises is given up with one warning.
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
    reality: the share of the budget for rollouts of the policy, by default a tenth, reserved beforehand. A run to an
        accuracy spends that share of what the accuracy took, or more where so little would tell nothing (docs/doubts.md).
        `Plan.believed` and `Plan.earned` are what the planner believes and what rollouts earned; where they disagree the
        run is doubtful. These queries are part of `Plan.queries`, and shown as `Plan.reality_queries`. 0 for none.
    baseline: a policy to compare with, from the same rollouts: a `SoftmaxPolicy`, a function of a batch of states that
        returns actions, or one fixed action. A result that is not measurably better says so.
    executor: who simulates: "processes", an engine of `coreplan.executors`, or any `concurrent.futures.Executor`; by default
        this process. The answer is the same to the last bit (docs/scale.md).
    log: a file that keeps every answer that was paid for, as soon as it has come. An answer that it has, from an earlier
        session or from another planner that asked the same with the same noise, is not paid for again: `Plan.queries` counts
        it all the same, and `Plan.logged_queries` says how many there were. Bits and counts do not change (docs/scale.md).
    live: a view of the run while it goes on, such as `coreplan.report.LiveView()` (docs/report.md): an object with the
        method see(run, record).

    Ctrl-C, SIGTERM or SIGHUP stops after the current batch, writes a checkpoint and returns the policy reached so far; a
    second one abandons the batch. After the last batch they end the rollouts and the judging, and lose nothing. An error is
    raised after a checkpoint with every batch before the faulty one. docs/reliability.md says what is promised.
    """
    if not isinstance(problem, Problem):
        raise InputError(f"`plan(problem=...)` must be a Problem, got {type(problem).__name__}.")
    if core is not None and not isinstance(core, CoreSet):
        raise InputError(f"`plan(core=...)` must be a CoreSet(states, actions), got {_not_a_core(core)}.")
    limit, told = TimeLimit.of(seconds), Callbacks.of(callbacks)
    where, resume = as_path("plan", optional=True, out=out), as_flag("plan", resume=resume)
    if is_auto(planner, where if resume else None):
        with told.errors_told():
            return told.end(plan_auto(
                plan, problem, core, budget=budget, epsilon=epsilon, seed=check_seed(seed), out=out, resume=resume,
                seconds=limit, evaluate=evaluate, certify=certify, baseline=baseline, progress=progress, block=block,
                reality=reality, checkpoint_seconds=checkpoint_seconds, callbacks=told, live=live,
            ))  # fmt: skip
    folder = RunFolder(where) if where is not None else None
    started = folder.started() if resume and folder else None
    picked = _picked(problem, core, folder, started) if planner is None else ""
    planner, budget = choose(problem, core, planner, budget, epsilon, started)
    budget, block = as_count("plan", budget=budget), as_count("plan", optional=True, block=block)
    checkpoint_seconds = as_positive("plan", checkpoint_seconds=checkpoint_seconds)
    if live is not None and not callable(getattr(live, "see", None)):
        raise InputError(
            f"`plan(live=...)` must have a method see(run, record), as coreplan.report.LiveView() has; got {shown(live)}."
        )
    begin = time.perf_counter()
    seed = check_seed(seed)
    share = reality if reality is not None else SHARE if started is None else started.reality
    facing = RealityCheck(
        problem, share=share, baseline=baseline, budget=budget, seed=seed,
        spent=started.reality_queries if started else 0,
    )  # fmt: skip
    judges = Judges(evaluate, certify, seed)
    with told.errors_told(), FolderLock(where) if where is not None else nullcontext() as lock:
        if folder and folder.blank:  # an earlier run failed before its first answer
            folder.clear()
        if folder and folder.used and not resume:
            raise FileError(
                f"{out} already holds a run. Resume it (resume=True, --resume), or give another folder."
            )
        if folder:
            folder.require_own()
        chosen = started.fill_in(planner) if started else planner
        used, planner = breakable(lambda: _prepared(problem, core, chosen, facing))
        run = Run(problem, used, planner, seed=seed, block=block, value=cheap_value(problem))
        config = _config(problem, used, planner, seed, run.simulator.block) if folder or told else {}
        if folder:
            folder.config = config
            folder.facing, folder.lock = facing, lock
        session = Session(
            run, folder, begin=begin, checkpoint_seconds=checkpoint_seconds, judges=judges, reality=facing,
            limit=limit, callbacks=told, identity=_identity(config), picked=picked, live=live,
        )  # fmt: skip
        return told.end(session.go(progress))


def _picked(problem: Problem, core: CoreSet | None, folder: RunFolder | None, started: Started | None) -> str:
    """Why the planner is what it is, where nobody chooses; a run that is resumed says what it said before."""
    if started is None or folder is None:
        return pick(problem, core).why
    try:
        before = read_record(folder.path / RUN_FILE).get("picked", "")
    except FileError:  # the checkpoint is enough to go on
        return ""
    return before if isinstance(before, str) else ""


def _not_a_core(value: Any) -> str:
    """What was given in place of a core set; a planner is the likeliest."""
    kind = value if isinstance(value, type) else type(value)
    if not issubclass(kind, Planner):
        return f"the class {kind.__name__}" if value is kind else kind.__name__
    return (
        f"the planner {kind.__name__}: the second argument is the core set. Write planner={kind.__name__}()"
    )


def _prepared(
    problem: Problem, core: CoreSet | None, planner: Planner, facing: RealityCheck
) -> tuple[CoreSet | None, Planner]:
    """The core set, and the planner with every setting filled in, on what the budget leaves after rollouts are reserved.

    If that is too little for the planner and the whole budget is not, the planner comes first.
    """
    kept = max(facing.reserved, facing.queries)
    used, setup = setup_for(problem, planner, core, max(facing.budget - kept, 1))
    try:
        return used, resolved(planner, setup)
    except InputError:
        used, setup = setup_for(problem, planner, core, max(facing.budget - facing.queries, 1))
        return used, resolved(planner, setup)


def _identity(config: dict[str, Any]) -> str:
    """Twelve digits for what a run is of; the reward range may be wider when it goes on."""
    kept = {key: value for key, value in config.items() if key != "reward_range"}
    return digest(json.dumps(kept, sort_keys=True, default=str))[:12]


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
