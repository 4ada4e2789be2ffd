"""The policy as one readable Python file that needs NumPy alone: its numbers, and the text of the formulas that it needs.

Whatever a user named stands in it as a quoted literal, so that no name can become code.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any

from . import entry, formulas

_WIDTH = 110
_HEADER = '''"""A policy exported by coreplan {version}. It needs NumPy, and nothing else.

{usage}
q_values({given}) are its Q-values, [n, A], and act({given}, rng=None) chooses actions, [n].
"""

import numpy as np

PROBLEM = {problem}
COLUMNS = {columns}  # of a state
ACTIONS = {actions}
SCALE = {scale}  # pi(a|x) = softmax(SCALE * phi(x, a) . THETA); infinity is greedy
'''
_USAGE = {
    "columns": "probabilities({given}) takes states [n, {D}], with the columns COLUMNS, and returns [n, {A}].{end}",
    "number": "probabilities({given}) takes the numbers of states, [n], and returns [n, {A}].",
    "phi": "probabilities({given}) takes features phi [n, {A}, {d}], which your own code computes, and returns [n, {A}].",
}
_END = " The last column\nis 1 once an episode has ended; for living states it may be left out."
_READY = {
    "columns": "as_rows(states, {D}, {lack})",
    "number": "as_numbers(states)",
    "phi": "as_features(phi, {A}, {d})",
}
_POLICY = '''
def features({given}):
    """The features of a batch: coordinates and weights, [n, A, k], and which actions can be taken, [n, A]."""
    return {features}


def q_values({given}):
    """phi(x, a) . THETA, [n, A]; minus infinity where an action cannot be taken."""
{ready}
    index, weight, available = features({given})
    return answered(scores(index, weight, available, THETA))


def probabilities({given}):
    """pi(a|x), [n, A]."""
    return softmax(q_values({given}), SCALE)


def act({given}, rng=None):
    """One action for each state, [n]; rng is a generator or a seed, and a greedy policy needs none."""
    return drawn(probabilities({given}), SCALE, rng)
'''


def numpy_source(spec: dict[str, Any]) -> str:
    """The text of the file, from the policy's description."""
    first = "phi" if spec["input"] == "phi" else "states"
    given = f"{first}, mask" if spec["mask"] else first
    D, A, d = len(spec["columns"]), spec["n_actions"], spec["dimension"]
    lack = spec["terminal"] == "optional"
    usage = _USAGE[spec["input"]].format(given=given, D=D, A=A, d=d, end=_END if lack else "")
    if spec["mask"]:
        usage += "\nmask [n, A] is True where an action can be taken."
    header = _HEADER.format(
        version=spec["coreplan"], usage=usage, given=given, problem=_literal(spec["problem"]),
        columns=_literal(spec["columns"]), actions=_literal(spec["actions"]),
        scale="np.inf" if spec["scale"] == "infinity" else repr(spec["scale"]),
    )  # fmt: skip
    constants = {"THETA": spec["theta"]}
    body = _expression(spec["features"], constants, first)
    ready = f"    {first} = {_READY[spec['input']].format(D=D, A=A, d=d, lack=lack)}"
    if spec["mask"]:
        ready += f"\n    mask = as_mask(mask, {A})"
    policy = _POLICY.format(given=given, features=body, ready=ready)
    numbers = "".join(f"{name} = np.array({_literal(value)})\n" for name, value in constants.items())
    return f"{header}{numbers}\n{policy}\n\n# How all this is computed.\n\n\n{_functions(policy)}"


def _expression(tree: dict[str, Any], constants: dict[str, Any], states: str, depth: int = 1) -> str:
    """The call that computes a tree of maps; its arrays become constants."""
    pad, lines = "    " * (depth + 1), [states]
    for name, value in tree.items():
        if isinstance(value, dict):
            lines.append(f"{name}=lambda states: {_expression(value, constants, 'states', depth + 1)}")
        elif isinstance(value, list):
            constant = f"{tree['kind']}_{name}".upper()
            while constant in constants:
                constant += "_"
            constants[constant] = value
            lines.append(f"{name}={constant}")
        elif name != "kind":
            lines.append(f"{name}={value!r}")
    if tree["kind"] == "masked_by_input":
        lines.append("mask=mask")
    inside = "".join(f"{pad}{line},\n" for line in lines)
    return f"{tree['kind']}(\n{inside}{'    ' * depth})"


def _literal(value: Any) -> str:
    """Numbers and quoted texts as Python writes them, in ASCII, in lines that can be read."""
    words, lines, length = ascii(value).split(" "), [""], 0
    if len(words) < 2 or isinstance(value, str):
        return ascii(value)
    for word in words:
        if length + len(word) > _WIDTH:
            lines.append("    ")
            length = 0
        lines[-1] += word + " "
        length += len(word) + 1
    return "\n".join(line.rstrip() for line in lines)


def _functions(used: str) -> str:
    """The source of our functions that a text uses, and of those that they use, in the order in which they stand."""
    known = {
        name: function
        for module in (formulas, entry)
        for name, function in vars(module).items()
        if inspect.isfunction(function)
    }
    needed, todo = set[str](), {node.id for node in ast.walk(ast.parse(used)) if isinstance(node, ast.Name)}
    while todo:
        name = todo.pop()
        if name in known and name not in needed:
            needed.add(name)
            tree = ast.parse(inspect.getsource(known[name]))
            todo |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return "\n\n".join(inspect.getsource(function) for name, function in known.items() if name in needed)
