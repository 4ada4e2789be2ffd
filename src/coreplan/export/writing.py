"""`export_policy`: a policy into files that other programs read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..base import InputError, as_path, files, shown
from ..problem import Problem
from .describe import policy_spec
from .model import onnx_model
from .source import numpy_source


def export_policy(
    policy: Any,
    *,
    onnx: str | Path | None = None,
    numpy: str | Path | None = None,
    json: str | Path | None = None,
    problem: Problem | None = None,
    from_phi: bool = False,
) -> dict[str, Any]:
    """Write a policy, features included, for use without coreplan; returns its description (see `policy_spec`).

    Parameters
    ----------
    policy: a `SoftmaxPolicy` with its features, or a `Plan`.
    onnx: a file for an ONNX model in double precision, `states` to `probabilities` and `q_values`, both `[n, A]`. It
        takes all columns of a state, the terminal column too. Needs the extra `onnx`.
    numpy: a file of Python with `probabilities(states)`, `q_values` and `act`, which needs NumPy alone.
    json: a file for the description itself; `coreplan.export.EVALUATOR` is JavaScript that computes it.
    problem: gives names to states and actions, where it has them.
    from_phi: what is written takes phi `[n, A, d]`, which your own code computes, in place of states.

    Files are written whole or not at all. An exported policy does what `policy.probabilities` does, up to rounding: where
    the best two actions of a greedy policy are equal but for rounding, it may take the other.
    """
    paths = {
        "onnx": as_path("export_policy", optional=True, onnx=onnx),
        "numpy": as_path("export_policy", optional=True, numpy=numpy),
        "json": as_path("export_policy", optional=True, json=json),
    }
    wanted = {name: path for name, path in paths.items() if path is not None}
    if not wanted:
        raise InputError(
            "`export_policy` needs a file to write: onnx='policy.onnx', numpy='policy.py' or json='policy.json'."
        )
    for name, path in wanted.items():
        if path.suffix == ".npz" or list(wanted.values()).count(path) > 1:
            raise InputError(
                f"`export_policy({name}=...)` is {shown(str(path))}, which is the name of a policy's own file or is given "
                "twice. Give every file a name of its own, such as policy.onnx, policy.py and policy.json."
            )
    spec = policy_spec(policy, problem, from_phi=from_phi)
    data = {name: _WRITERS[name](spec) for name in wanted}  # all are made before the first is written
    for name, path in wanted.items():
        files.write_atomic(path, data[name])
    return spec


_WRITERS = {
    "onnx": lambda spec: onnx_model(spec).SerializeToString(),
    "numpy": lambda spec: numpy_source(spec).encode(),
    "json": lambda spec: (json.dumps(spec, allow_nan=False) + "\n").encode(),
}
