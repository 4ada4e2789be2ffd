"""`coreplan export`: a run's policy into files that other programs read."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .arguments import Horizon
from .opened import ProblemOption, RunName, opened
from .output import say


def export(
    run: RunName,
    onnx: Annotated[str | None, typer.Option(help="Write an ONNX model; needs the extra onnx.")] = None,
    numpy: Annotated[str | None, typer.Option(help="Write a Python file that needs NumPy alone.")] = None,
    json: Annotated[str | None, typer.Option(help="Write the policy's description as JSON.")] = None,
    problem: ProblemOption = None,
    horizon: Horizon = None,
    from_phi: Annotated[
        bool, typer.Option("--from-phi", help="Leave the features out: it then takes features, not states.")
    ] = False,
) -> None:
    """Write a policy, features included, for use without coreplan: ONNX, Python with NumPy alone, JSON.

    For features of your own, which cannot be written, --from-phi writes what follows them.
    """
    from ..base import InputError
    from ..export import export_policy

    where, policy = opened(run, problem, horizon, needed=False)
    if not (onnx or numpy or json):
        raise InputError("Say what to write: --onnx policy.onnx, --numpy policy.py or --json policy.json.")
    paths = {"onnx": onnx or None, "numpy": numpy or None, "json": json or None}
    spec = export_policy(policy, problem=where, from_phi=from_phi, **paths)
    for path in filter(None, paths.values()):
        say(f"wrote {path}")
    say(_takes(spec))


def _takes(spec: dict[str, Any]) -> str:
    """What the exported policy is given, in words; printed on stderr, as all news."""
    if spec["input"] == "phi":
        text = (
            f"It takes features [n, {spec['n_actions']}, {spec['dimension']}], which your own code computes"
        )
    elif spec["input"] == "number":
        text = "It takes the numbers of states, [n]"
    else:
        text = f"It takes states [n, {len(spec['columns'])}]: {', '.join(spec['columns'])}"
    mask = ", and a mask [n, A] of the actions that can be taken" if spec["mask"] else ""
    return f"{text}{mask}; it gives probabilities and Q-values [n, {spec['n_actions']}]."
