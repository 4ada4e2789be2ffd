"""Ask and tell: what every planner is, and the plain values that go back and forth.

A planner is a frozen dataclass of hyperparameters and pure functions of a state. It never calls a
model or a feature map: a run simulates what it asks for, computes features, counts, and tells.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..base import FloatArray, InputError, digest
from ..core import CoreSet, Frame
from ..features import Phi
from ..problem import Problem
from ..sampled import Stored
from ..simulate import Answers, Ask
from .doubts import Verdict


@dataclass(frozen=True, kw_only=True)
class Setup:
    """All that a planner may know before its first query."""

    dimension: int  # d
    n_actions: int  # A
    radius: float  # R
    discount: float  # gamma
    budget: int  # queries allowed
    noise_dimension: int | None = None  # uniforms per query, where the simulator is a function of its noise

    @classmethod
    def of(cls, problem: Problem, budget: int) -> Setup:
        """The setup of a problem for a planner that needs no core set."""
        return cls(**_known(problem, budget))


@dataclass(frozen=True, kw_only=True)
class CoreSetup(Setup):
    """The setup of a planner that is given a core set: its features, factorised when first needed and once per run."""

    frame: Frame

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
        return cls(frame=Frame(core.features(f), f.dimension), **_known(problem, budget))

    @classmethod
    def of_stored(cls, stored: Stored) -> CoreSetup:
        """The setup that samples were stored under, as far as they say it: the radius is that of their core."""
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
    }


class ReadOut(NamedTuple):
    """A policy before it knows its features: softmax(scale * phi . theta); scale = infinity is greedy."""

    theta: FloatArray  # [d]
    scale: float


class Sum(NamedTuple):
    """A number for the trace that is averaged between two rows: the sum and number of its values since the run began."""

    total: float
    number: float


class Kernels(NamedTuple):
    """The planner in compiled form, for the compiled loop; every ask has the same size.

    `ask(u, state, hyper, core_index)` fills `core_index [n_queries]` from uniforms `u [ask_draws]`;
    `tell(u, state, hyper, core_features, core_index, rewards, initial_phi, next_phi, scratch)` changes
    the state in place, by uniforms `u [tell_draws]`. All fields of the state are arrays then.
    """

    ask: Callable[..., None]
    tell: Callable[..., None]
    hyper: Any
    scratch: Any
    n_queries: int
    n_initial: int
    ask_draws: int
    tell_draws: int
    sweep: str | None = None  # where asks are sweeps: the field of the state, `[1]`, that counts them


class Planner:
    """What a planner inherits from. It writes `init`, `ask`, `tell` and `policy`, and the rest only if it wants to.

    It is a frozen dataclass; its fields are its hyperparameters. Its state is a NamedTuple of arrays and plain numbers: what
    a checkpoint stores. `self.setup` is what it may know, from `resolve` on.
    """

    name: ClassVar[str] = (
        ""  # on the command line and in files; by default the class's name in lower case with hyphens
    )
    needs_core: ClassVar[bool] = True
    first_budget: ClassVar[int] = 1_000_000  # queries, where a plan is given neither a budget nor an accuracy
    growing: ClassVar[frozenset[str]] = (
        frozenset()
    )  # fields of the state whose shape and dtype the run decides

    def __init_subclass__(cls) -> None:
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()

    # To be written.

    def init(self, rng: np.random.Generator) -> Any:
        """The state before the first query."""
        raise _unwritten(self, "init")

    def ask(self, state: Any, rng: np.random.Generator) -> Ask | None:
        """What to simulate next; None when the planner is done. Does not change the state; its size is not random."""
        raise _unwritten(self, "ask")

    def tell(self, state: Any, answers: Answers, rng: np.random.Generator) -> Any:
        """Fold the answers in; returns the state, which may be the same object with its arrays changed in place."""
        raise _unwritten(self, "tell")

    def policy(self, state: Any) -> ReadOut:
        """Read the policy out."""
        raise _unwritten(self, "policy")

    # To be written where wanted.

    def resolve(self, setup: Any) -> Self:
        """The planner with every hyperparameter filled in, bound to the setup; or an InputError, before any query.

        `setup` is a `CoreSetup`, or a plain `Setup` where `needs_core` is False.
        """
        return self.bind(setup)

    def size(self, state: Any) -> int | None:
        """How many queries the next ask makes; None when the planner is done. Write it where an ask is costly."""
        ask = require_ask(self, self.ask(state, np.random.default_rng(0)))
        return None if ask is None else ask.size

    def numbers(self, state: Any) -> Mapping[str, float | Sum]:
        """Numbers for one row of the trace; changes nothing."""
        return {}

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

    def kernels(self) -> Kernels | None:
        """The compiled form, where there is one."""
        return None

    def warm_up(self, state: Any, made_up: Callable[[Ask], Answers], rng: np.random.Generator) -> None:
        """Have all compiled that `tell` will call, and change nothing; `made_up` answers an ask without a simulator.

        By default one whole step on a copy of the state, for planners whose steps are small.
        """
        ask = require_ask(self, self.ask(state, rng))
        if ask is not None and ask.core_index is not None:
            trial = type(state)(*(copy.copy(value) for value in state))
            require_state(self, self.tell(trial, made_up(ask), rng), state)

    # Given.

    setup: Any = None  # what `bind` remembers; a CoreSetup where the planner needs a core set

    def bind(self, setup: Setup) -> Self:
        """A copy that knows its setup, and nothing that was derived from another."""
        bound = dataclasses.replace(self)  # type: ignore[type-var]
        object.__setattr__(bound, "setup", setup)
        return bound

    def settings(self) -> dict[str, Any]:
        """The hyperparameters as JSON types; of arrays a digest."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}  # type: ignore[arg-type]

    @classmethod
    def options(cls) -> list[str]:
        """The names of the hyperparameters that can be given as text: all but arrays."""
        return [f.name for f in dataclasses.fields(cls) if not f.metadata.get("array")]  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return digest(value) if value.ndim else value.item()
    return value.item() if isinstance(value, np.generic) else value


# The contract, checked while a planner runs: what its author needs to read.

_WRITTEN = {
    "init": "init(self, rng) -> state, a NamedTuple of arrays and plain numbers",
    "ask": "ask(self, state, rng) -> Ask(core_index=...), or None when it is done",
    "tell": "tell(self, state, answers, rng) -> state, of the same type",
    "policy": "policy(self, state) -> ReadOut(theta, scale), theta being d finite numbers",
}


def require_planner(planner: Any) -> None:
    """An InputError unless `planner` is a planner with all four methods."""
    if isinstance(planner, type) and issubclass(planner, Planner):
        raise InputError(
            f"`plan(planner=...)` was given the class {planner.__name__}; write {planner.__name__}()."
        )
    if not isinstance(planner, Planner):
        raise InputError(
            f"`plan(planner=...)` must be a planner, for example PlugIn(); got {planner!r}. A planner of your own is a "
            "frozen dataclass that inherits from coreplan.planners.Planner: see docs/add-a-planner.md."
        )
    if not dataclasses.is_dataclass(planner):
        raise broken(planner, "is not a dataclass", "decorate it with @dataclass(frozen=True, kw_only=True)")
    for name in _WRITTEN:
        if getattr(type(planner), name) is getattr(Planner, name):
            raise _unwritten(planner, name)


def _unwritten(planner: Planner, method: str) -> InputError:
    return broken(planner, f"has no method `{method}`", _WRITTEN[method])


def broken(planner: Planner, what: str, contract: str) -> InputError:
    """The error for a planner that breaks its contract."""
    return InputError(
        f"The planner '{planner.name}' {what}. The contract is: {contract}. See docs/add-a-planner.md."
    )


def require_state(planner: Planner, state: Any, like: Any = None) -> Any:
    """The state that `init` or `tell` returned, or an InputError."""
    method = "init" if like is None else "tell"
    if like is not None and type(state) is not type(like):
        what = f"returned a {type(state).__name__} from `tell` where the state is a {type(like).__name__}"
        raise broken(planner, what, _WRITTEN["tell"])
    if not isinstance(state, tuple) or not hasattr(state, "_fields"):
        raise broken(planner, f"returned a {type(state).__name__} from `{method}`", _WRITTEN["init"])
    if like is None:
        for name, value in zip(state._fields, state, strict=True):
            if not isinstance(value, (np.ndarray, int, float)) or np.asarray(value).dtype.kind not in "fiub":
                what = f"returned a state from `init` whose field '{name}' is a {type(value).__name__}"
                raise broken(planner, what, _WRITTEN["init"])
    return state


def require_ask(planner: Planner, ask: Any) -> Ask | None:
    """The ask that a planner returned, or an InputError."""
    if ask is None or isinstance(ask, Ask):
        if ask is not None and ask.core_index is not None and isinstance(planner.setup, CoreSetup):
            index, m = np.asarray(ask.core_index), planner.setup.m
            if (
                index.ndim != 1
                or index.dtype.kind not in "iu"
                or (len(index) and not 0 <= index.min() <= index.max() < m)
            ):
                few = index.ravel()[:8].tolist()
                what = f"returned from `ask` the core pairs {few}, of shape {index.shape} and dtype {index.dtype}"
                raise broken(
                    planner, what, f"`core_index` holds whole numbers from 0 to m - 1 = {m - 1}, shape (n,)"
                )
        return ask
    raise broken(planner, f"returned a {type(ask).__name__} from `ask`", _WRITTEN["ask"])


def require_policy(planner: Planner, read: Any) -> ReadOut:
    """The read-out of a policy, or an InputError."""
    d = planner.setup.dimension
    try:
        theta, scale = np.asarray(read[0], dtype=np.float64), float(read[1])
    except (TypeError, ValueError, IndexError, KeyError):
        raise broken(planner, f"returned a {type(read).__name__} from `policy`", _WRITTEN["policy"]) from None
    if theta.shape != (d,) or not np.isfinite(theta).all() or not scale > 0:
        what = f"returned a theta of shape {theta.shape} and the scale {scale:g} from `policy`, or one that is not finite"
        raise broken(planner, what, f"{_WRITTEN['policy']}, here d = {d}, and a positive scale")
    return ReadOut(theta, scale)
