"""All error classes, and how values stand in their messages.

A message says what was wrong, the value, what would be right, and what to do next. Everything coreplan raises on purpose is
a `CoreplanError`, so a caller needs one `except`, and the command line prints its message as a paragraph without a
traceback. Messages quote what users typed and what their simulators returned, so every message is made fit for a terminal
here: no control characters, and at most 1,000 characters.
"""

from __future__ import annotations

import difflib
import math
import re
import reprlib
from collections.abc import Iterable
from typing import Any

LONGEST = 1000  # characters of a message
_QUOTED = 160  # characters of a value that is quoted in a message
_FEW = 12  # numbers of an array that are quoted

# What a terminal would obey instead of print: control characters, line and paragraph separators, marks that reverse or hide
# the text around them, and halves of surrogate pairs, which no encoding can write. A line feed is a line feed.
_OBEYED = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)


def printable(text: str) -> str:
    """The text with everything that a terminal would obey or cannot show written out, such as \\x1b."""
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


def cut(text: str, most: int = LONGEST) -> str:
    """The text, without its middle if it is longer than `most` characters."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail - 5]} ... {text[-tail:]}"


class _Short(reprlib.Repr):
    """Quotes values of any kind and size in a few words, and never fails."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxlist = self.maxtuple = self.maxset = self.maxdict = self.maxarray = self.maxdeque = 8
        self.maxstring = self.maxother = self.maxlong = _QUOTED

    def repr1(self, x: Any, level: int) -> str:
        try:
            if getattr(x, "shape", None) == () and hasattr(x, "item") and not hasattr(x, "mask"):
                # 0.5 says more than np.float64(0.5)
                x = x.item()
            return super().repr1(x, level)
        except Exception:  # a __repr__ that raises, or a whole number of more digits than Python prints
            return f"<{type(x).__name__} that cannot be printed>"

    def repr_int(self, x: int, level: int) -> str:
        digits = x.bit_length() * 0.30103
        return repr(x) if digits < self.maxlong else f"{'-' if x < 0 else ''}10**{digits:.0f} or so"

    def repr_ndarray(self, x: Any, level: int) -> str:
        if x.size <= _FEW:
            return repr(x.tolist())
        some = ", ".join(repr(v) for v in x.ravel()[: _FEW // 2].tolist())
        return f"[{some}, ...] ({x.size:,} numbers of shape {x.shape})"


_SHORT = _Short()


def shown(value: Any) -> str:
    """A value of the user's as a message quotes it: like repr, in at most 160 characters, arrays as lists of numbers."""
    return cut(printable(_SHORT.repr(value)), _QUOTED)


def known(value: float | None) -> str:
    """A number as tables show it, or that it is not known."""
    return "not known" if value is None or math.isnan(value) else f"{value:.6f}"


class CoreplanError(Exception):
    """Base of all errors raised on purpose; its message is written for a person."""

    def __init__(self, message: object = "") -> None:
        super().__init__(cut(printable(str(message))))


class InputError(CoreplanError, ValueError):
    """The caller passed something unusable: a hyperparameter, a name, a shape."""


class SimulatorError(CoreplanError, RuntimeError):
    """The user's simulator raised, or returned something that is not a valid reward or state."""


class FeatureError(CoreplanError, RuntimeError):
    """The user's feature map raised, or returned something that contradicts its declared sizes or radius."""


class FileError(CoreplanError, OSError):
    """A policy, checkpoint or run folder that cannot be read, written or trusted."""


class ExecutorError(CoreplanError, RuntimeError):
    """Workers that simulate cannot go on: they die or take too long again and again, or their executor was shut down."""


class RunError(CoreplanError, RuntimeError):
    """A run ended by an error that is none of coreplan's own, which is its cause (`__cause__`): of a planner, of memory."""


class CoreplanWarning(UserWarning):
    """Base of all warnings; its message is written for a person, and the command line prints it as one line."""

    def __init__(self, message: object = "") -> None:
        super().__init__(cut(printable(str(message))))


class ReproducibilityWarning(CoreplanWarning):
    """The simulator draws from a source that coreplan does not control: the same seed does not give the same bits."""


class CoverageWarning(CoreplanWarning):
    """States lie outside the box that the features were made for: not an error, but the policy may be poor there."""


def text_of(error: BaseException) -> str:
    """What an exception says; those of users may raise when they are asked."""
    try:
        return str(error).strip()
    except Exception:
        return "(a text that cannot be had)"


def nearest(name: str, options: Iterable[str]) -> str:
    """The end of an error message: suggests the option closest to `name` and lists all options."""
    options = sorted(options)
    close = difflib.get_close_matches(name[:_QUOTED], options, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"{hint} There are: {', '.join(options)}."


def changed_input(who: str, error: BaseException) -> str:
    """If a user's function failed since it writes into the arrays that it is given: what it does, and the cure; else ''."""
    text = text_of(error)
    refused = isinstance(error, (ValueError, TypeError)) or type(error).__module__.startswith("numba")
    if not refused or ("read-only" not in text and "readonly" not in text):
        return ""
    return (
        f"{who} changes its input in place ({type(error).__name__}: {text.splitlines()[-1].strip()[:200]}). The arrays that "
        "it is given are used elsewhere too, so they are read-only: work on a copy, for instance states = states.copy()."
    )
