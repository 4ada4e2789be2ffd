"""`coreplan report`: one self-contained page about a run, or one that compares several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import AsJson, Count, Horizon, Seed, print_json, reserved_stdout
from .output import say, write

if TYPE_CHECKING:
    from ..planning import Plan
    from ..problem import Problem


def report(
    runs: Annotated[list[str], typer.Argument(help="The folders of one or more runs (plan --out).")],
    out: Annotated[str, typer.Option("--out", "-o", help="The file to write.")] = "report.html",
    problem: Annotated[
        str | None, typer.Option(help="The problem, if it is not built in: path/to/file.py:name.")
    ] = None,
    horizon: Horizon = None,
    queries: Annotated[
        int,
        Count("Measure the checks and trajectories first, with so many queries, and keep them with the run."),
    ] = 0,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Write a page about a run, or one that compares several: one HTML file, which needs no network.

    A run that is unfinished, damaged or old gives a page of what there is, which says what is missing.
    """
    from ..base import InputError, as_count, check_seed, printable
    from ..problem import problem_by_name
    from ..report import facts_of, measure, write_report

    with reserved_stdout(as_json):
        queries, seed = as_count("report", least=0, queries=queries), check_seed(seed)
        if horizon is not None and problem is None:
            raise InputError(
                "`--horizon` goes with `--problem`; a built-in problem has its horizon in its name."
            )
        where = problem_by_name(problem, horizon) if problem else None
        spent = 0
        for run in runs if queries else []:
            facts = facts_of(run, where)
            if facts.policy is None or facts.problem is None or facts.policy.features is None:
                raise InputError(
                    f"The policy in {run} cannot be simulated, so that nothing can be measured: "
                    f"{' '.join(facts.missing) or 'its problem is not built in. Give --problem path/to/file.py:name.'}"
                )
            spent += measure(
                facts.folder, facts.problem, facts.policy, facts.core, queries=queries, seed=seed
            )
        file = write_report(runs, out, where, given=problem or "")
    if as_json:
        print_json({"report": str(file), "bytes": file.stat().st_size, "runs": list(runs), "queries": spent})
    else:
        measured = f"; {spent:,} queries measured for it" if spent else ""
        write(f"{printable(str(file))}, {file.stat().st_size / 1e3:,.0f} kB{measured}")


def of_plan(out: str, problem: Problem, result: Plan, given: str, queries: int | None) -> dict[str, Any]:
    """Write DIR/report.html after a plan, with checks and trajectories unless it was interrupted; for its record.

    The plan is complete by then, so whatever goes wrong here is told in one line, and the plan is not lost for it.
    """
    from ..base import CoreplanError
    from ..report import measure, write_report
    from ..run import REPORT_FILE

    spent = 0
    try:
        if not result.stopped_by:
            spent = measure(out, problem, result.policy, result.core, queries=queries, paid=result.queries)
    except (CoreplanError, MemoryError) as error:
        say(f"The report has no checks or trajectories: {error}")
    except KeyboardInterrupt:
        say("The report has no checks or trajectories: they were interrupted.")
    try:
        file = write_report(out, Path(out) / REPORT_FILE, problem, given=given)
    except (CoreplanError, MemoryError) as error:
        say(f"No report: {error}")
        return {"report": None, "report_queries": spent}
    return {"report": str(file), "report_queries": spent}
