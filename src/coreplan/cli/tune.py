"""`coreplan tune`: Theorem 1's hyperparameters and their cost."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import AsJson, Count, ProblemName, print_json, reserved_stdout


def tune(
    problem: ProblemName,
    epsilon: Annotated[float | None, typer.Option(help="The accuracy to be guaranteed by Theorem 1.")] = None,
    budget: Annotated[int | None, Count("Or the number of queries.")] = None,
    D: Annotated[float | None, typer.Option("--D", help="Radius of theta's ball.")] = None,
    as_json: AsJson = False,
) -> None:
    """Theorem 1's hyperparameters for an accuracy or a budget, its bound term by term, and the cost in queries."""
    from ..problem import problem_by_name
    from ..theory import advise
    from . import show

    with reserved_stdout(as_json):
        advice = advise(problem_by_name(problem), epsilon=epsilon, budget=budget, D=D)
    if as_json:
        print_json(advice.as_dict())
    else:
        show.advice(problem, advice)
