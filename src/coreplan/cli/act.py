"""`coreplan act`: what a run's policy does in one state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import AsJson, Horizon, print_json, reserved_stdout
from .opened import ProblemOption, RunName, opened

if TYPE_CHECKING:
    from ..problem import Names


def act(
    run: RunName,
    state: Annotated[
        str, typer.Option(help="The numbers of the state: '-0.5, 0.01', or 'position=-0.5, velocity=0.01'.")
    ],
    problem: ProblemOption = None,
    horizon: Horizon = None,
    step: Annotated[int, typer.Option(help="With a horizon: the step at which the policy acts.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show what a run's policy does in one state: the probability and the score (Q-value) of every action."""
    from ..problem import typed_state
    from . import show

    with reserved_stdout(as_json):
        where, policy = opened(run, problem, horizon, needed=False)
        names = _names(Path(run)) if where is None else where.names
        x = typed_state(state, where, step, names)
        p, q = policy.probabilities(x)[0], policy.q_values(x)[0]
    record: dict[str, Any] = {
        "problem": policy.problem_name if where is None else where.name,
        "state": x[0].tolist(),
        "names": names.as_dict(),
        "action": int(p.argmax()),
        "probabilities": p.tolist(),
        "q_values": [float(value) if value > -float("inf") else None for value in q],
    }
    if as_json:
        print_json(record)
    else:
        show.action(record, names.state_said(x[0]))


def _names(run: Path) -> Names:
    """The names in a run's record; none for a policy's file alone, or where they are damaged."""
    from ..problem import Names
    from ..run import RUN_FILE, read_record

    found = read_record((run if run.is_dir() else run.parent) / RUN_FILE).get("names")
    if not isinstance(found, dict):
        return Names()
    return Names(_texts(found.get("state")), _texts(found.get("action")))


def _texts(given: Any) -> tuple[str, ...] | None:
    return tuple(given) if isinstance(given, list) and all(isinstance(text, str) for text in given) else None
