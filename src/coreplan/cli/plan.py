"""`coreplan plan`: from a problem to a policy, its value and a folder of results."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import (
    AsJson,
    Count,
    Executor,
    Horizon,
    Log,
    ProblemName,
    Retries,
    Seed,
    Timeout,
    Workers,
    print_json,
    reserved_stdout,
)
from .output import say
from .report import of_plan

if TYPE_CHECKING:
    from ..planning import Plan
    from ..problem import Problem
    from ..report import LiveView


def plan(
    problem: ProblemName,
    planner: Annotated[
        str | None,
        typer.Option(
            help="See `coreplan planners`; by default plug-in; without a core set grow, or refine with bounds only. "
            "auto: that, and what helps where it ends with doubts."
        ),
    ] = None,
    budget: Annotated[
        int | None,
        Count(
            "The most simulator queries; by default a million (grow: 100,000, sampled-lp: 10,000), with --epsilon "
            "ten million."
        ),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="Or the accuracy to stop at: 0.01, or 1% of the optimum's gain over uniform; by default 1% with plug-in."
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Or the time: stop after the batch in which it is up. --resume goes on."),
    ] = None,
    horizon: Horizon = None,
    seed: Seed = 0,
    out: Annotated[
        str | None, typer.Option(help="A folder for the policy, the trace and checkpoints.")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A planner's setting, name=value.")] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue from the folder's checkpoint; omitted options are kept."),
    ] = False,
    rollouts: Annotated[
        int | None, Count("Rollouts to estimate the value if it is not exact; 0: none.")
    ] = None,
    reality: Annotated[
        float | None,
        typer.Option(help="The share of the budget for rollouts of the policy, by default 0.1; 0: none."),
    ] = None,
    baseline: Annotated[
        int | None, typer.Option(help="An action: the policy is compared with taking it always.")
    ] = None,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="Certify the policy, with another 50,000 queries or more if needed.",
        ),
    ] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(
            help="Keep a trace elsewhere: FILE.jsonl, FILE.csv, tensorboard:FOLDER or mlflow:EXPERIMENT."
        ),
    ] = None,
    executor: Executor = None,
    workers: Workers = None,
    timeout: Timeout = None,
    retries: Retries = None,
    log: Log = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Serve the report on this machine while planning; its address is printed."
        ),
    ] = False,
    port: Annotated[
        int, typer.Option(help="The port for --live; where it is in use, another is taken.")
    ] = 8765,
    report_queries: Annotated[
        int | None,
        Count(
            "Queries, besides the budget, for the checks and trajectories of the report in --out: by default 20,000 of a "
            "compiled simulator, else a tenth of what the plan took, at most 2,000; 0: none."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Plan a problem: print the policy's value, gap and queries, and save the policy and a report with --out."""
    from ..base import InputError, as_count
    from ..planning import default_planner, planner_by_name
    from ..planning import plan as run_plan
    from ..problem import problem_by_name
    from ..run import RunFolder
    from ..simulate import named
    from ..tracking import tracker_by_name
    from . import show

    if resume and out is None:
        raise InputError("`--resume` needs `--out DIR`, the folder of the run to continue.")
    rollouts = as_count("plan", least=2 if rollouts else 0, optional=True, rollouts=rollouts)
    report_queries = as_count("plan", least=0, optional=True, report_queries=report_queries)
    with reserved_stdout(as_json):
        callbacks = [tracker_by_name(spec) for spec in track or []]
        where = problem_by_name(problem, horizon)
        started = RunFolder(Path(out)).started() if resume and out else None
        chosen: Any = None
        if planner == "auto":
            if set_:
                raise InputError("`--planner auto` takes no --set: a setting belongs to one planner.")
            chosen = planner
        elif planner or set_:
            name = planner or (started.planner if started else default_planner(where).name)
            chosen = planner_by_name(name, where, _settings(set_ or []), started)
        with _view(port, problem) if live else nullcontext() as view:
            result = run_plan(
                where, planner=chosen, budget=budget, epsilon=epsilon, seconds=seconds, seed=seed, out=out, resume=resume,
                progress=False if as_json else None, evaluate=True if rollouts is None else rollouts, certify=certify,
                reality=reality, baseline=baseline, callbacks=callbacks, live=view,
                executor=named(executor, workers, timeout, retries), log=log,
            )  # fmt: skip
        told = {} if out is None or result.not_saved else of_plan(out, where, result, problem, report_queries)
    record = (
        _record(where, result.planner.name if result.planner else planner or "", seed, out, result) | told
    )
    if result.certificate:
        record["certificate"] = result.certificate.as_dict()
    if result.not_evaluated:
        say(f"No evaluation: {result.not_evaluated}")
    if result.refused:
        say(f"No certificate: {result.refused}")
    if as_json:
        print_json(record)
    else:
        show.plan(where, record, result)
        if result.certificate:
            show.certificate(result.certificate)
    if result.not_saved:
        raise typer.Exit(2)
    if result.stopped_by:
        raise typer.Exit(128 + result.stopped_by)  # as shells count: 130 after Ctrl-C, 143 after SIGTERM


def _view(port: int, given: str) -> LiveView:
    """The page of the run while it goes on, served from now on."""
    from ..report import LiveView

    view = LiveView(port, given=given)
    say(f"Live view: {view.url} (until the run ends)")
    return view


def _settings(items: list[str]) -> dict[str, Any]:
    from ..base import InputError
    from ..problem import parse_value

    settings = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise InputError(f"`--set {item}` is not of the form name=value, for example --set K=20.")
        settings[name] = parse_value(text)
    return settings


def _record(problem: Problem, planner: str, seed: int, out: str | None, result: Plan) -> dict[str, Any]:
    from ..policy import POLICY_FILE

    judged = result.evaluation
    record: dict[str, Any] = {
        "problem": problem.name,
        "planner": planner,
        "seed": seed,
        "queries": result.queries,
        "seconds": result.seconds,
        "warmup_seconds": result.warmup_seconds,
        "value": judged.value if judged else None,
        "optimum": judged.optimum if judged else None,
        "uniform": judged.uniform if judged else None,
        "gap": judged.gap if judged else None,
        "sub": judged.sub if judged else None,
        "status": result.status.value,
        "picked": result.picked,
        "reason": result.reason,
        "next": result.next,
        "policy": f"{out}/{POLICY_FILE}" if out and not result.not_saved else None,
        "initial_draws": result.initial_draws,
        "evaluation_queries": judged.queries if judged else 0,
        "baseline": result.baseline_name,
        "baseline_queries": result.compared.queries if result.compared else 0,
        "reality_queries": result.reality_queries,
        "lost_queries": result.lost_queries,
        "rechecked_queries": result.rechecked_queries,
        "logged_queries": result.logged_queries,
        "believed": result.believed,
        "no_verdict": result.no_verdict,
    }
    for name, found in (
        ("earned", result.earned),
        ("uniform_earned", result.uniform),
        ("baseline_earned", result.baseline),
    ):
        record[name] = None if found is None else [found.value, found.low, found.high]
    if judged and not judged.exact:
        record |= {"value_low": judged.low, "value_high": judged.high}
    return record
