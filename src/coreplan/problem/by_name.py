"""Problems by their name on the command line: built-in ones, and the user's own in a file or module."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from ..base import (
    InputError,
    as_count,
    as_text,
    nearest,
    text_of,
)
from .problem import Problem, with_horizon
from .zoo import ZOO, make


def problem_by_name(spec: str, horizon: int | None = None) -> Problem:
    """The problem named by `spec`: `river-linear:L=15`, `path/to/file.py:name` or `package.module:name`.

    `name` must be a `Problem`, or a function without arguments that returns one. Naming a file or a
    module executes it: it is the user's own code, and the user named it. With `horizon` the problem ends after that many
    steps; a built-in one then has it in its name.
    """
    spec = as_text("problem_by_name", spec=spec)
    if horizon is None:
        return _named(spec)
    horizon = as_count("problem_by_name", horizon=horizon)
    if spec.partition(":")[0] in ZOO:
        return _named(f"{spec}{',' if ':' in spec else ':'}horizon={horizon}")
    return with_horizon(_named(spec), horizon)


def _named(spec: str) -> Problem:
    place, colon, name = spec.rpartition(":")
    is_file = place.endswith(".py")
    if spec.partition(":")[0] in ZOO or not colon or not (is_file or _looks_like_module(place)):
        if spec.endswith(".py"):
            raise InputError(f"'{spec}' names a file but not the problem in it; write '{spec}:name'.")
        return make(spec)
    module = _import(place, is_file)
    if not hasattr(module, name):
        names = [n for n, v in vars(module).items() if isinstance(v, Problem)]
        raise InputError(
            f"'{place}' has no '{name}'." + (nearest(name, names) if names else " It has no Problem at all.")
        )
    problem = getattr(module, name)
    if callable(problem) and not isinstance(problem, Problem):
        try:
            problem = problem()
        except (Exception, SystemExit) as error:
            raise InputError(f"'{spec}' raised {_where(error)}") from error
    if not isinstance(problem, Problem):
        raise InputError(
            f"'{spec}' must be a Problem, or a function that returns one; it is a {type(problem).__name__}."
        )
    return dataclasses.replace(problem, name=spec) if problem.name == "problem" else problem


def _looks_like_module(place: str) -> bool:
    if not all(part.isidentifier() for part in place.split(".")):
        return False
    with _on_path(""):
        return importlib.util.find_spec(place.split(".")[0]) is not None


def _import(place: str, is_file: bool) -> ModuleType:
    path = Path(place)
    if is_file and not os.path.isfile(place):  # unlike `path.is_file()` it takes every text, however long
        raise InputError(f"There is no file {place}.")
    try:
        if not is_file:
            with _on_path(""):
                return importlib.import_module(place)
        name = f"coreplan_user_{path.stem}"  # a prefix, so that a file called queue.py hides no other module
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        sys.path.insert(0, str(path.parent))  # for good: the file may import its neighbours, now or later
        spec.loader.exec_module(module)
        return module
    except (Exception, SystemExit) as error:
        raise InputError(f"Importing '{place}' raised {_where(error)}") from error


@contextmanager
def _on_path(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _where(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    place, line = (
        (error.filename, error.lineno) if isinstance(error, SyntaxError) else (last.filename, last.lineno)
    )
    return f"{type(error).__name__}: {text_of(error)} ({Path(place or '?').name}, line {line})."
