"""Problems from Gymnasium environments: classic control, toy text, functional ones, and any with a settable state."""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base import (
    CoreplanError,
    InputError,
    IntArray,
    States,
    as_count,
    as_flag,
    need,
    shown,
)
from ...features import Box, Features, box_of
from ..problem import Problem
from .common import action_values, reward_bounds, said, terminal_problem
from .environments import CURES, CopyModel, StateModel, check_repeatable
from .functional import from_functional
from .known import action_names, state_names
from .masking import as_mask, of_living, told_of
from .speaking import spoken
from .tables import from_tables
from .wrappers import refuse_moving, require_observed

# Gymnasium's own wrappers that concern only the caller of step and reset, not the process; they are removed.
_OUTER = {
    "TimeLimit",
    "OrderEnforcing",
    "PassiveEnvChecker",
    "Autoreset",
    "AutoResetWrapper",
    "RecordEpisodeStatistics",
}
# Where the state is not the observation: the largest values of the state, and which of them are angles.
_BOXES = {
    "AcrobotEnv": ((math.pi, math.pi, 4 * math.pi, 9 * math.pi), (True, True, False, False)),
    "PendulumEnv": ((math.pi, 8.0), (True, False)),
}
_PENDULUM = -(math.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2)  # at the largest angle, speed and torque
_REWARDS = {
    "MountainCarEnv": (-1.0, 0.0),
    "Continuous_MountainCarEnv": (-0.1, 100.0),
    "CartPoleEnv": (0.0, 1.0),
    "AcrobotEnv": (-1.0, 0.0),
    "PendulumEnv": (_PENDULUM, 0.0),
    "CartPoleFunctional": (0.0, 1.0),
    "PendulumFunctional": (_PENDULUM, 0.0),
}


def from_gymnasium(
    env: Any,
    features: Features | None = None,
    discount: float = 0.99,
    *,
    reward_range: tuple[float, float] | None = None,
    actions: Sequence[Any] | None = None,
    get_state: Callable[[Any], Any] | None = None,
    set_state: Callable[[Any, Any], None] | None = None,
    observe: Callable[[States], Any] | None = None,
    core_pairs: tuple[States, IntArray] | None = None,
    copy: bool = False,
    max_copies: int = 10_000,
    box: Any = None,
    periodic: Sequence[bool] | None = None,
    whole: Sequence[bool] | None = None,
    mask: Any = None,
) -> Problem:
    """A problem from a Gymnasium environment, its id, or a functional environment (FuncEnv).

    A planner steps from any state it chooses, so the environment's state must be settable. There are five ways:

    - toy text (FrozenLake, Taxi, CliffWalking: `env.unwrapped.P`): exact and compiled. States are whole
      numbers 0..S, of which S is the terminated one; `features` must be a map of 0..S, one-hot by default.
    - `get_state(env) -> array` and `set_state(env, array)`: any environment; both must cover ALL of the state.
    - functional environments, NumPy or JAX: the state is their own, flattened.
    - classic control (CartPole, MountainCar, Acrobot, Pendulum: `env.unwrapped.state`): the state is the internal one, in
      float64. For Acrobot and Pendulum that is not the observation: it has angles instead of cosines and sines.
    - `copy=True`: one deep copy of the environment per state; at most `max_copies` are kept. This is slow, and a run
      cannot be resumed. The state is (number of the copy, observation), `features` see the observation only, and core
      pairs must be states that `problem.model.initial` or `step` has returned.

    The policy acts on states or on raw observations: `policy.act(observation)`, where the observation is the state (it is
    in CartPole, MountainCar, toy text and with `copy=True`); otherwise on the state, such as `env.unwrapped.state`.

    Except for toy text, states are rows of D numbers and a terminal column (see `coreplan/features/terminal.py`);
    `features` are computed from the D numbers, or from `observe(states [n, D])` if given. `core_pairs` with D columns get
    the terminal pair added. Time limits are removed: truncation is not termination, and nothing is reset inside a
    query. Wrappers of your own are kept: steps go through them, so that what they do to actions and rewards counts. What
    they do to observations does not reach the features unless `observe` says how: such a wrapper is named in a warning, or
    refused if its observations depend on more than the state (stacked, delayed, normalised by moving statistics, with a
    clock); with `copy=True` observations are the wrapper's. coreplan takes the environment over and sets and steps it as it
    needs.

    Parameters
    ----------
    reward_range: (lowest, highest) reward; known for classic control, toy text and phys2d, otherwise required. It is
        widened to contain 0, which terminated states pay.
    actions: the values that actions 0, 1, ... stand for; required if the action space is not Discrete.
    box, periodic, whole: where there are no features, the bounds of the state, as in `Problem`, for the planner `Refine`.
        By default they are known for classic control, or those of a `Box` space of observations that are the state.
    mask: which actions may be taken: `mask(states)` is bool `[n, A]` for living states `[n, D]` (for toy text, numbers
        `[n]`). It must be a function of the state. With "info" it is what the environment tells as
        `info["action_mask"]` (Taxi: its method `action_mask`). That is known only of states that the environment has
        shown, so that core pairs which nobody has met, and resumed runs, need a function.

    The adapter tests the environment on a short walk. It raises InputError if a state does not round-trip, or if two
    steps from one state with one seed disagree.
    """
    gym, given = need("gymnasium", "gymnasium"), env
    env, name, outer = _opened(gym, env)
    copy = as_flag("from_gymnasium", copy=copy)
    if not isinstance(env, gym.Env):
        if get_state is not None or set_state is not None or copy:
            raise InputError(
                f"{name} is functional: it needs no get_state, set_state or copy. Leave them out."
            )
        if mask is not None:
            raise InputError(
                f"{name} is functional: give its problem a mask by dataclasses.replace(problem, mask=...)."
            )
        known = None if outer else _known_range(env)
        return from_functional(
            env, features, discount, reward_range, known, actions, observe, core_pairs, name
        )
    if (get_state is None) != (set_state is None):
        raise InputError("`get_state` and `set_state` go together: one reads the state, the other writes it.")
    table = getattr(env.unwrapped, "P", None)
    if get_state is None and not copy and isinstance(table, dict) and not outer:
        if actions is not None or observe is not None:
            raise InputError(
                f"{name} carries its table, whose states and actions are numbers: leave `actions` and `observe` out."
            )
        return from_tables(env.unwrapped, features, discount, name, reward_range, core_pairs, as_mask(mask))
    values = action_values(env.action_space, actions, name)
    bounds = reward_bounds(reward_range, None if outer else _known_range(env.unwrapped), name)
    if copy:
        refuse_moving(gym, env, name)
        model: CopyModel | StateModel = _copying(env, values, max_copies, name, as_mask(mask))
        inner = observe
        observe = _observation if inner is None else lambda states: inner(_observation(states))
    else:
        model = _setting(env, values, get_state, set_state, name, as_mask(mask))
        if observe is None:
            outermost = env if isinstance(given, str) else given
            require_observed(gym, env, outermost, name, model.first, own=get_state is not None)
    hidden = 1 if copy else 0  # the number of the copy, which no observation has
    around = None if features is not None or copy else _box(env, model, box, periodic, whole, observe)
    if features is not None and (box is not None or periodic is not None or whole is not None):
        raise InputError(
            "`box`, `periodic` and `whole` are for a problem without features: give one of the two."
        )
    if model.told is not None:
        mask = model.told
    kind = type(env.unwrapped).__name__
    return terminal_problem(
        model, model.columns, features, discount, bounds, core_pairs, observe, name, hidden, around,
        state_names=None if copy or get_state is not None else state_names(kind, model.columns),
        action_names=None if outer and actions is None else action_names(kind, values, actions),
        spoken=spoken(name, kind, _first(env if isinstance(given, str) else given, model), observe, values, hidden),
        mask=None if mask is None else of_living(mask, len(values)),
    )  # fmt: skip


def _first(env: Any, model: Any) -> Callable[[], tuple[Any, Any]]:
    """A function that resets the environment, as the caller knows it, and returns what it shows and its state."""

    def first() -> tuple[Any, Any]:
        shown = env.reset(seed=0)[0]
        if isinstance(model, StateModel):
            return shown, model.get_state(model.env)
        return shown, np.append(
            0.0, np.asarray(shown, dtype=np.float64).ravel()
        )  # of copies, this is the state

    return first


def _box(env: Any, model: Any, box: Any, periodic: Any, whole: Any, observe: Any) -> Box | None:
    """The bounds of the state: given, known, or those of the observations where these are the state; None if unknown."""
    if box is not None or observe is not None:
        return None if box is None else box_of("from_gymnasium", box, periodic, whole)
    base = env.unwrapped
    if env is base and type(base).__module__.startswith("gymnasium.envs.") and type(base).__name__ in _BOXES:
        most, angles = _BOXES[type(base).__name__]
        return box_of("from_gymnasium", (np.negative(most), most), angles)
    space = env.observation_space
    if type(space).__name__ != "Box" or int(np.prod(space.shape)) != model.columns:
        return None
    kind = [space.dtype.kind in "iu"] * model.columns if whole is None else whole
    low, high = (np.asarray(edge, dtype=np.float64).ravel() for edge in (space.low, space.high))
    return box_of("from_gymnasium", (low, high), periodic, kind)


def _observation(states: States) -> States:
    return states[:, 1:]  # without the number of the copy


def _opened(gym: Any, env: Any) -> tuple[Any, str, bool]:
    """The environment (an Env without Gymnasium's outer wrappers, or a FuncEnv), its name, and whether wrappers remain."""
    if isinstance(env, str):
        try:
            env = gym.make(env)
        except Exception as error:  # raised by Gymnasium, or by a module that the environment imports
            raise InputError(f"gymnasium.make({shown(env)}) failed: {said(error)}.") from error
    if all(callable(getattr(env, part, None)) for part in ("initial", "transition", "reward", "terminal")):
        return env, type(env).__name__, False
    if not isinstance(env, gym.Env):
        raise InputError(
            f"`from_gymnasium(env)` takes an environment, its id or a FuncEnv, got {type(env).__name__}. A vector "
            "environment cannot be set to a state; give a single one."
        )
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    while env is not env.unwrapped and type(env).__name__ in _OUTER:
        env = env.env
    _refuse_autoreset(env)
    wrapped = env is not env.unwrapped
    functional = getattr(env.unwrapped, "func_env", None)
    return (functional, name, wrapped) if functional is not None and not wrapped else (env, name, wrapped)


def _refuse_autoreset(env: Any) -> None:
    layer = env
    while layer is not env.unwrapped:
        if type(layer).__name__ in ("Autoreset", "AutoResetWrapper"):
            raise InputError(
                "The environment resets itself inside (Autoreset); give it without that wrapper."
            )
        layer = layer.env


def _known_range(env: Any) -> tuple[float, float] | None:
    if not type(env).__module__.startswith("gymnasium.envs."):
        return None
    params = getattr(env, "default_params", None)
    if getattr(env, "_sutton_barto_reward", False) or getattr(params, "sutton_barto_reward", False):
        return (-1.0, 0.0)
    return _REWARDS.get(type(env).__name__)


def _setting(
    env: Any, values: Sequence[Any], get_state: Any, set_state: Any, name: str, mask: Any
) -> StateModel:
    """A tested model that sets the environment's state."""
    try:
        if get_state is None:
            env.reset(seed=0)
            if getattr(env.unwrapped, "state", None) is None:
                raise InputError(f"{name} has no attribute `state` to set, and no table `P`. {CURES}")
            get_state, set_state = _attribute(env)
        model = StateModel(env, values, get_state, set_state)
        model.told = told_of(mask, len(values), name)
        model.check_round_trip()
        check_repeatable(model, name, mask=model.told or mask)
    except CoreplanError:
        raise
    except Exception as error:
        raise InputError(
            f"{name} could not be reset, set to a state and stepped: {said(error)}. {CURES}"
        ) from error
    return model


def _attribute(env: Any) -> tuple[Callable[[Any], Any], Callable[[Any, Any], None]]:
    """Functions that read and write `env.unwrapped.state` in its own type: whole numbers stay whole, reals are float64."""
    first = env.unwrapped.state
    whole = np.asarray(first).dtype.kind in "iub"
    dtype = np.asarray(first).dtype if whole else np.float64

    def set_state(env: Any, state: Any) -> None:
        value = np.rint(state).astype(dtype) if whole else np.array(state, dtype=dtype)
        base = env.unwrapped
        base.state = value if isinstance(first, np.ndarray) else type(first)(value.tolist())
        if hasattr(base, "steps_beyond_terminated"):  # otherwise CartPole pays nothing after a past end
            base.steps_beyond_terminated = None

    return lambda env: env.unwrapped.state, set_state


def _copying(env: Any, values: Sequence[Any], max_copies: int, name: str, mask: Any) -> CopyModel:
    """A tested model that keeps deep copies; warns of what one copy costs."""
    max_copies = as_count("from_gymnasium", max_copies=max_copies)
    try:
        model = CopyModel(env, values, max_copies)
        begin = time.perf_counter()
        copy.deepcopy(env)
        cost = time.perf_counter() - begin
        tried = CopyModel(env, values, 1000)  # enough for the walk
        model.told, tried.told = (told_of(mask, len(values), name) for _ in range(2))
        check_repeatable(tried, name, skip=1, mask=tried.told or mask)
    except CoreplanError:
        raise
    except Exception as error:
        raise InputError(f"{name} cannot be copied and stepped: {said(error)}. {CURES}") from error
    warnings.warn(
        f"{name} is simulated on deep copies: {cost * 1e6:.0f} microseconds per copy, one or two copies per query, "
        f"{max_copies} kept; a run cannot be resumed. get_state and set_state avoid all of this.",
        stacklevel=3,
    )
    return model
