"""`coreplan certify`: bounds on the value of a run's policy and on the optimum."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .arguments import (
    AsJson,
    Executor,
    Horizon,
    Log,
    Queries,
    Retries,
    Seed,
    Timeout,
    Workers,
    print_json,
    reserved_stdout,
)
from .opened import ProblemOption, RunName, opened
from .output import say

if TYPE_CHECKING:
    from ..judge import Certificate
    from ..policy import SoftmaxPolicy
    from ..problem import Problem


def certify(
    run: RunName,
    problem: ProblemOption = None,
    horizon: Horizon = None,
    queries: Queries = 50_000,
    target: Annotated[
        float | None,
        typer.Option(
            help="A gap, above 0 and at most 1, at which to stop; --queries are then the most that may be spent. About how "
            "many it will take is said first, from a pilot.",
            show_default="none",
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="The probability that both bounds hold.")] = 0.95,
    seed: Seed = 0,
    executor: Executor = None,
    workers: Workers = None,
    timeout: Timeout = None,
    retries: Retries = None,
    log: Log = None,
    as_json: AsJson = False,
) -> None:
    """Bound how far a run's policy is from the optimum: an interval from fresh queries, and what it assumes.

    The certificate is saved in the run's folder as certificate.json.
    """
    from ..base import check_seed
    from ..planning import certified
    from ..run import core_of
    from ..simulate import named
    from . import show

    with reserved_stdout(as_json):
        where, policy = opened(run, problem, horizon)
        assert where is not None
        certificate = certified(
            where,
            core_of(Path(run), where),
            policy,
            queries=queries,
            confidence=confidence,
            seed=check_seed(seed),
            target=target,
            tell=None if as_json else say,
            executor=named(executor, workers, timeout, retries),
            log=log,
        )
        if Path(run).is_dir():
            _keep(Path(run), where, policy, certificate)
    if as_json:
        print_json({"problem": where.name} | certificate.as_dict())
    else:
        show.certificate(certificate)
    if certificate.holds is False:  # None: there is no core set, and the lower bound is what can be had
        raise typer.Exit(1)


def _keep(run: Path, problem: Problem, policy: SoftmaxPolicy, certificate: Certificate) -> None:
    """Write the certificate into the run's folder, if the folder still holds this policy, planned for this problem."""
    from ..base import FileError, FolderLock
    from ..policy import POLICY_FILE
    from ..policy import SoftmaxPolicy as Policy
    from ..run import CERTIFICATE_FILE, RUN_FILE, RunFolder, read_record

    try:
        with FolderLock(run):
            record, there = read_record(run / RUN_FILE), Policy.load(run / POLICY_FILE)
            same = record.get("discount") == problem.discount and record.get("reward_range") == list(
                problem.reward_range
            )
            if same and there.theta.tobytes() == policy.theta.tobytes():
                RunFolder(run).write_judged(CERTIFICATE_FILE, certificate.as_dict())
    except FileError as error:
        say(f"The certificate is not kept: {error}")
