"""Every built-in feature map, found by looking; states to compare exported policies at; and what runs them."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import coreplan
from coreplan import features as maps
from coreplan.base import InputError
from coreplan.export import EVALUATOR
from coreplan.features import Box, MaskedFeatures, Rows, Tree, grid_tree, time_nodes
from coreplan.policy import SoftmaxPolicy
from coreplan.problem import ZOO

NODE = shutil.which("node")
LOW, HIGH, WHOLE_HIGH = [-1.0, 0.0, 2.0], [1.0, 0.5, 7.0], [1.0, 0.5, 8.0]
TURNS = (True, False, False)


@dataclass(frozen=True)
class Case:
    """A feature map and how its states are drawn; `mask` says that its exported policy is given the mask."""

    features: Any
    states: Callable[[np.random.Generator, int], Any]
    mask: Any = None
    asked: Callable[[Any], Any] = lambda states: (
        states
    )  # what the exported policy is given instead of the states


def in_box(low, high, nodes=5):
    """States in and far outside of a box, at nodes, at ends, whole periods away, and a rounding error beside all these."""
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)

    def states(rng, n):
        x = rng.uniform(low - (high - low), high + (high - low), size=(n, len(low)))
        at = low + (high - low) * rng.integers(0, nodes, size=x.shape) / (nodes - 1)
        near = at * (1 + rng.integers(-1, 2, size=x.shape) * 2.0**-52)
        away = near + rng.integers(-2, 3, size=x.shape) * (high - low)
        how = rng.random(x.shape)
        x = np.where(how < 0.2, at, np.where(how < 0.3, near, np.where(how < 0.4, away, x)))
        return np.where(rng.random(x.shape) < 0.02, rng.normal(size=x.shape) * 1e5, x)

    return states


def numbers(count):
    return lambda rng, n: rng.integers(0, count, size=n)


def ending(states):
    """The same with the terminal column, and some states that have ended."""

    def both(rng, n):
        rows = maps.alive(states(rng, n))
        rows[rng.random(n) < 0.2] = maps.terminated(rows.shape[1] - 1)
        return rows

    return both


def on_a_clock(states, steps):
    """The same with a step and the terminal column."""

    def both(rng, n):
        rows = states(rng, n)
        rows = maps.at_time(rows, rng.integers(0, steps, size=len(rows)))
        rows[rng.random(n) < 0.2] = maps.terminated(rows.shape[1] - 1)
        return rows

    return both


def met(problem):
    """States that a problem goes through, at random actions."""

    def states(rng, n):
        x, seen = problem.model.initial(rng, max(n // 20, 1)), []
        for _ in range(40):
            seen.append(x)
            x = problem.model.step(rng, x, rng.integers(0, problem.n_actions, size=len(x)))[1]
        return np.concatenate(seen)[rng.permutation(40 * len(x))[:n]]

    return states


def split_tree(seed=0, periodic=TURNS):
    """A tree of random splits: nodes on the faces of larger cells, and a quarter of the corners that are no nodes."""
    rng = np.random.default_rng(seed)
    box = Box(LOW, WHOLE_HIGH, periodic, (False, False, True))
    axis, child, sizes = np.array([-1]), np.array([-1]), maps.tick_sizes(box)
    for _ in range(40):
        k, parts = int(rng.choice(np.flatnonzero(child < 0))), len(child)
        split = np.append(axis, [-1, -1]), np.append(child, [-1, -1])
        split[0][k], split[1][k] = rng.integers(3), parts
        if _edges(*split, sizes) is not None:
            axis, child = split
    keys = np.empty((len(axis), 8), dtype=np.int64)
    maps.corner_keys(*_edges(axis, child, sizes), sizes, box.periodic, np.arange(len(axis)), keys)
    others = np.setdiff1d(keys, keys[0])
    nodes = np.concatenate([np.unique(keys[0]), rng.permutation(others)[: len(others) * 3 // 4]])
    return Tree(box, axis, child, rng.permutation(nodes))


def _edges(axis, child, sizes):
    """The low and high edges of a tree's cells, or None if it is none."""
    lo, hi = np.zeros((2, len(axis), len(sizes)), dtype=np.int64)
    wrong = maps.fill_boxes(axis, child, sizes, lo, hi, np.zeros(len(axis), dtype=np.int64), 0)
    return None if wrong >= 0 else (lo, hi)


def whole_last(states):
    def rounded(rng, n):
        x = states(rng, n)
        return np.column_stack([x[:, :-1], np.rint(x[:, -1])])

    return rounded


def clocked(base, shape, steps, nodes=None, terminal=False):
    """A map by time, with the feature of the end, as a problem with a horizon has it."""
    rows = Rows(shape, np.float64 if shape else np.int64, terminal)
    return maps.with_terminal(maps.TimeFeatures(base, rows, time_nodes(steps, nodes)))


def by_place(x):
    """A mask over places, which leaves the second action where it forbids the others."""
    mask = np.stack([x[:, 0] > 0, x[:, 1] > 0.2, x[:, 0] < 2.0], axis=1)
    mask[:, 1] |= ~mask.any(axis=1)
    return mask


def own_cases():
    """The ready maps and wrappers of `coreplan.features`, by the name of the constructor or class."""
    rng = np.random.default_rng(5)
    A, here, tall = 3, in_box(LOW, HIGH), whole_last(in_box(LOW, WHOLE_HIGH, 17))
    index = rng.permuted(np.tile(np.arange(9), (7, A, 1)), axis=2)[:, :, :3]
    table = maps.table_features(rng.normal(size=(7, A, 4)) / 4, 4, 9.0)
    sparse = maps.table_features(maps.Sparse(index, rng.random((7, A, 3)) / 2), 9, 9.0)
    grid, hot = maps.interpolation(LOW, HIGH, [5, 3, 4], A), maps.one_hot(7, A)
    numbered, points = numbers(7), rng.uniform(LOW, HIGH, size=(6, 3))
    axes = [[-1.0, 0.3, 0.5, 1.0], [0.0, 0.5], [2.0, 3.0, 7.0]]
    bumps = maps.radial(LOW, HIGH, points, A, scale=0.4, normalise=False, intercept=True)
    open_box = Box([-1.0, 0.0, -np.inf, -np.inf], [1.0, 5.0, np.inf, 3.0], (True, False, False, False))
    allowed = rng.random((7, A)) < 0.6
    allowed[:, 1] = True

    def masked(base):
        return MaskedFeatures(base, lambda x: allowed[x])

    cases = {
        "one_hot": (hot, numbered),
        "aggregation": (maps.aggregation([0, 2, 1, 1, 0, 2, 2], A), numbered),
        "table_features": (table, numbered),
        "table_features, sparse": (sparse, numbered),
        "Coordinates": (maps.Coordinates(open_box, A), in_box([-1.0, 0.0, -9.0, 0.0], [1.0, 5.0, 9.0, 3.0])),
        "tree_features": (maps.tree_features(split_tree(), A), tall),
        "tree_features, no turns": (maps.tree_features(split_tree(1, (False, False, False)), A), tall),
        "tree_features, one cell": (
            maps.tree_features(grid_tree(Box([0.0], [1.0]), 0), A),
            in_box([0.0], [1.0]),
        ),
        "rectilinear": (maps.rectilinear(axes, A), here),
        "rectilinear, periodic": (maps.rectilinear(axes, A, periodic=TURNS), here),
        "radial, points": (bumps, here),
        "polynomial, constant": (maps.polynomial(LOW, HIGH, 0, A), here),
        "TerminalFeatures": (maps.with_terminal(grid), ending(here)),
        "TerminalFeatures, number": (maps.with_terminal(hot), ending(numbered)),
        "TerminalFeatures, table": (maps.with_terminal(table), ending(numbered)),
        "TimeFeatures": (clocked(grid, (3,), 6), on_a_clock(here, 6)),
        "TimeFeatures, nodes": (clocked(hot, (), 20, 4), on_a_clock(numbered, 20)),
        "TimeFeatures, one step": (clocked(hot, (), 1), on_a_clock(numbered, 1)),
        "TimeFeatures, dense": (clocked(table, (), 9, 3), on_a_clock(numbered, 9)),
        "TimeFeatures, own end": (
            clocked(maps.with_terminal(grid), (4,), 5, 2, True),
            on_a_clock(here, 5),
        ),
        "MaskedFeatures": (masked(hot), numbered),
        "MaskedFeatures, dense": (masked(table), numbered),
        "MaskedFeatures, places": (MaskedFeatures(grid, by_place), here, by_place),
        "MaskedFeatures, terminal": (
            MaskedFeatures(maps.with_terminal(grid), by_place),
            ending(here),
            by_place,
        ),
        "MaskedFeatures, by time": (clocked(masked(hot), (), 9, 3), on_a_clock(numbered, 9)),
    }
    found = {name: Case(*parts) for name, parts in cases.items()}
    found["TerminalFeatures, observed"] = Case(
        maps.with_terminal(grid, lambda x: x[:, 1:], 4, 1),
        ending(in_box([0.0, *LOW], [1.0, *HIGH])),
        asked=lambda x: x[:, 1:],
    )
    for name, more in {
        "interpolation": {"shape": [5, 3, 4]}, "simplicial": {"shape": [5, 3, 4]}, "fourier": {"order": 2},
        "tile_coding": {"shape": [4, 2, 3], "tilings": 4}, "polynomial": {"degree": 3}, "radial": {"centres": [3, 2, 4]},
    }.items():  # fmt: skip
        make = getattr(maps, name)
        found[name] = Case(make(LOW, HIGH, n_actions=A, **more), here)
        found[f"{name}, periodic"] = Case(make(LOW, HIGH, n_actions=A, periodic=TURNS, **more), here)
    return found


def zoo_names():
    """Every built-in problem with every value of its parameter `features`, if it has one, as its own error lists them."""
    for name, factory in ZOO.items():
        choices = [""]
        if "features" in inspect.signature(factory).parameters:
            try:
                coreplan.make(f"{name}:features=none-of-these")
            except InputError as error:
                listed = re.search(r"must be one of (.*); got", str(error))
                choices = [f"features={choice}" for choice in listed[1].split(", ")]
        for choice in choices:
            yield f"{name}:{choice}" if choice else name


NOT_EXPORTED = {
    "tetris": "phi places the piece on the board: a program, not a formula",
    "FunctionFeatures": "a function of the user's",
    "CompiledFeatures": "a kernel; each of ours has a case of its own",
    "TreeFeatures": "what tree_features makes",
    "sklearn_features": "a transformer of another library",
    "Features": "a protocol",
}
MORE_ZOO = (
    "pendulum:periodic=true",
    "pendulum:periodic=true,features=rbf",
    "river-swim:horizon=4",
    "taxi:horizon=30,horizon_nodes=5",
)


def zoo_case(name):
    problem = coreplan.make(name)
    return Case(problem.features, met(problem))


def policy_for(features, scale=3.0, seed=1):
    theta = np.random.default_rng(seed).normal(size=features.dimension)
    return SoftmaxPolicy(theta, scale, features)


def described(case, n, scale):
    """A policy on a map, its description, the states and masks that its exports are given, and what they should answer."""
    rng = np.random.default_rng(7)
    policy, states = policy_for(case.features, scale), case.states(rng, n)
    mask = None if case.mask is None else case.mask(states)
    return policy, case.asked(states), mask, policy.probabilities(states)


def by_numpy(path):
    """`probabilities` of a generated file."""
    spec = importlib.util.spec_from_file_location("exported_policy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.probabilities


def by_onnx(path):
    """The same of an ONNX model."""
    from onnxruntime import InferenceSession

    session = InferenceSession(path)

    def probabilities(states, mask=None):
        given = dict(zip([i.name for i in session.get_inputs()], (states, mask), strict=False))
        return session.run(["probabilities"], given)[0]

    return probabilities


_PROGRAM = """
var answers = JSON.parse(require('fs').readFileSync(0)).map(function (given) {
  var policy = coreplan.policy(given.spec);
  return given.states.map(function (x, n) { return policy.probabilities(x, given.masks && given.masks[n]); });
});
console.log(JSON.stringify(answers));
"""


def by_javascript(given):
    """The probabilities of the evaluator in JavaScript for (spec, states, masks) each, which it gets as JSON."""
    listed = [
        {"spec": spec, "states": states.tolist(), "masks": None if masks is None else masks.tolist()}
        for spec, states, masks in given
    ]
    done = subprocess.run(
        [NODE, "-e", EVALUATOR.read_text() + _PROGRAM], input=json.dumps(listed, allow_nan=False),
        capture_output=True, text=True, check=False, timeout=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [np.array(answer) for answer in json.loads(done.stdout)]
