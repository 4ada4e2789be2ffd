"""Gymnasium's functional environments (FuncEnv): pure functions of the state, in NumPy or in JAX."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...base import CoreplanError, FloatArray, InputError, IntArray, SimulatorError, States, as_states, need
from ...features import Features, ended, terminated
from ..model import gathered
from ..problem import Problem
from .common import Packing, action_values, reward_bounds, said, terminal_problem
from .environments import check_repeatable
from .jax import JaxModel
from .speaking import spoken


def from_functional(
    env: Any,
    features: Features | None,
    discount: float,
    reward_range: tuple[float, float] | None,
    known: tuple[float, float] | None,
    actions: Sequence[Any] | None,
    observe: Callable[[States], Any] | None,
    core_pairs: tuple[States, IntArray] | None,
    name: str,
) -> Problem:
    """The problem of a functional environment; the episode ends where `terminal(next_state)` is true."""
    values = action_values(getattr(env, "action_space", None), actions, name)
    bounds = reward_bounds(reward_range, known, name)
    model: Any
    if _speaks_jax(env, name):
        initial, step = _jax_functions(env)
        model = JaxModel(initial, step, np.stack([np.asarray(v) for v in values]), bounds=bounds, name=name)
    else:
        try:
            model = FunctionalModel(env, values)
            check_repeatable(model, name)
        except CoreplanError:
            raise
        except Exception as error:
            raise InputError(f"{name} could not be stepped: {said(error)}.") from error
    return terminal_problem(
        model, model.columns, features, discount, bounds, core_pairs, observe, name,
        spoken=spoken(name, "", _first(env, isinstance(model, JaxModel)), observe, values),
    )  # fmt: skip


def _first(env: Any, in_jax: bool) -> Callable[[], tuple[Any, Any]]:
    """A function that returns what the environment shows of an initial state, and that state `[D]`."""

    def first() -> tuple[Any, Any]:
        rng: Any = np.random.default_rng(0)
        if in_jax:
            import jax

            rng = jax.random.PRNGKey(0)
        state = call(env, "initial", rng=rng)
        row = np.concatenate([np.ravel(leaf) for leaf in leaves(state)])
        return call(env, "observation", state, rng=rng), row

    return first


def call(env: Any, part: str, *arguments: Any, rng: Any) -> Any:
    """Call one function of the environment; versions of Gymnasium differ in which of them take rng and params."""
    function = getattr(env, part)
    names = inspect.signature(function).parameters
    more = {key: rng for key in ("rng", "key") if key in names}
    if "params" in names and names["params"].default in (None, inspect.Parameter.empty):
        more["params"] = getattr(env, "default_params", None)
    return function(*arguments, **more)


def _speaks_jax(env: Any, name: str) -> bool:
    """Whether the environment is written in JAX: its states are JAX arrays, or it takes a JAX key but no NumPy Generator."""
    try:
        state = call(env, "initial", rng=np.random.default_rng(0))
        return any(type(leaf).__module__.startswith("jax") for leaf in leaves(state))
    except Exception as error:
        try:
            jax = need("jax", "gymnax")
            call(env, "initial", rng=jax.random.PRNGKey(0))
        except Exception:
            raise InputError(
                f"{name}.initial(rng) takes neither a NumPy Generator nor a JAX key: {said(error)}."
            ) from error
        return True


def _jax_functions(env: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    import jax

    def initial(key):
        return call(env, "initial", rng=key)

    def step(key, state, action):
        keys = jax.random.split(key, 3)
        after = call(env, "transition", state, action, rng=keys[0])
        reward = call(env, "reward", state, action, after, rng=keys[1])
        return reward, after, call(env, "terminal", after, rng=keys[2])

    return initial, step


class FunctionalModel:
    """A model that steps a functional environment in NumPy, pair by pair, and passes the Generator on to it."""

    def __init__(self, env: Any, values: Sequence[Any]) -> None:
        self.env, self.values, self.n_actions = env, values, len(values)
        self.template = call(env, "initial", rng=np.random.default_rng(0))
        self.packing = Packing.of([np.asarray(leaf) for leaf in leaves(self.template)])
        self.columns = self.packing.columns

    def initial(self, rng: np.random.Generator, n: int) -> States:
        """`n` initial states, `[n, D + 1]`."""
        states = np.zeros((n, self.columns + 1))
        for i in range(n):
            states[i, :-1] = self._packed(call(self.env, "initial", rng=rng))
        return states

    def step(self, rng: np.random.Generator, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """One transition from each pair."""
        return gathered("step", list(self.each(rng, states, actions)))

    def each(
        self, rng: np.random.Generator, states: States, actions: IntArray
    ) -> Iterator[tuple[float, FloatArray]]:
        """`step`, pair by pair."""
        states = as_states(states, (self.columns + 1,), np.float64, "The environment")
        over = terminated(self.columns)
        for row, number, dead in zip(states, actions, ended(states), strict=True):
            if dead:
                yield 0.0, over
                continue
            state = rebuilt(self.template, iter(x[0] for x in self.packing.unpack(row[None, :-1])))
            action = self.values[number]
            after = call(self.env, "transition", state, action, rng=rng)
            reward = float(call(self.env, "reward", state, action, after, rng=rng))
            done = call(self.env, "terminal", after, rng=rng)
            yield reward, over if done else np.append(self._packed(after), 0.0)

    def _packed(self, state: Any) -> FloatArray:
        parts = [np.asarray(leaf) for leaf in leaves(state)]
        if [part.size for part in parts] != self.packing.sizes:
            raise SimulatorError(
                f"A state has parts of sizes {[p.size for p in parts]} and the first had {self.packing.sizes}."
            )
        return self.packing.pack([part[None] for part in parts], 1)[0]


def leaves(state: Any) -> list[Any]:
    """The numbers and arrays in nested tuples, lists and dicts, in order (dicts in insertion order)."""
    if isinstance(state, dict):
        return [leaf for part in state.values() for leaf in leaves(part)]
    if isinstance(state, (tuple, list)):
        return [leaf for part in state for leaf in leaves(part)]
    return [state]


def rebuilt(template: Any, parts: Iterator[Any]) -> Any:
    """The state with the structure of `template` and the leaves `parts`."""
    if isinstance(template, dict):
        return {key: rebuilt(value, parts) for key, value in template.items()}
    if isinstance(template, tuple) and hasattr(template, "_fields"):
        return type(template)(*(rebuilt(value, parts) for value in template))
    if isinstance(template, (tuple, list)):
        return type(template)(rebuilt(value, parts) for value in template)
    leaf = next(parts)
    return leaf if isinstance(template, np.ndarray) else leaf.item()
