"""Settings as people pass them, checked and turned into plain Python in one place.

A setting may come as a NumPy scalar, as an array of no dimension, as a Fraction or a Decimal. Inside coreplan it is an int,
a float, a bool or a str: files hold it as JSON, and a resumed run compares it with what it was started with. So every public
function and every dataclass of settings takes what it is given through one of these functions. With `optional`, None means
"not given", and passes.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import FileError, InputError, shown
from .memory import available_memory
from .types import native, plain

_HUGE = 1e300  # beyond this, products overflow
_LONGEST_NAME = 255
_LARGE = 2**30  # bytes: smaller arrays are not worth a look at the memory
_LONGEST_PATH = 4_000  # Linux takes 4,095 bytes, and the names of a run's files come on top


def as_python(value: Any) -> Any:
    """The value as plain Python if it is one number, truth value or text in disguise; anything else as it is."""
    if getattr(value, "shape", None) == () and callable(getattr(value, "item", None)):
        inside = value.item()  # a NumPy scalar, or an array of no dimension, of any library
        value = (
            float(inside) if getattr(inside, "shape", None) == () else inside
        )  # a longdouble is its own item
    if isinstance(value, bool) or (isinstance(value, (int, float)) and type(value) in (int, float)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, (numbers.Real, Decimal)):
        return _float(value)
    return str(value) if isinstance(value, str) and type(value) is not str else value


def as_count(owner: str, least: int = 1, optional: bool = False, **given: Any) -> Any:
    """The one value given as a whole number of at least `least` (1e5 is one, too); else an InputError that names it."""
    ((name, value),) = given.items()
    number = as_python(value)
    if number is None and optional:
        return None
    if isinstance(number, float) and number.is_integer() and abs(number) < 2**53:
        number = int(number)  # such as 1e5
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number < 2**63:
        most = " and below 2^63" if isinstance(number, int) and number >= 2**63 else ""
        raise InputError(
            f"`{owner}({name}=...)` must be a whole number of at least {least}{most}, got {shown(value)}."
        )
    return number


def as_positive(owner: str, optional: bool = False, **given: Any) -> Any:
    """The one value given as a positive finite float; else an InputError that names it."""
    return as_number(owner, "a positive finite number", lambda number: number > 0.0, optional, **given)


def as_number(
    owner: str,
    what: str = "a finite number",
    good: Callable[[float], bool] = lambda number: True,
    optional: bool = False,
    **given: Any,
) -> Any:
    """The one value given as a finite float that is `good`, which `what` says in words; else an InputError that names it."""
    ((name, value),) = given.items()
    number = as_python(value)
    if number is None and optional:
        return None
    real = _float(number) if isinstance(number, (int, float)) and not isinstance(number, bool) else math.nan
    if not (abs(real) < _HUGE and good(real)):
        raise InputError(f"`{owner}({name}=...)` must be {what}, got {shown(value)}.")
    return real


def several(check: Callable[..., Any], owner: str, **given: Any) -> list[Any]:
    """What `check` (`as_count`, `as_positive`, ...) makes of each of the values given, in their order."""
    return [check(owner, **{name: value}) for name, value in given.items()]


def as_choice(owner: str, options: Iterable[str], **given: Any) -> str:
    """The one value given, which must be one of the options; else an InputError that names it."""
    ((name, value),) = given.items()
    options = tuple(options)
    word = as_python(value)
    if not isinstance(word, str) or word not in options:
        raise InputError(f"`{owner}({name}=...)` must be one of {', '.join(options)}; got {shown(value)}.")
    return word


def as_flag(owner: str, **given: Any) -> bool:
    """The one value given as True or False; else an InputError that names it."""
    ((name, value),) = given.items()
    flag = as_python(value)
    if not isinstance(flag, bool):
        raise InputError(f"`{owner}({name}=...)` must be True or False, got {shown(value)}.")
    return flag


def as_name(owner: str, **given: Any) -> str:
    """The one value given as a name: text in one line that can be printed, of at most 255 characters."""
    ((name, value),) = given.items()
    text = as_python(value)
    if not isinstance(text, str) or not text.isprintable() or len(text) > _LONGEST_NAME:
        raise InputError(
            f"`{owner}({name}=...)` must be a text in one line, of at most {_LONGEST_NAME} characters that can be printed; "
            f"got {shown(value)}."
        )
    return text


def as_path(owner: str, optional: bool = False, **given: Any) -> Any:
    """The one value given as a Path; else an InputError that names it."""
    ((name, value),) = given.items()
    if value is None and optional:
        return None
    try:
        text = os.fspath(value)
    except Exception:  # a TypeError, or whatever an object of the user's raises
        text = None
    if isinstance(text, str) and "\0" in text:
        raise FileError(
            f"`{owner}({name}=...)` is {shown(value)}: no file or folder can have a NUL in its name."
        )
    if isinstance(text, str) and not _can_be_named(text):
        raise FileError(
            f"`{owner}({name}=...)` is {shown(value)}: the name of a file or folder has at most {_LONGEST_NAME} bytes, and "
            "whole characters only."
        )
    if not isinstance(text, str) or not text:
        raise InputError(f"`{owner}({name}=...)` must be a path, such as 'runs/first'; got {shown(value)}.")
    return Path(text)


def _can_be_named(path: str) -> bool:
    """Whether the system can be asked about this path at all."""
    try:
        return max(map(len, os.fsencode(path).split(b"/"))) <= _LONGEST_NAME and len(path) < _LONGEST_PATH
    except UnicodeEncodeError:  # half a character
        return False


def as_kind(owner: str, kind: Any, form: str, optional: bool = False, **given: Any) -> Any:
    """The one value given, which must be of this class or protocol, which `form` says in words; else an InputError."""
    ((name, value),) = given.items()
    if not isinstance(value, kind) and not (value is None and optional):
        raise InputError(f"`{owner}({name}=...)` must be {form}, got {shown(value)}.")
    return value


def as_text(owner: str, **given: Any) -> str:
    """The one value given as a text; else an InputError that names it."""
    ((name, value),) = given.items()
    text = as_python(value)
    if not isinstance(text, str):
        raise InputError(f"`{owner}({name}=...)` must be a text, got {shown(value)}.")
    return text


def as_shape(owner: str, **given: Any) -> tuple[int, ...]:
    """The one value given as the shape of an array: a tuple of whole numbers; else an InputError that names it."""
    ((name, value),) = given.items()
    sizes: list[Any] = [as_python(size) for size in value] if isinstance(value, (tuple, list)) else [None]
    if not all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**31 for size in sizes):
        raise InputError(
            f"`{owner}({name}=...)` must be a tuple of whole numbers: (2,) for two, () for one number; got {shown(value)}."
        )
    return tuple(sizes)


def as_dtype(owner: str, **given: Any) -> Any:
    """The one value given, which must be a NumPy dtype of numbers; else an InputError that names it."""
    ((name, value),) = given.items()
    try:
        good = value is not None and np.dtype(value).kind in "fiub"
    except Exception:  # whatever NumPy, or an object of the user's, raises
        good = False
    if not good:
        raise InputError(
            f"`{owner}({name}=...)` must be a dtype of numbers, such as np.float64; got {shown(value)}."
        )
    return value


def as_function(owner: str, form: str, optional: bool = False, **given: Any) -> Any:
    """The one value given, which must be a function of this form; else an InputError that names it."""
    ((name, value),) = given.items()
    if not callable(value) and not (value is None and optional):
        raise InputError(f"`{owner}({name}=...)` must be a function: {form}; got {shown(value)}.")
    return value


def as_array(
    owner: str, form: str, ndim: int | None = None, kinds: str = "fiub", finite: bool = True, **given: Any
) -> NDArray[Any]:
    """The one value given as an array of numbers, finite if not said otherwise; `form` says in words what it must be.

    `kinds` are NumPy's letters: f for floats, i and u for whole numbers, b for truth values.
    """
    ((name, value),) = given.items()
    what = f"`{owner}({name}=...)` must be {form}, and"
    array = plain(what, value, InputError)
    if (
        array.nbytes > _LARGE and array.nbytes > available_memory()
    ):  # a view of one number can claim to be any size
        raise InputError(
            f"{what} one that fits into memory; shape {array.shape} takes {array.nbytes / 1e9:,.0f} GB."
        )
    array = native(what, array, InputError)
    good = array.dtype.kind in kinds and array.ndim == (array.ndim if ndim is None else ndim)
    if not good or (finite and array.dtype.kind == "f" and not np.isfinite(array).all()):
        raise InputError(f"`{owner}({name}=...)` must be {form}, got {shown(value)}.")
    return array


def settle(settings: Any, check: Callable[..., Any], *names: str, **more: Any) -> None:
    """In a frozen dataclass, put what `check` (`as_count`, `as_positive`, ...) makes of each of these fields in its place.

    A field whose default is None may be None.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    for name in names:
        value = getattr(settings, name)
        if value is not None or defaults[name] is not None:
            value = check(type(settings).__name__, **more, **{name: value})
            object.__setattr__(settings, name, value)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number too large for a float
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):  # a Decimal that signals
        return math.nan
