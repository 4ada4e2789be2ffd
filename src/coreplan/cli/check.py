"""`coreplan check`: measures the paper's assumptions."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import (
    AsJson,
    Executor,
    Horizon,
    Log,
    ProblemName,
    Queries,
    Retries,
    Seed,
    Timeout,
    Workers,
    print_json,
    reserved_stdout,
)


def check(
    problem: ProblemName,
    core: Annotated[str | None, typer.Option(help="A core set: a file core.npz, or a run's folder.")] = None,
    horizon: Horizon = None,
    queries: Queries = 20_000,
    seed: Seed = 0,
    executor: Executor = None,
    workers: Workers = None,
    timeout: Timeout = None,
    retries: Retries = None,
    log: Log = None,
    as_json: AsJson = False,
) -> None:
    """Measure which of the paper's assumptions hold: a light, a number and advice per row."""
    from ..base import as_path
    from ..core import CORE_FILE, CoreSet
    from ..judge import check as check_assumptions
    from ..problem import problem_by_name
    from ..simulate import named
    from . import show

    with reserved_stdout(as_json):
        file = as_path("check", optional=True, core=core or None)
        pairs = CoreSet.load(file / CORE_FILE if file.is_dir() else file) if file else None
        engine = named(executor, workers, timeout, retries)
        where = problem_by_name(problem, horizon)
        report = check_assumptions(where, pairs, queries=queries, seed=seed, executor=engine, log=log)
    if as_json:
        print_json(report.as_dict())
    else:
        show.report(problem, report)
