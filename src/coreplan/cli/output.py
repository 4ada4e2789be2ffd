"""What reaches a person's terminal, and what happens when it cannot: every text that a command prints passes through here.

Names, paths, states and the messages of simulators are users' own, so nothing in them is obeyed: no control character, no
markup. An output that cannot be written (a full disk, a closed pipe) ends the command with one line and an exit code of its
own; what a run has paid for is on disk by then.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

UNWRITABLE = 74  # the exit code where the output cannot be written (sysexits.h: EX_IOERR)
CLOSED = 141  # where its reader has closed it, as `| head -1` does: 128 + SIGPIPE, as shells count
BUG = 70  # where coreplan itself is wrong (sysexits.h: EX_SOFTWARE)


class OutputError(Exception):
    """Stdout cannot be written to."""


def write(text: str) -> None:
    """Print a text on stdout, at once, so that a failure is noticed here and not when Python exits."""
    if sys.stdout is None:
        raise OutputError("there is none")
    try:
        print(text, flush=True)
    except OSError as error:
        raise OutputError(error.strerror or str(error)) from error
    except ValueError as error:  # stdout is closed
        raise OutputError(str(error)) from error


def say(text: str) -> None:
    """Print one line on stderr: an error, a warning, news. Where stderr cannot be written to, nobody listens."""
    from ..base import cut, printable  # not at the top, since it imports NumPy

    line = cut(printable(" ".join(text.split("\n"))))
    with suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)


def prepare() -> None:
    """Make both streams write what their encoding lacks as an escape such as \\u03b3, instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(
            AttributeError, OSError, ValueError
        ):  # a stream of somebody else's, in a test or an editor
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def give_up(error: OutputError) -> int:
    """The exit code where stdout cannot be written to; from here on it goes nowhere, so that nothing else fails of it."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error.__cause__, BrokenPipeError):
        return CLOSED
    say(f"error: The output cannot be written: {error}. A run's own files, if it has a folder, are complete.")
    return UNWRITABLE


def bug(error: BaseException) -> int:
    """The exit code after an exception that nobody foresaw, which is reported in one line."""
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({os.path.basename(last[0].filename)}, line {last[0].lineno})" if last else ""
    say(
        f"error: This is a bug in coreplan: {type(error).__name__}: {error}{place}. Set COREPLAN_DEBUG=1 to see the "
        "traceback, and please report it with the command."
    )
    return BUG


def debugging() -> bool:
    """Whether the user wants to see tracebacks."""
    return os.environ.get("COREPLAN_DEBUG", "") not in ("", "0")


def text_of(value: Any) -> Any:
    """A text as Rich prints it, word for word; anything else, such as a Text of our own, as it is."""
    from rich.text import Text

    from ..base import printable

    return Text(printable(value)) if isinstance(value, str) else value
