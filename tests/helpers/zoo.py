"""What the tests of the zoo share."""

from __future__ import annotations

import importlib

import numpy as np

from coreplan.judge import optimal_values, value_function
from coreplan.judge.exact import normalised

ENUMERABLE = [
    "random-linear",
    "river-swim",
    "river-swim-long",
    "river-linear",
    "random-linear:states=500,lazy=true",
]


def module(name):
    """A module of the zoo, which a factory of the same name may hide."""
    return importlib.import_module(f"coreplan.problem.zoo.{name}")


def known(problem):
    table, gamma = problem.tabular(), problem.discount
    V, Q = optimal_values(table, gamma)
    uniform = np.full(table.r.shape, 1 / table.n_actions)
    return (
        table,
        normalised(table, V, gamma),
        normalised(table, value_function(table, uniform, gamma), gamma),
        Q,
    )
