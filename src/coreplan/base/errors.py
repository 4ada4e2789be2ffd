"""All error classes. A message says what was wrong, the value, what would be right, and what to do next.

Everything coreplan raises on purpose is a `CoreplanError`, so a caller needs one `except`, and the
command line prints its message as a paragraph without a traceback.
"""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Iterable

_HUGE = 1e300  # beyond this, products overflow


class CoreplanError(Exception):
    """Base of all errors raised on purpose; its message is written for a person."""


class InputError(CoreplanError, ValueError):
    """The caller passed something unusable: a hyperparameter, a name, a shape."""


class SimulatorError(CoreplanError, RuntimeError):
    """The user's simulator raised, or returned something that is not a valid reward or state."""


class FeatureError(CoreplanError, RuntimeError):
    """The user's feature map raised, or returned something that contradicts its declared sizes or radius."""


class FileError(CoreplanError, OSError):
    """A policy, checkpoint or run folder that cannot be read, written or trusted."""


class RunError(CoreplanError, RuntimeError):
    """A run ended by an error that is none of coreplan's own, which is its cause (`__cause__`): of a planner, of memory."""


class CoreplanWarning(UserWarning):
    """Base of all warnings; its message is written for a person, and the command line prints it as one line."""


class ReproducibilityWarning(CoreplanWarning):
    """The simulator draws from a source that coreplan does not control: the same seed does not give the same bits."""


class CoverageWarning(CoreplanWarning):
    """States lie outside the box that the features were made for: not an error, but the policy may be poor there."""


def nearest(name: str, options: Iterable[str]) -> str:
    """The end of an error message: suggests the option closest to `name` and lists all options."""
    options = sorted(options)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"{hint} There are: {', '.join(options)}."


def changed_input(who: str, error: BaseException) -> str:
    """If a user's function failed since it writes into the arrays that it is given: what it does, and the cure; else ''."""
    text = str(error).strip()
    refused = isinstance(error, (ValueError, TypeError)) or type(error).__module__.startswith("numba")
    if not refused or ("read-only" not in text and "readonly" not in text):
        return ""
    return (
        f"{who} changes its input in place ({type(error).__name__}: {text.splitlines()[-1].strip()[:200]}). The arrays that "
        "it is given are used elsewhere too, so they are read-only: work on a copy, for instance states = states.copy()."
    )


def require_positive(owner: str, **values: float | None) -> None:
    """Raise InputError unless every value is a positive finite number; None means "not given" and passes."""
    for name, value in values.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < _float(value) < _HUGE:
            raise InputError(f"`{owner}({name}=...)` must be a positive finite number, got {value!r}.")


def require_count(owner: str, least: int = 1, **values: int | None) -> None:
    """Raise InputError unless every value is a whole number of at least `least`; None means "not given" and passes."""
    for name, value in values.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not least <= value < 2**63:
            most = " and below 2^63" if isinstance(value, numbers.Integral) and value >= 2**63 else ""
            raise InputError(
                f"`{owner}({name}=...)` must be a whole number of at least {least}{most}, got {value!r}."
            )


def require_choice(owner: str, options: Iterable[str], **values: str) -> None:
    """Raise InputError unless every value is one of the options."""
    for name, value in values.items():
        if value not in tuple(options):
            raise InputError(f"`{owner}:{name}=...` must be one of {', '.join(options)}; got {value!r}.")


def _float(value: numbers.Real) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number too large for a float
        return float("inf")
