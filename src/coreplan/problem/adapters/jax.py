"""Problems from pure JAX functions, compiled and vectorised by JAX, and from gymnax environments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base import CoreplanError, FloatArray, InputError, IntArray, States, as_count, as_states, need, shown
from ...features import Features, ended, terminated
from ..problem import Problem
from .common import Packing, action_values, reward_bounds, said, terminal_problem
from .known import action_names
from .speaking import spoken

_LEAST = 8  # the smallest batch size that is compiled
_ROUNDING = 1e-6  # float32 rewards may leave their range by this fraction of it
_FOREVER = 2**31 - 1
_PENDULUM = -(math.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2)
_REWARDS = {
    "MountainCar-v0": (-1.0, 0.0),
    "CartPole-v1": (0.0, 1.0),
    "Acrobot-v1": (-1.0, 0.0),
    "Pendulum-v1": (_PENDULUM, 0.0),
}
_STEPS = 128  # length of the random walks on which `drop` is checked


@dataclass(frozen=True)
class Layout:
    """How a JAX state is split into leaves (arrays): which are kept in the row; the others stay at their initial values."""

    tree: Any  # the state's structure, a JAX tree
    held: list[Any]  # the leaves of an initial state
    names: list[str]
    kept: list[bool]

    @classmethod
    def of(cls, state: Any, drop: Sequence[str], name: str) -> Layout:
        """The layout of an initial state."""
        import jax

        paths, tree = jax.tree_util.tree_flatten_with_path(state)
        names = [jax.tree_util.keystr(path).strip(".[]'\"") or "state" for path, _ in paths]
        unknown = sorted(set(drop) - set(names))
        if unknown:
            raise InputError(
                f"{name}: the state has no part {shown(unknown[0])} to drop; its parts are {names}."
            )
        return cls(tree, [leaf for _, leaf in paths], names, [word not in drop for word in names])

    def of_kept(self, items: Sequence[Any]) -> list[Any]:
        """Of `items`, one per leaf, those whose leaf is kept."""
        return [item for item, keep in zip(items, self.kept, strict=True) if keep]

    def parts(self, state: Any) -> list[Any]:
        """The kept leaves of a state, each in the shape and dtype it has in an initial state. JAX traces this."""
        import jax

        found, tree = jax.tree_util.tree_flatten(state)
        found = [jax.numpy.asarray(leaf) for leaf in found]
        if tree != self.tree or [x.size for x in found] != [x.size for x in self.held]:
            raise TypeError(f"step returns a state that looks like {tree}, initial one like {self.tree}")
        for x, like, name in zip(found, self.held, self.names, strict=True):
            if not np.can_cast(x.dtype, like.dtype, "same_kind"):
                raise TypeError(f"'{name}' is {like.dtype} in an initial state and {x.dtype} after a step")
        return self.of_kept(
            [x.reshape(y.shape).astype(y.dtype) for x, y in zip(found, self.held, strict=True)]
        )

    def state(self, parts: Sequence[Any]) -> Any:
        """The state with these kept leaves; the dropped leaves have their initial values."""
        given = iter(parts)
        return self.tree.unflatten(
            [next(given) if keep else x for x, keep in zip(self.held, self.kept, strict=True)]
        )


class JaxModel:
    """A model from pure JAX functions `initial(key)` and `step(key, state, action)`, under jit and vmap.

    States (any tree of arrays) become rows of float64 and the terminal column, leaf after leaf in JAX's own
    order, which `names` lists; the functions get them back in their own dtypes. Keys are drawn from the NumPy stream,
    64 bits per query. Batches are padded to powers of two, since JAX compiles anew for every new size. `drop` names
    parts of the state that are left out of the row and held at the value they have in an initial state.
    """

    def __init__(
        self,
        initial: Callable[..., Any],
        step: Callable[..., Any],
        values: Any,
        bounds: tuple[float, float],
        name: str,
        drop: Sequence[str] = (),
    ) -> None:
        jax = need("jax", "gymnax")
        self.n_actions, self.bounds, self.name = len(values), bounds, name
        self._key_words = int(jax.random.PRNGKey(0).shape[-1])
        try:
            first = jax.tree_util.tree_map(jax.numpy.asarray, jax.jit(initial)(jax.random.PRNGKey(0)))
        except Exception as error:
            raise InputError(f"{name}: initial(key) raised {said(error)}.") from error
        layout = Layout.of(first, drop, name)
        self.names = layout.of_kept(layout.names)
        self.packing = Packing.of(layout.of_kept(layout.held))
        self.columns = self.packing.columns
        self.column_names = [
            part if size == 1 else f"{part}[{i}]"
            for part, size in zip(self.names, self.packing.sizes, strict=True)
            for i in range(size)
        ]
        choices = jax.numpy.asarray(values)

        def step_parts(key, parts, action):
            reward, after, done = step(key, layout.state(parts), choices[action])
            return (
                jax.numpy.reshape(reward, ()),
                layout.parts(after),
                jax.numpy.reshape(done, ()).astype(bool),
            )

        self._initial = jax.jit(jax.vmap(lambda key: layout.parts(initial(key))))
        self._step = jax.jit(jax.vmap(step_parts))
        self._try()

    def _try(self) -> None:
        """Take one step, so that faulty functions are reported when the problem is built."""
        rng = np.random.default_rng(0)
        try:
            self.step(rng, self.initial(rng, 1), np.zeros(1, np.int64))
        except CoreplanError:
            raise
        except Exception as error:
            raise InputError(
                f"{self.name}: step(key, state, action) must return (reward, next_state, terminated) and be pure "
                f"JAX; {said(error)}."
            ) from error

    def initial(self, rng: np.random.Generator, n: int) -> States:
        """`n` initial states, `[n, D + 1]`."""
        states = np.zeros((n, self.columns + 1))
        parts = self._initial(self._keys(rng, n))
        states[:, :-1] = self.packing.pack([np.asarray(x)[:n] for x in parts], n)
        return states

    def step(self, rng: np.random.Generator, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """One transition from each pair."""
        states = as_states(states, (self.columns + 1,), np.float64, self.name)
        n = len(states)
        living = [_padded(x) for x in self.packing.unpack(states[:, :-1])]
        chosen = _padded(np.asarray(actions, dtype=np.int32))
        reward, parts, done = self._step(self._keys(rng, n), living, chosen)
        next_states = np.zeros_like(states)
        next_states[:, :-1] = self.packing.pack([np.asarray(x)[:n] for x in parts], n)
        before = ended(states)
        next_states[before | np.asarray(done)[:n]] = terminated(self.columns)
        rewards = np.where(before, 0.0, np.asarray(reward, dtype=np.float64)[:n])
        return self._within(rewards), next_states

    def _keys(self, rng: np.random.Generator, n: int) -> Any:
        return _padded(rng.integers(0, 2**32, size=(n, self._key_words), dtype=np.uint32))

    def _within(self, rewards: FloatArray) -> FloatArray:
        """Clip rewards that leave the range by rounding only; larger excesses are left for the guard to report."""
        low, high = self.bounds
        slack = _ROUNDING * (high - low)
        close = (rewards > low - slack) & (rewards < high + slack)
        return np.where(close, np.clip(rewards, low, high), rewards)


def _padded(array: Any) -> Any:
    """The batch, padded with copies of its first row to the next power of two, at least 8."""
    n = len(array)
    size = max(_LEAST, 1 << (n - 1).bit_length()) if n else _LEAST
    filler = array[:1] if n else np.zeros((1, *array.shape[1:]), dtype=array.dtype)
    return np.concatenate([array, np.repeat(filler, size - n, axis=0)])


def from_jax(
    initial: Callable[..., Any],
    step: Callable[..., Any],
    n_actions: int,
    features: Features,
    discount: float = 0.99,
    *,
    reward_range: tuple[float, float] = (0.0, 1.0),
    actions: Sequence[Any] | None = None,
    observe: Callable[[States], Any] | None = None,
    core_pairs: tuple[States, IntArray] | None = None,
    drop: Sequence[str] = (),
    name: str = "jax",
) -> Problem:
    """A problem from pure JAX functions of ONE state; JAX compiles and vectorises them.

    `initial(key) -> state` returns any tree of arrays; `step(key, state, action) -> (reward, next_state,
    terminated)`. Rows hold the leaves one after the other in JAX's order (fields of a dataclass as declared, a
    parent's first; keys of a dict sorted) and the terminal column; `problem.model.names` lists them. `features` are computed
    from the row without the terminal column. `actions` are the values that actions 0..n_actions-1 stand for; by default
    those numbers themselves. JAX computes in float32 unless configured otherwise; results may differ in the last bit
    between batch sizes.
    """
    n_actions = as_count("from_jax", n_actions=n_actions)
    if actions is not None and len(actions) != n_actions:
        raise InputError(f"`from_jax(actions=...)` has {len(actions)} values for n_actions={n_actions}.")
    values = (
        np.arange(n_actions, dtype=np.int32)
        if actions is None
        else np.stack([np.asarray(a) for a in actions])
    )
    bounds = reward_bounds(reward_range, None, name)
    model = JaxModel(initial, step, values, bounds=bounds, name=name, drop=drop)
    return terminal_problem(
        model, model.columns, features, discount, bounds, core_pairs, observe, name,
        state_names=model.column_names, action_names=None if actions is None else action_names("", values, actions),
    )  # fmt: skip


def from_gymnax(
    env: Any,
    features: Features,
    discount: float = 0.99,
    *,
    params: Any = None,
    reward_range: tuple[float, float] | None = None,
    actions: Sequence[Any] | None = None,
    observe: Callable[[States], Any] | None = None,
    core_pairs: tuple[States, IntArray] | None = None,
    drop: Sequence[str] | None = None,
) -> Problem:
    """A problem from a gymnax environment or its name; nothing is reset inside a query.

    In gymnax an episode ends after `max_steps_in_episode`, by a clock in the state. That is truncation, not termination:
    by default (`drop=None`) the limit is lifted and the clock `time` is dropped from the state (so is Pendulum's
    `last_u`), after random walks have checked that nothing else depends on it. An environment whose rewards do depend
    on its clock needs `drop=()`: then the clock is a column and the limit stays, whatever the version of gymnax. Columns
    are the fields of gymnax's EnvState: (position, velocity) for MountainCar-v0, (x, x_dot, theta, theta_dot) for
    CartPole-v1. See `from_jax`.
    """
    jax = need("jax", "gymnax")
    gymnax = need("gymnax", "gymnax")
    if isinstance(env, str):
        if env not in gymnax.registered_envs:
            raise InputError(
                f"gymnax has no environment {shown(env)}; it has {', '.join(gymnax.registered_envs)}."
            )
        env, usual = gymnax.make(env)
    else:
        usual = getattr(env, "default_params", None)
    if not (callable(getattr(env, "step_env", None)) and callable(getattr(env, "reset_env", None))):
        raise InputError(
            f"`from_gymnax(env)` takes a gymnax environment or its name, got {type(env).__name__}."
        )
    params = usual if params is None else params
    name = str(getattr(env, "name", type(env).__name__))
    if drop is None:
        start = jax.eval_shape(lambda key: env.reset_env(key, params)[1], jax.random.PRNGKey(0))
        usually = ("time", "last_u") if name == "Pendulum-v1" else ("time",)
        drop = tuple(word for word in usually if hasattr(start, word))
    if "time" in drop and hasattr(params, "max_steps_in_episode"):
        params = params.replace(max_steps_in_episode=_FOREVER)
    values = np.stack([np.asarray(v) for v in action_values(env.action_space(params), actions, name)])
    bounds = reward_bounds(reward_range, _REWARDS.get(name), name)

    limited = "time" not in drop and hasattr(params, "max_steps_in_episode") and hasattr(env, "is_truncated")

    def initial(key):
        return env.reset_env(key, params)[1]

    def step(key, state, action):
        _, after, reward, done, _ = env.step_env(key, state, action, params)
        # From gymnax 1.0 on `done` is termination alone, and the time limit is told apart; before, it was both.
        return reward, after, done | env.is_truncated(after, params) if limited else done

    def first() -> tuple[Any, Any]:
        shown, state = env.reset_env(jax.random.PRNGKey(0), params)
        return shown, np.concatenate([np.ravel(getattr(state, word)) for word in model.names])

    model = JaxModel(initial, step, values, bounds=bounds, name=name, drop=drop)
    if drop:
        _check_drop(JaxModel(initial, step, values, bounds=bounds, name=name), model, drop)
    return terminal_problem(
        model, model.columns, features, discount, bounds, core_pairs, observe, name,
        state_names=model.column_names, action_names=action_names(name, values, actions),
        spoken=spoken(name, name, first, observe, values),
    )  # fmt: skip


def _check_drop(whole: JaxModel, short: JaxModel, drop: Sequence[str]) -> None:
    """Raise InputError if steps depend on what is dropped: compares random walks with the whole and the shortened state."""
    kept = np.repeat([word in short.names for word in whole.names], whole.packing.sizes)
    kept = np.append(kept, True)  # the terminal column
    rng = np.random.default_rng(0)
    states = whole.initial(rng, _LEAST)
    for t in range(_STEPS):
        actions = rng.integers(whole.n_actions, size=_LEAST)
        reward, after = whole.step(np.random.default_rng(t), states, actions)
        reward_short, after_short = short.step(np.random.default_rng(t), states[:, kept], actions)
        living = ~ended(states)
        same = np.isclose(reward, reward_short) & np.isclose(after[:, kept], after_short).all(axis=1)
        if not same[living].all():
            raise InputError(
                f"{whole.name} depends on {', '.join(drop)}, which would be dropped from its state. Give drop=() to keep "
                "the whole state; a clock is then one of its columns and the time limit ends the episode."
            )
        states = after
