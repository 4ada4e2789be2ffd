"""Ask and tell: what every planner is, and the plain values that go back and forth.

A planner is a frozen dataclass of hyperparameters and pure functions of a state. It never calls a
model or a feature map: `run` simulates what it asks for, computes features, counts, and tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ..base import FloatArray, InputError
from ..core import CoreSet
from ..features import Phi, entries, n_actions
from ..problem import Problem
from ..sampled import Stored
from ..simulate import Answers, Ask
from .doubts import Verdict


@dataclass(frozen=True)
class Setup:
    """All that a planner may know before its first query."""

    core_features: Phi | None  # Phi~, [m, d] or Sparse [m, k]; None for a planner that is given no core set
    m: int
    dimension: int  # d
    n_actions: int  # A
    radius: float  # R
    discount: float  # gamma
    budget: int  # queries allowed
    noise_dimension: int | None = None  # uniforms a query, where the simulator is a function of its noise

    def __post_init__(self) -> None:
        phi = self.core_features
        if phi is not None and not entries(phi).any():
            raise InputError(
                "All core features are zero: nothing can be learned. Give features that tell pairs apart."
            )

    @classmethod
    def of(cls, problem: Problem, core: CoreSet | None, budget: int) -> Setup:
        """The setup of a problem, with a core set or without."""
        f = problem.features
        phi, m = (None, 0) if core is None else (core.features(f), len(core))
        k = getattr(problem.model, "noise_dimension", None)
        return cls(phi, m, f.dimension, problem.n_actions, float(f.radius), problem.discount, int(budget), k)


class ReadOut(NamedTuple):
    """A policy before it knows its features: softmax(scale * phi . theta)."""

    theta: FloatArray  # [d]
    scale: float


class Kernels(NamedTuple):
    """The planner in compiled form, for the compiled loop; every ask has the same size.

    `ask(u, state, hyper, core_index)` fills `core_index [n_queries]` from uniforms `u [ask_draws]`;
    `tell(u, state, hyper, core_features, core_index, rewards, initial_phi, next_phi, scratch)` changes
    the state in place, by uniforms `u [tell_draws]`.
    """

    ask: Callable[..., None]
    tell: Callable[..., None]
    hyper: Any
    scratch: Any
    n_queries: int
    n_initial: int
    ask_draws: int
    tell_draws: int


class Planner(Protocol):
    """A planner; its state is a NamedTuple of arrays, which is what a checkpoint stores.

    Subclass it to inherit the answers of a planner that needs a core set, has no doubts and no compiled form.
    """

    name: ClassVar[str]
    needs_core: ClassVar[bool] = True
    first_budget: ClassVar[int] = 1_000_000  # queries, where a command gives neither a budget nor an accuracy
    growing: ClassVar[frozenset[str]] = (
        frozenset()
    )  # fields of the state whose shape and dtype the run decides

    @property
    def _setup(self) -> Setup:
        setup = getattr(self, "setup", None)
        assert isinstance(setup, Setup), "resolve() comes first"
        return setup

    def resolve(self, setup: Setup) -> Planner:
        """The planner with every hyperparameter filled in, which remembers the setup; or an InputError."""

    def init(self, rng: np.random.Generator) -> Any:
        """The state before the first query."""

    def size(self, state: Any) -> int | None:
        """How many queries the next ask makes (0 if it only draws initial states); None when the planner is done."""

    def ask(self, state: Any, rng: np.random.Generator) -> Ask:
        """What to simulate next. Does not change the state."""

    def tell(self, state: Any, answers: Answers, rng: np.random.Generator) -> Any:
        """Fold the answers in; returns the state, which may be the same object changed in place."""

    def warm_up(self, state: Any, made_up: Callable[[Ask], Answers], rng: np.random.Generator) -> None:
        """Have all compiled that `tell` will call, and change nothing; `made_up` answers an ask without a simulator.

        By default one whole step on a copy of the state, for planners whose steps are small.
        """
        ask = self.ask(state, rng)
        if ask.core_index is not None:
            self.tell(type(state)(*(array.copy() for array in state)), made_up(ask), rng)

    def policy(self, state: Any) -> ReadOut:
        """Read the policy out."""

    def verdict(self, state: Any) -> Verdict | None:
        """What the planner thinks of its result, from what it has seen alone; None where it has no doubts."""
        return None

    def core(self, state: Any) -> CoreSet | None:
        """The pairs that the planner chose to query, for a planner that finds its own; else None."""
        return None

    def stored(self, state: Any) -> Stored | None:
        """The samples that the planner keeps, for planners that solve on them; else None."""
        return None

    def check(self, state: Any) -> None:
        """Raise a ValueError if the growing fields of a state that was read from a file do not fit together."""
        return None

    def diagnostics(self, state: Any) -> Mapping[str, float]:
        """Numbers for one row of the trace; may reset what is averaged between rows."""

    def settings(self) -> Mapping[str, Any]:
        """The hyperparameters as JSON types."""

    def kernels(self) -> Kernels | None:
        """The compiled form, where there is one."""
        return None


def stored_setup(stored: Stored) -> Setup:
    """The setup that samples were stored under, as far as they say it: the radius is that of their core."""
    core = stored.core_features
    radius = float(np.sqrt((entries(core) ** 2).sum(axis=1)).max())
    A = n_actions(stored.next_features)
    return Setup(core, stored.m, stored.dimension, A, radius, stored.discount, stored.m)
