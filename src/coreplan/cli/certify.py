"""`coreplan certify`: bounds on the value of a run's policy and on the optimum."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .arguments import AsJson, Queries, Seed, print_json, reserved_stdout


def certify(
    run: Annotated[str, typer.Argument(help="The folder of a run (plan --out), or a policy's file.")],
    problem: Annotated[
        str | None, typer.Option(help="The problem, if it is not built in: path/to/file.py:name.")
    ] = None,
    queries: Queries = 50_000,
    confidence: Annotated[float, typer.Option(help="The probability that both bounds hold.")] = 0.95,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Bound how far a run's policy is from the optimum: an interval from fresh queries, and what it assumes.

    The certificate is saved in the run's folder as certificate.json.
    """
    from ..base import InputError, check_seed
    from ..planning import certified
    from ..policy import load_policy
    from ..problem import problem_by_name
    from ..run import CERTIFICATE_FILE, RunFolder, core_of
    from . import show

    with reserved_stdout(as_json):
        where = problem_by_name(problem) if problem else None
        policy = load_policy(run, where)
        if where is None and policy.features is None:
            raise InputError(
                f"{run} does not name a built-in problem. Give `--problem path/to/file.py:name`, the one it was planned for."
            )
        where = where or problem_by_name(policy.problem_name)
        certificate = certified(
            where,
            core_of(Path(run), where),
            policy,
            queries=queries,
            confidence=confidence,
            seed=check_seed(seed),
        )
        if Path(run).is_dir():
            RunFolder(Path(run)).write_judged(CERTIFICATE_FILE, certificate.as_dict())
    if as_json:
        print_json({"problem": where.name} | certificate.as_dict())
    else:
        show.certificate(certificate)
    if not certificate.holds:
        raise typer.Exit(1)
