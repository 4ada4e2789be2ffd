"""What `SoftmaxPolicy.plot` shows: the policy's own probabilities and scores at the states of a slice."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from ..base import FloatArray, InputError, States, as_choice, as_kind
from ..features import Features, MaskedFeatures, checked, mean_scores
from ..problem import ZOO, Names, Problem, make
from .maps import draw_map, names_of_actions
from .slices import slice_of

_WHO = "SoftmaxPolicy.plot"
_BATCH = 2_048  # states that are asked at once


class Drawn(Protocol):
    """What is asked of a policy."""

    @property
    def theta(self) -> FloatArray: ...
    @property
    def scale(self) -> float: ...
    @property
    def problem_name(self) -> str: ...
    def probabilities(self, states: Any) -> FloatArray: ...


def draw_policy(
    policy: Drawn, features: Features, x: Any, y: Any, what: str, *, at: Any, box: Any, shape: Any, state_names: Any,
    action_names: Any, problem: Any, points: int, ax: Any,
) -> Any:  # fmt: skip
    """The figure of `SoftmaxPolicy.plot`, where the arguments are explained; `features` are the policy's own."""
    what = as_choice(_WHO, ("actions", "values"), what=what)
    known = names_of(_WHO, policy.problem_name, problem)
    names = names_of_actions(_WHO, known.action if action_names is None else action_names, features.n_actions)
    chosen = slice_of(
        _WHO, features, x, y, at=at, box=box, shape=shape, names=state_names, known=known.state, points=points
    )
    numbers = np.concatenate([_numbers(policy, features, s, what) for s in chosen.states(_BATCH)])
    if what == "actions":
        return draw_map(_WHO, chosen, numbers, actions=names, label="action", ax=ax)
    greedy = r"$\max_a\ \varphi(x, a) \cdot \theta$"
    label = r"$\sum_a \pi(a|x)\ \varphi(x, a) \cdot \theta$" if np.isfinite(policy.scale) else greedy
    return draw_map(_WHO, chosen, numbers, actions=None, label=label, ax=ax)


def names_of(who: str, problem_name: str, problem: Any = None) -> Names:
    """The names that a problem gives to coordinates, actions and reward; by default the built-in problem of this name."""
    as_kind(who, Problem, "a Problem", optional=True, problem=problem)
    if problem is None and problem_name.partition(":")[0] in ZOO:
        with suppress(InputError):  # said where the policy is loaded
            problem = make(problem_name)
    return Names() if problem is None else problem.names


def _numbers(policy: Drawn, features: Features, states: States, what: str) -> FloatArray:
    """The number that a picture shows for each state, `[n]`; NaN where a mask allows no action at all."""
    if isinstance(features, MaskedFeatures):
        open_ = features.allowed(states).any(axis=1)
    else:
        open_ = np.ones(len(states), dtype=np.bool_)
    numbers = np.full(len(states), np.nan)
    if open_.any():
        pi = policy.probabilities(states[open_])
        if what == "actions":
            numbers[open_] = pi.argmax(axis=1)
        else:
            numbers[open_] = mean_scores(checked(features, states[open_]), policy.theta, pi)
    return numbers
