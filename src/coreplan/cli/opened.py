"""A run that a command is given: its policy, and the problem that it was planned for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..policy import SoftmaxPolicy
    from ..problem import Problem

RunName = Annotated[str, typer.Argument(help="The folder of a run (plan --out), or a policy's file.")]
ProblemOption = Annotated[
    str | None, typer.Option(help="The problem, if it is not built in: path/to/file.py:name.")
]


def opened(
    run: str, problem: str | None, horizon: int | None, needed: bool = True
) -> tuple[Problem | None, SoftmaxPolicy]:
    """The problem and the policy. Where no problem is `needed`, it is None for a policy that brings its own features."""
    from ..base import InputError
    from ..policy import load_policy
    from ..problem import ZOO, problem_by_name

    where = problem_by_name(problem, horizon) if problem else None
    if horizon is not None and where is None:
        raise InputError("`--horizon` goes with `--problem`; a built-in problem has its horizon in its name.")
    policy = load_policy(run, where)
    if where is None and policy.features is None:
        raise InputError(
            f"{run} does not name a built-in problem. Give `--problem path/to/file.py:name`, the one it was planned for."
        )
    if where is None and (needed or policy.problem_name.partition(":")[0] in ZOO):
        where = problem_by_name(policy.problem_name)
    return where, policy
