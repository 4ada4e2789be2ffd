"""`Setup` and `CoreSetup`: everything a planner may know before its first query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..base import InputError
from ..core import CoreSet, CoreStates, Frame
from ..features import Box, Phi, bounds_of, fingerprint
from ..problem import Problem
from ..sampled import Stored


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Everything a planner may know before its first query."""

    dimension: int  # d
    n_actions: int  # A
    radius: float  # R
    discount: float  # gamma
    budget: int  # queries allowed
    noise_dimension: int | None = None  # uniforms per query, if the simulator is a function of its noise
    nonzeros: int | None = None  # k, nonzeros of a feature vector; None if the features are dense
    box: Box | None = None  # where the features are a state's coordinates: their bounds
    features: str = ""  # a hash of the features' description, to tell them from others

    @classmethod
    def of(cls, problem: Problem, budget: int) -> Setup:
        """The setup of a problem for a planner that needs no core set."""
        return cls(**_known(problem, budget))


@dataclass(frozen=True, kw_only=True)
class CoreSetup(Setup):
    """The setup of a planner with a core set: adds the core features, which are factorised at most once per run."""

    frame: Frame
    find_states: Callable[[], CoreStates] | None = None  # None if the pairs themselves are not known

    @cached_property
    def core_states(self) -> CoreStates:
        """The states of the core pairs: their features, and which one each pair has."""
        if self.find_states is None:
            raise InputError("Stored samples do not say at which states they were drawn; give a problem.")
        return self.find_states()

    @property
    def core_features(self) -> Phi:
        """Phi~, `[m, d]` or Sparse `[m, k]`."""
        return self.frame.features

    @property
    def m(self) -> int:
        """The number of core pairs."""
        return self.frame.m

    @classmethod
    def with_core(cls, problem: Problem, core: CoreSet, budget: int) -> CoreSetup:
        """The setup of a problem with a core set."""
        f = problem.features
        return cls(
            frame=Frame(core.features(f), f.dimension),
            find_states=lambda: CoreStates.at(core, f),
            **_known(problem, budget),
        )

    @classmethod
    def of_stored(cls, stored: Stored) -> CoreSetup:
        """The setup of stored samples, as far as it is known: the radius is the norm of the longest core feature."""
        return cls(
            frame=stored.frame, dimension=stored.frame.d, n_actions=stored.n_actions, radius=stored.frame.longest,
            discount=stored.discount, budget=stored.frame.m,
        )  # fmt: skip


def _known(problem: Problem, budget: int) -> dict[str, Any]:
    return {
        "dimension": problem.features.dimension,
        "n_actions": problem.n_actions,
        "radius": float(problem.features.radius),
        "discount": problem.discount,
        "budget": int(budget),
        "noise_dimension": getattr(problem.model, "noise_dimension", None),
        "nonzeros": problem.features.nonzeros,
        "box": bounds_of(problem.features),
        "features": fingerprint(problem.features),
    }
