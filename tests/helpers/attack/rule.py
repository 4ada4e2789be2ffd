"""The one rule: a `CoreplanError` of at most 1,000 characters or a right result, in time and in memory, nothing lost."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sys
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

import coreplan
from coreplan import CoreplanError

LONGEST = 1_000  # characters of a message
SECONDS = 5.0  # per input: of the clock and of the processor, since a busy machine only stretches the former
BYTES = 500 * 2**20  # growth of the process's peak of memory
_SOURCE = str(Path(coreplan.__file__).parent)
_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


class Wrong(Exception):
    """An answer that breaks the rule: `kind` is what the totals count, `text` says what happened."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


class Refused(NamedTuple):
    """The right answer to a wrong question: an error of ours, short enough to read."""

    error: CoreplanError


class Finding(NamedTuple):
    """One input whose answer broke the rule."""

    generator: str
    seed: int
    kind: str  # the type of a foreign exception, or "long message", "lost", "other bits", "slow", "memory", "hang", "crash"
    where: str  # the innermost line of coreplan
    text: str
    input: str  # what was done


class Result(NamedTuple):
    """What became of one input: a label for the totals, or a finding."""

    seed: int
    label: str  # "right", "refused", or the kind of the finding
    seconds: float
    finding: Finding | None = None


@dataclass
class Input:
    """One input: the random numbers that decide it, a folder that is deleted afterwards, and notes on what it does."""

    rng: np.random.Generator
    folder: Path
    notes: list[str] = field(default_factory=list)

    def note(self, text: Any) -> None:
        """Say what this input does, for whoever has to repeat it."""
        self.notes.append(shortened(text))

    def one(self, options: Any) -> Any:
        """One of the options, which may be anything that has a length and can be indexed."""
        options = options if isinstance(options, (list, tuple, range)) else list(options)
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)


class Generator(Protocol):
    """A kind of hostile input."""

    name: str
    share: float  # of all inputs, relative to the other generators

    def warm_up(self) -> None:
        """Make what all inputs share and compile what they call: once, before the workers are forked."""

    def attack(self, given: Input) -> str:
        """Do one input. Returns "right" or "refused", or another label of an answer that is as it should be.

        Raises `Wrong`, or lets an exception that is not ours pass: both are findings.
        """


def answer(call: Callable[[], Any]) -> Any:
    """What a call returns, or `Refused` with its error of ours; any other exception passes."""
    try:
        return call()
    except CoreplanError as error:
        said = str(error)
        if len(said) > LONGEST:
            raise Wrong("long message", f"{len(said):,} characters: {said[:200]} ...") from error
        if not said.strip():
            raise Wrong("empty message", type(error).__name__) from error
        return Refused(error)


def one_input(
    generator: Generator, seed: int, scratch: Path, tell: Callable[[str], Any] | None = None
) -> Result:
    """Do input number `seed` of a generator and judge its answer by the rule; `tell` gets what it did and the traceback."""
    folder = scratch / f"{generator.name}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    given = Input(np.random.default_rng([zlib.crc32(generator.name.encode()), seed]), folder)
    peak, clock, cpu = _peak(), time.perf_counter(), time.process_time()
    finding = None
    home = os.getcwd()
    try:
        os.chdir(folder)  # what is written to a silly path is written here
        with quiet():
            label = generator.attack(given)
    except BaseException as error:  # every kind: the rule is about all of them
        finding = _finding(generator.name, seed, error, given.notes)
        if tell is not None:
            tell("".join(traceback.format_exception(error)))
    seconds = time.perf_counter() - clock
    os.chdir(home)
    for note in given.notes if tell is not None else ():
        tell(note)
    spent = min(seconds, time.process_time() - cpu)
    shutil.rmtree(folder, ignore_errors=True)
    if finding is None and spent > SECONDS:
        finding = Finding(generator.name, seed, "slow", "", f"{spent:.1f} s", "; ".join(given.notes))
    if finding is None and _peak() - peak > BYTES:
        grown = f"{(_peak() - peak) / 2**20:,.0f} MB"
        finding = Finding(generator.name, seed, "memory", "", grown, "; ".join(given.notes))
    return Result(seed, label if finding is None else finding.kind, seconds, finding)


def shortened(value: Any, most: int = 300) -> str:
    """A text or the `repr` of a value, short enough for a line."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except Exception as error:  # a value may be made to raise here
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    text = text.encode("unicode_escape").decode()
    return text if len(text) <= most else f"{text[:most]} ... ({len(text):,} characters)"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Warnings are right answers; they are not shown, and an input that changes their filters changes them for itself."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _finding(name: str, seed: int, error: BaseException, notes: list[str]) -> Finding:
    kind = error.kind if isinstance(error, Wrong) else type(error).__name__
    text = error.text if isinstance(error, Wrong) else shortened(error)
    return Finding(name, seed, kind, _where(error), text, "; ".join(notes))


def _where(error: BaseException) -> str:
    """The innermost line of coreplan in a traceback, or that of the exception that it was raised from."""
    for one in (error, error.__cause__):
        ours = [
            frame
            for frame in (traceback.extract_tb(one.__traceback__) if one else [])
            if frame.filename.startswith(_SOURCE)
        ]
        if ours:
            frame = ours[-1]
            return f"{frame.filename.removeprefix(_SOURCE).lstrip('/')}:{frame.lineno} {frame.name}"
    return ""


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
