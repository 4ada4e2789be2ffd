"""The interface of planners, ask and tell: `Planner`, its base class, and the plain values it exchanges with a run.

A planner is a frozen dataclass of hyperparameters with methods that work on a state. It never calls a model or a feature
map: a run simulates what the planner asks for, computes features, counts queries, and tells it the answers.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..base import FloatArray, InputError, as_python, digest, shown
from ..core import CoreSet
from ..features import Features
from ..sampled import Beliefs, Stored
from ..simulate import Answers, Ask
from .doubts import Verdict
from .setup import CoreSetup as CoreSetup
from .setup import Setup as Setup

Tunable = Mapping[str, tuple[float, float] | tuple[str, ...]]


class ReadOut(NamedTuple):
    """A policy without its features: softmax(scale * phi . theta); scale = infinity is greedy."""

    theta: FloatArray  # [d]
    scale: float


class Sum(NamedTuple):
    """A number that the trace averages between two rows, given by the sum and number of its values since the start."""

    total: float
    number: float


class Kernels(NamedTuple):
    """The planner in compiled form, for the compiled loop; every ask must have the same size.

    `ask(u, state, hyper, core_index)` fills `core_index [n_queries]` by means of the uniforms `u [ask_draws]`;
    `tell(u, state, hyper, core_features, core_index, rewards, initial_phi, next_phi, scratch)` changes
    the state in place, by means of the uniforms `u [tell_draws]`. All fields of the state must be arrays.
    """

    ask: Callable[..., None]
    tell: Callable[..., None]
    hyper: Any
    scratch: Any
    n_queries: int
    n_initial: int
    ask_draws: int
    tell_draws: int
    sweep: str | None = None  # if asks are sweeps: the field of the state, `[1]`, that counts them


class Earlier(NamedTuple):
    """A solve before the last one, for a planner that solves several times."""

    policy: ReadOut
    beliefs: Beliefs | None  # the values that it gives to its own policy
    what: str  # which solve it is, such as "on 64 samples per core pair"


class Planner:
    """The base class of planners. A subclass must define `init`, `ask`, `tell` and `policy`; the rest is optional.

    A planner is a frozen dataclass whose fields are its hyperparameters. Its state is a NamedTuple of arrays and plain
    numbers, which a checkpoint stores. After `resolve`, `self.setup` is what the planner may know of its problem.
    """

    # The name on the command line and in files; by default that of the class in lower case with hyphens.
    name: ClassVar[str] = ""
    needs_core: ClassVar[bool] = True
    # Which pairs: "core", those chosen; "states", all actions at their states; "all", every pair of an enumerable problem.
    core_of: ClassVar[str] = "core"
    needs_table: ClassVar[bool] = False  # whether each feature must be a coordinate of its own: a table
    needs_box: ClassVar[bool] = False  # whether it makes its own features, from bounds
    first_budget: ClassVar[int] = 1_000_000  # queries, if a plan is given neither a budget nor an accuracy
    # What a comparison may tune: settings drawn log-uniformly between two numbers (whole if both are), or among texts.
    tunable: ClassVar[Tunable] = {}
    # Whether its policy leaves the uniform one step by step, so that a run that ends near it is doubtful.
    from_uniform: ClassVar[bool] = False
    # The fields of the state whose shape and dtype are known only during the run.
    growing: ClassVar[frozenset[str]] = frozenset()
    # The fields of the state that hold states of the simulator, which a later ask may hand back.
    visited: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()

    def __post_init__(self) -> None:
        """Hyperparameters that come as NumPy scalars become plain numbers; a planner may check its own here instead."""
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            object.__setattr__(self, field.name, as_python(getattr(self, field.name)))

    # To be defined by every planner.

    def init(self, rng: np.random.Generator) -> Any:
        """The state before the first query."""
        raise _unwritten(self, "init")

    def ask(self, state: Any, rng: np.random.Generator) -> Ask | None:
        """What to simulate next; None when the planner is done. Must not change the state; its size must not be random."""
        raise _unwritten(self, "ask")

    def tell(self, state: Any, answers: Answers, rng: np.random.Generator) -> Any:
        """Update the state with the answers and return it; it may be the same object with its arrays changed in place."""
        raise _unwritten(self, "tell")

    def policy(self, state: Any) -> ReadOut:
        """The policy of a state."""
        raise _unwritten(self, "policy")

    # Optional.

    def following(self, state: Any, ask: Ask) -> Ask | None:
        """What it will ask after `ask`, which is what it asks in this state, if that is the same whatever the answers are.

        Workers begin with it where they would be idle at the end of `ask`. None, if it depends on the answers.
        """
        return None

    def resolve(self, setup: Any) -> Self:
        """The planner with every hyperparameter filled in, bound to the setup; raises InputError if it cannot work there.

        `setup` is a `CoreSetup`, or a plain `Setup` if `needs_core` is False. Called before the first query.
        """
        return self.bind(setup)

    def size(self, state: Any) -> int | None:
        """The number of queries of the next ask; None when the planner is done. Define it if making an ask is costly."""
        ask = require_ask(self, self.ask(state, np.random.default_rng(0)))
        return None if ask is None else ask.size

    def numbers(self, state: Any) -> Mapping[str, float | Sum]:
        """Numbers for one row of the trace; must not change the state."""
        return {}

    def features(self, state: Any) -> Features | None:
        """The features that the policy is about, for a planner that makes its own; they take the place of `Coordinates`."""
        return None

    def action(self, state: Any) -> int | None:
        """The action at the start, for a planner that plans for one state alone; None: that of `policy`."""
        return None

    def verdict(self, state: Any) -> Verdict | None:
        """The planner's judgement of its result, from its state alone; None if it has nothing to say."""
        return None

    def beliefs(self, state: Any) -> Beliefs | None:
        """The Q-values that the planner believes its policy to have; None if it has no such values."""
        return None

    def earlier(self, state: Any) -> Earlier | None:
        """An earlier solve, if its policy differs from the last one's at states that were seen; else None.

        The last solve stands, unless rollouts show that the earlier one earns more.
        """
        return None

    def core(self, state: Any) -> CoreSet | None:
        """The pairs that the planner chose to query, for a planner that finds its own; else None."""
        return None

    @staticmethod
    def weights(state: Any) -> FloatArray | None:
        """How much each core pair weighs, `[m]`, adding up to 1: the paper's lambda. None if there are no such weights.

        `state` has the fields of a state, and may come from a checkpoint of a planner that is not bound.
        """
        return None

    def stored(self, state: Any) -> Stored | None:
        """The stored samples, for a planner that solves on them; else None."""
        return None

    def saved(self, state: Any) -> Any:
        """The state as a checkpoint is to hold it, without room for what may come; the state itself by default."""
        return state

    def rescaled(self, state: Any, scale: float, shift: float) -> Any:
        """The state as it would be if every reward r had been scale * r + shift; None if that cannot be known.

        A run asks this when it is resumed with a wider reward range, which maps the same rewards to other numbers.
        """
        return None

    def check(self, state: Any) -> None:
        """Raise ValueError if numbers of a state that was read from a file make no sense; may rebuild what follows.

        Dtypes and shapes are those of a fresh state, but for `growing` fields. `base/checks.py` has helpers.
        """

    def told(self, state: Any) -> int | None:
        """The number of queries whose answers the state has been told; None if it cannot be known."""
        return None

    def kernels(self) -> Kernels | None:
        """The compiled form of the planner, or None."""
        return None

    def warm_up(self, state: Any, made_up: Callable[[Ask], Answers], rng: np.random.Generator) -> None:
        """Make Numba compile everything that `tell` will call, without changing the state.

        `made_up` answers an ask without a simulator. By default this is one whole step on a copy of the state, which suits
        planners whose steps are small.
        """
        ask = require_ask(self, self.ask(state, rng))
        if ask is not None and ask.core_index is not None:
            trial = type(state)(*(copy.copy(value) for value in state))
            require_state(self, self.tell(trial, made_up(ask), rng), state)

    # Provided by this class.

    setup: Any = None  # set by `bind`; a CoreSetup if the planner needs a core set

    def bind(self, setup: Setup) -> Self:
        """A copy bound to this setup, without anything that was cached for another one."""
        bound = dataclasses.replace(self)  # type: ignore[type-var]
        object.__setattr__(bound, "setup", setup)
        return bound

    def settings(self) -> dict[str, Any]:
        """The hyperparameters as JSON types; arrays are replaced by their digest."""
        values = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        try:
            return dict(json.loads(json.dumps(values)))
        except (TypeError, ValueError, RecursionError):
            what = f"has settings that no file can hold: {shown(values)}"
            raise broken(
                self, what, "settings are numbers, texts, truth values, lists of them, or arrays"
            ) from None

    @classmethod
    def options(cls) -> list[str]:
        """The names of the hyperparameters that can be given as text, that is, all but arrays."""
        return [f.name for f in dataclasses.fields(cls) if not f.metadata.get("array")]  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        return {"array": digest(value)}
    if isinstance(value, (tuple, list)):  # JSON has only lists, and a resume compares settings
        return [_plain(v) for v in value]
    return as_python(value)


# The contract, checked while a planner runs; the errors are written for the planner's author.

_WRITTEN = {
    "init": "init(self, rng) -> state, a NamedTuple of arrays and plain numbers",
    "ask": "ask(self, state, rng) -> Ask(core_index=...), or None when it is done",
    "tell": "tell(self, state, answers, rng) -> state, of the same type",
    "policy": "policy(self, state) -> ReadOut(theta, scale), theta being d finite numbers",
}


def require_planner(planner: Any) -> None:
    """Raise InputError unless `planner` is a planner with all four methods."""
    if isinstance(planner, type) and issubclass(planner, Planner):
        raise InputError(
            f"`plan(planner=...)` was given the class {planner.__name__}; write {planner.__name__}()."
        )
    if not isinstance(planner, Planner):
        raise InputError(
            f"`plan(planner=...)` must be a planner, for example PlugIn(); got {shown(planner)}. A planner of your own is a "
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
    """The error for a planner that breaks its contract: `what` it did, and what the `contract` is."""
    return InputError(
        f"The planner '{planner.name}' {what}. The contract is: {contract}. See docs/add-a-planner.md."
    )


def require_state(planner: Planner, state: Any, like: Any = None) -> Any:
    """The state that `init` returned, or `tell`, whose state was `like` before; or an InputError."""
    method = "init" if like is None else "tell"
    if like is not None and type(state) is not type(like):
        what = f"returned a {type(state).__name__} from `tell` where the state is a {type(like).__name__}"
        raise broken(planner, what, _WRITTEN["tell"])
    if not isinstance(state, tuple) or not hasattr(state, "_fields"):
        raise broken(planner, f"returned a {type(state).__name__} from `{method}`", _WRITTEN["init"])
    if state is like:  # changed in place, so that nothing but numbers can have changed
        return state
    for name, value, old in zip(state._fields, state, state if like is None else like, strict=True):
        if like is not None and _alike(value, old):
            continue
        kind, was = _kind(value), _kind(old)
        if kind is None:
            what = f"returned from `{method}` a state whose field '{name}' is {type(value).__name__} {str(value)[:40]}"
            raise broken(planner, what, _WRITTEN["init"])
        if kind != was and name not in planner.growing:  # a checkpoint could not be resumed
            what = f"returned from `tell` a state whose field '{name}' is {kind}, where it was {was} before"
            raise broken(planner, what, "fields keep their dtype and shape, but for those named in `growing`")
    return state


def _alike(value: Any, old: Any) -> bool:
    """Whether a field of a state is an array of the dtype and shape that it was; quick, since it is asked at every step."""
    arrays = isinstance(value, np.ndarray) and isinstance(old, np.ndarray)
    return arrays and value.dtype == old.dtype and value.shape == old.shape


def _kind(value: Any) -> str | None:
    """What a field of a state holds, in words; None for what a checkpoint cannot hold."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {value.shape}" if value.dtype.kind in "fiub" else None
    if isinstance(value, (bool, np.bool_)):
        return "a truth value"
    if isinstance(value, (int, np.integer)):
        return "a whole number" if -(2**63) <= value < 2**63 else None
    return "a number" if isinstance(value, (float, np.floating)) else None


def require_ask(planner: Planner, ask: Any) -> Ask | None:
    """The ask that a planner returned, or an InputError."""
    if ask is None:
        return None
    if not isinstance(ask, Ask):
        raise broken(planner, f"returned a {type(ask).__name__} from `ask`", _WRITTEN["ask"])
    if (ask.states is None) != (ask.actions is None):
        raise broken(planner, "returned from `ask` states without actions, or the reverse", _WRITTEN["ask"])
    if ask.core_index is not None:
        _require_core_index(planner, np.asarray(ask.core_index), ask.sweep)
    elif ask.sweep is not None:
        raise broken(planner, "returned from `ask` a sweep without `core_index`", _WRITTEN["ask"])
    return ask


def following_ask(planner: Planner, state: Any, ask: Ask, left: int) -> Ask | None:
    """The ask after this one, if it is known before the answers to this one and has at most `left` pairs."""
    following = require_ask(planner, planner.following(state, ask))
    return None if following is None or following.size > left else following


def _require_core_index(planner: Planner, index: Any, sweep: int | None) -> None:
    if not isinstance(planner.setup, CoreSetup):
        what = "returned from `ask` core pairs by number, and says `needs_core = False`"
        raise broken(planner, what, "a planner without a core set asks by states and actions")
    m = planner.setup.m
    whole = index.ndim == 1 and index.dtype.kind in "iu"
    if not whole or (len(index) and not 0 <= index.min() <= index.max() < m):
        few = index.ravel()[:8].tolist()
        what = f"returned from `ask` the core pairs {few}, of shape {index.shape} and dtype {index.dtype}"
        raise broken(planner, what, f"`core_index` holds whole numbers from 0 to m - 1 = {m - 1}, shape (n,)")
    if sweep is not None and (len(index) % m or (index != np.arange(len(index)) % m).any()):
        what = f"returned from `ask` the sweep {sweep} with the core pairs {shown(index)}"
        raise broken(
            planner,
            what,
            f"a sweep asks for the core pairs 0, 1, ..., m - 1 = {m - 1} in this order, once or more",
        )


def require_policy(planner: Planner, read: Any, own: Features | None = None) -> ReadOut:
    """The policy that a planner returned, checked; else raises InputError."""
    d = planner.setup.dimension
    try:
        theta, scale = np.asarray(read[0], dtype=np.float64), float(read[1])
    except (TypeError, ValueError, IndexError, KeyError):
        raise broken(planner, f"returned a {type(read).__name__} from `policy`", _WRITTEN["policy"]) from None
    if own is not None:
        d = own.dimension + d - planner.setup.box.dimension - 1  # a terminal column may add one
    if theta.shape != (d,) or not np.isfinite(theta).all() or not scale > 0:
        what = f"returned a theta of shape {theta.shape} and the scale {scale:g} from `policy`, or one that is not finite"
        raise broken(planner, what, f"{_WRITTEN['policy']}, here d = {d}, and a positive scale")
    return ReadOut(theta, scale)
