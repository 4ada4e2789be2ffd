"""`First`: the first answers of a run, by which a resume sees that simulator and features are still the same.

A checkpoint holds the pairs of the run's first call, the stream (or the noise) with which they were simulated, and the
answers to the first few. A resume asks for these few again, with the same noise: the answers must agree. The run's own
streams do not move, and its bits stay what they are.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..base import (
    FileError,
    FloatArray,
    IntArray,
    ReproducibilityWarning,
    States,
    shown,
)
from ..features import Phi, checked, row_scores
from ..problem import Problem

FEW = 8  # pairs whose answers are compared
_MANY = 4096  # pairs of a call beyond which the whole of it is not asked again
_SAME = 1e-6  # relative difference of answers that rounding on another machine may make


class First(NamedTuple):
    """The pairs of a run's first call, with what noise they were simulated, and the answers to the first k <= FEW."""

    states: States  # [n, ...]; only k if there are more than _MANY
    actions: IntArray  # [n]
    noise: FloatArray  # [n, noise_dimension] if the noise was given, else [0, 0]
    rewards: FloatArray  # [k], mapped to [0, 1]
    next_states: States  # [k, ...]
    scores: FloatArray  # [k, A]: the features of the next states times a fixed vector; [0, 0] if they are not known
    stream: dict[str, Any] | None  # its state before the call
    whole: bool  # whether these are all pairs of the call

    @classmethod
    def of(
        cls,
        states: States,
        actions: IntArray,
        noise: FloatArray | None,
        stream: Any,
        rewards: FloatArray,
        y: States,
    ) -> First | None:
        """None for states that no file can hold."""
        if states.dtype.kind not in "fiub" or y.dtype.kind not in "fiub":
            return None
        n = len(actions) if len(actions) <= _MANY else FEW
        given = np.empty((0, 0)) if noise is None else noise[:n].copy()
        return cls(
            states=states[:n].copy(), actions=actions[:n].copy(), noise=given, rewards=rewards[:FEW].copy(),
            next_states=y[:FEW].copy(), scores=np.empty((0, 0)), stream=None if noise is not None else stream,
            whole=n == len(actions),
        )  # fmt: skip

    def with_features(self, phi: Phi, dimension: int) -> First:
        """The same with the features `[k, A, ...]` of the next states."""
        return self._replace(scores=_scores(phi, dimension))

    def rescaled(self, scale: float, shift: float) -> First:
        """The same if every reward r had been scale * r + shift."""
        return self._replace(rewards=scale * self.rewards + shift)

    # In a checkpoint: arrays, and the rest as JSON types.

    @property
    def arrays(self) -> dict[str, Any]:
        return {f"first.{name}": getattr(self, name) for name in self._fields[:-2]}

    @property
    def meta(self) -> dict[str, Any]:
        return {"stream": self.stream, "whole": self.whole}

    @classmethod
    def read(cls, arrays: dict[str, Any], meta: Any) -> First | None:
        """What a checkpoint holds, taken out of its arrays; raises ValueError, KeyError or TypeError if it is damaged."""
        names = cls._fields[:-2]
        if meta is None and not any(f"first.{name}" in arrays for name in names):
            return None
        stream, whole = meta["stream"], bool(meta["whole"])
        first = cls(**{name: arrays.pop(f"first.{name}") for name in names}, stream=stream, whole=whole)
        n, k = first.actions.shape[0], first.rewards.shape[0]
        good = first.actions.dtype == np.int64 and first.rewards.dtype == np.float64 == first.scores.dtype
        good = good and first.states.shape[:1] == (n,) and first.next_states.shape[:1] == (k,)
        good = good and first.scores.ndim == 2 == first.noise.ndim and len(first.scores) in (0, k)
        if not good or not 0 < k <= min(n, FEW) or (stream is None) != (first.noise.shape[0] == n):
            raise ValueError("its first answers do not fit together")
        for name in ("noise", "rewards", "scores", "states", "next_states"):
            values = getattr(first, name)
            if not values.dtype.isnative or not np.isfinite(values).all():
                raise ValueError(f"its first answers have '{name}' that are no finite numbers")
        if not ((first.noise >= 0.0) & (first.noise < 1.0)).all() or first.noise.dtype != np.float64:
            raise ValueError("the noise of its first answers lies outside [0, 1)")
        return first


def _scores(phi: Phi, dimension: int) -> FloatArray:
    return row_scores(phi, np.cos(np.arange(dimension)))  # [k, A]


class Repeats(Protocol):
    """A `Simulator` that can simulate the first n pairs of an earlier call again; `drew` tells if it used the stream."""

    problem: Problem
    drew: bool

    def again(self, first: First, n: int) -> tuple[FloatArray, States]: ...


def recheck(simulator: Repeats, first: First, where: Any) -> None:
    """Ask for the first pairs of the run in the folder `where` again; FileError if simulator or features have changed.

    `simulator` is one of its own, so that the run's counters and streams stay where they are.

    The first few pairs alone may draw other numbers than in their batch (a function may draw all of one kind first), so if
    they disagree the whole call is repeated. Answers that differ between two such calls now are a simulator that cannot be
    repeated, which is worth a warning.
    """
    then, k, n = (first.rewards, first.next_states), len(first.rewards), len(first.actions)
    now = simulator.again(first, k)
    differs = _differs(then, now, k)
    if differs >= 0 and simulator.drew and not first.whole:  # in so large a call nobody can tell
        return
    if differs >= 0 and n > k:
        now = simulator.again(first, n)
        differs = _differs(then, now, k)
    if differs < 0:
        _same_features(simulator.problem, first, where)
    elif _differs(now, simulator.again(first, n), k) >= 0:
        warnings.warn(
            "The simulator gave two answers to the same question and noise: it draws from a source of its own, or keeps "
            "something between calls. So the resumed run is not the one that an uninterrupted run would have been.",
            ReproducibilityWarning,
            stacklevel=2,
        )
    else:
        given, gave = (_said(simulator.problem, *answer, differs) for answer in (now, then))
        pair = simulator.problem.names.pair_said(first.states[differs], first.actions[differs])
        raise FileError(
            f"The simulator is not the one with which the run in {where} began. Asked again for "
            f"{pair} with the same noise, it gave {given}; then "
            f"it gave {gave}. Resume with the simulator of then, or give another folder."
        )


def _same_features(problem: Problem, first: First, where: Any) -> None:
    if not first.scores.size:
        return
    scores = _scores(checked(problem.features, first.next_states), problem.features.dimension)
    wrong = (
        ~np.isclose(scores, first.scores, rtol=_SAME, atol=_SAME)
        if scores.shape == first.scores.shape
        else None
    )
    if wrong is None or wrong.any():
        n, a = (0, 0) if wrong is None else np.argwhere(wrong)[0]
        raise FileError(
            f"The features are not those with which the run in {where} began: they differ at "
            f"{problem.names.pair_said(first.next_states[n], a)}. Resume with the features of then, or give another folder."
        )


def _differs(one: tuple[FloatArray, States], two: tuple[FloatArray, States], k: int) -> int:
    """The first of k pairs whose answers differ by more than rounding; -1 if there is none."""
    if one[1].shape[1:] != two[1].shape[1:]:
        return 0
    same = [
        np.isclose(a[:k], b[:k], rtol=_SAME, atol=_SAME).reshape(k, -1).all(axis=1)
        for a, b in zip(one, two, strict=True)
    ]
    wrong = np.flatnonzero(~(same[0] & same[1]))
    return int(wrong[0]) if len(wrong) else -1


def _said(problem: Problem, rewards: FloatArray, states: States, at: int) -> str:
    """An answer in words, the reward in the units of the simulator."""
    low, high = problem.reward_range
    return f"reward {low + (high - low) * rewards[at]:.9g} and next state {shown(states[at])}"
