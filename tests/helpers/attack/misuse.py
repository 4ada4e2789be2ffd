"""Misuse of the Python API: valid calls of every public callable, with one or two arguments replaced by silly values.

Right is: refused; or a result that keeps what its kind promises, also when it is used: a problem and a planner that were
accepted can be planned with, a policy can act.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

import coreplan
from coreplan import (
    CompiledFeatures,
    CompiledModel,
    Evaluation,
    FunctionFeatures,
    FunctionModel,
    NoiseModel,
    Plan,
    PlugIn,
    Problem,
    ScalarModel,
    SoftmaxPolicy,
)
from coreplan.planners import Planner

from .calls import CALLS, callable_of, tiny
from .problems import CORE, Fault, features_of, model_of, problem_of
from .rule import Input, Refused, Wrong, answer, shortened
from .simulators import valid
from .zoo_values import ZOO


class Misuse:
    """Silly arguments."""

    name, share = "misuse", 6.0

    def warm_up(self) -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            self._valid_calls()

    def _valid_calls(self) -> None:
        for name, given in CALLS.items():
            found = answer(lambda name=name, given=given: used(callable_of(name)(**given())))
            if isinstance(found, Refused) and name not in ("CoreSet.load",):
                raise AssertionError(f"the valid call of {name} is refused: {found.error}")

    @staticmethod
    @functools.cache
    def parameters(name: str) -> tuple[str, ...]:
        """The parameters of a callable that can be replaced."""
        found = inspect.signature(callable_of(name)).parameters.values()
        return tuple(
            p.name for p in found if p.name != "self" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        )

    def attack(self, given: Input) -> str:
        name = given.one(tuple(CALLS))
        function, arguments = callable_of(name), CALLS[name]()
        names = self.parameters(name)
        replaced = {}
        for _ in range(given.one((1, 1, 1, 2))):
            if names:
                value = given.one(tuple(ZOO))
                replaced[given.one(names)] = value
        given.note(f"{name}({', '.join(f'{k}={v}' for k, v in replaced.items())})")
        arguments |= {k: ZOO[v]() for k, v in replaced.items()}
        found = answer(lambda: used(function(**arguments)))
        return "refused" if isinstance(found, Refused) else "right"


def used(found: Any) -> Any:
    """What was returned, after it was used as it is meant to be; `Wrong` if it breaks what its kind promises."""
    if isinstance(found, Iterator):
        return list(itertools.islice(found, 3))
    if isinstance(found, Plan):
        valid(tiny(), found)
    elif isinstance(found, Problem):
        _planned(found)
    elif isinstance(found, Planner):
        _planned(_problem_for(found), found)
    elif isinstance(found, (FunctionModel, NoiseModel, ScalarModel)) or (
        isinstance(found, CompiledModel) and found.state_shape == (2,)
    ):
        _planned(Problem(found, features_of("dense", Fault()), 0.8, core_pairs=CORE, name="mine"))
    elif isinstance(found, FunctionFeatures) and found.dimension == 4:
        _planned(Problem(model_of("function", Fault(), 64), found, 0.8, core_pairs=CORE, name="mine"))
    elif isinstance(found, CompiledFeatures):
        _seen(found)
    elif isinstance(found, SoftmaxPolicy):
        if not np.isfinite(found.theta).all() or not found.scale > 0:
            raise Wrong("invalid policy", f"theta {found.theta}, scale {found.scale}")
        if found.features is not None and found.features.dimension == 4:
            found.act(CORE[0], 1)
    elif isinstance(found, Evaluation):
        if not -1e-6 <= found.low <= found.value <= found.high <= 1 + 1e-6:
            raise Wrong("invalid evaluation", shortened(found))
        found.as_dict()
    return found


def _problem_for(planner: Planner) -> Problem:
    """A small problem that has what the planner needs."""
    if planner.needs_box:
        return problem_of("function", "box", Fault())
    return coreplan.make("river-swim") if planner.needs_table or planner.core_of == "all" else tiny()


def _planned(problem: Problem, planner: Planner | None = None) -> None:
    if not 0 < problem.discount < 1 or not np.isfinite(problem.reward_range).all():
        raise Wrong("invalid problem", f"discount {problem.discount}, rewards {problem.reward_range}")
    if planner is None and problem.core_pairs is None:
        return
    budget = 12 * max(len(problem.core_pairs[1]), 10) if problem.core_pairs is not None else 100
    found = coreplan.plan(problem, planner=planner or PlugIn(), budget=min(budget, 400), seed=1, reality=0)
    if not np.isfinite(found.policy.theta).all():
        raise Wrong("invalid plan", f"theta is {found.policy.theta}")


def _seen(features: CompiledFeatures) -> None:
    """Features of a state of zeros, in the shape and dtype that they declare."""
    coreplan.problem.checked(features, np.zeros((2, *features.state_shape), features.state_dtype))
