"""The function that a description stands for: formulas put together as its tree of maps says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .formulas import KINDS, scores, softmax

Lift = Callable[[Any], Any]


def composed(tree: dict[str, Any], lift: Lift = np.asarray, **inputs: Any) -> Callable[[Any], Any]:
    """The function of a batch of states that a tree stands for; `lift` makes the arrays, `inputs` has the mask."""
    function = KINDS[tree["kind"]]
    fields = {name: value for name, value in tree.items() if name != "kind"}
    for name, value in fields.items():
        if isinstance(value, dict):
            fields[name] = composed(value, lift, **inputs)
        elif isinstance(value, list):
            fields[name] = lift(value)
    if tree["kind"] == "masked_by_input":
        fields["mask"] = inputs["mask"]
    return lambda states: function(states, **fields)


def evaluated(
    spec: dict[str, Any], states: Any, mask: Any = None, lift: Lift = np.asarray
) -> tuple[Any, Any]:
    """Q-values and probabilities, both `[n, A]`, of a described policy at a batch of states with all their columns."""
    scale = np.inf if spec["scale"] == "infinity" else spec["scale"]
    index, weight, available = composed(spec["features"], lift, mask=mask)(states)
    q = scores(index, weight, available, lift(spec["theta"]))
    return q, softmax(q, scale)
