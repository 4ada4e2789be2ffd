"""Which log is in use, and whose answers it may hold."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from types import CodeType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ...base import InputError, as_path, check_seed, digest
from ...problem import ClockModel, CompiledModel, Problem
from .querylog import QueryLog

P = ParamSpec("P")
T = TypeVar("T")

_now: ContextVar[QueryLog | None] = ContextVar("coreplan_log", default=None)


def log_of() -> QueryLog | None:
    """The log that is in use here; None: there is none."""
    return _now.get()


@contextmanager
def logging_to(path: str | Path | None, problem: Problem, seed: int) -> Iterator[QueryLog | None]:
    """Take from a log, and add to it, whatever is simulated inside; None changes nothing."""
    if path is None:
        yield log_of()
        return
    if not getattr(problem.model, "repeatable", True):
        raise InputError(
            f"The simulator, {type(problem.model).__name__}, keeps its states in this process, so a log of its answers "
            "would mean nothing to another one. Give the environment a state that can be set (get_state, set_state) in "
            "place of copy=True."
        )
    with QueryLog(Path(path), identity(problem, seed)) as log:
        token = _now.set(log)
        try:
            yield log
        finally:
            _now.reset(token)


def by_log(function: Callable[P, T]) -> Callable[P, T]:
    """Let a public function of (problem, ..., seed=..., log=...) take from a log, and add to it."""
    signature = inspect.signature(function)

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        log = kwargs.get("log")
        if log is None:
            return function(*args, **kwargs)
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        problem, seed = given.arguments["problem"], given.arguments["seed"]
        path = as_path(function.__name__, optional=True, log=log)
        if not isinstance(problem, Problem):
            return function(*args, **kwargs)  # which says so
        if isinstance(seed, np.random.Generator):
            raise InputError(
                f"`{function.__name__}(log=...)` needs a whole number as seed, not a Generator: a log is that of one seed."
            )
        with logging_to(path, problem, check_seed(seed)):
            return function(*args, **kwargs)

    return inside


def identity(problem: Problem, seed: int) -> dict[str, Any]:
    """Whose answers a log holds, as JSON types; features, discount and reward range have no part in them.

    `data`: the numbers that a compiled simulator, or a clock, works with. `code`: of the functions that simulate.
    """
    model: Any = problem.model
    kinds, data, code = [], [], hashlib.sha256()
    while isinstance(model, ClockModel):
        kinds.append("ClockModel")
        data.append(digest(model.steps, model.discount, np.asarray(model.reward_range, dtype=float)))
        model = model.base
    kinds.append(type(model).__name__)
    if isinstance(model, CompiledModel):
        data.append(_digest_of(model.data))
    for function in (
        *_functions(vars(model) if hasattr(model, "__dict__") else {}),
        *_functions(vars(type(model))),
    ):
        _add_code(code, function)
    python = f"{sys.version_info.major}.{sys.version_info.minor:02d}"
    return {
        "problem": problem.name, "seed": seed, "actions": problem.n_actions, "model": " of ".join(kinds),
        "data": digest(*map(_as_number, data)) if data else "", "code": f"{python}:{code.hexdigest()[:16]}",
    }  # fmt: skip


def _as_number(text: str) -> int:
    return int(text[:15], 16)


def _digest_of(data: tuple[Any, ...]) -> str:
    """A digest of nested tuples of arrays and numbers."""
    return digest(
        *(_as_number(_digest_of(part)) if isinstance(part, tuple) else np.asarray(part) for part in data)
    )


def _functions(found: Any) -> Iterator[CodeType]:
    """The code of the functions in a namespace, in the order of their names."""
    for name in sorted(found):
        function = getattr(found[name], "py_func", found[name])
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType):
            yield code


def _add_code(h: Any, code: CodeType) -> None:
    """What a function does, without where it stands and what its comments say."""
    h.update(code.co_code)
    h.update(repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    for i, constant in enumerate(code.co_consts):
        if isinstance(constant, CodeType):
            _add_code(h, constant)
        elif isinstance(constant, frozenset):
            h.update(repr(sorted(map(repr, constant))).encode())
        elif i or not isinstance(constant, str):  # the first text is what the function says of itself
            h.update(repr(constant).encode())
