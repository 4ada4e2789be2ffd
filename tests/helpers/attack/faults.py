"""What a faulty simulator or feature map can do in place of returning what it should.

Each fault is a function of (what was to be returned, the arguments) and belongs to one of three classes: `refuse` (the
answer cannot be used, and an error of ours must say so), `same` (unusual, but right: the run must have the bits of a
healthy one, or be refused) and `valid` (another answer that may be used: the result must be valid).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

REFUSE, SAME, VALID = "refuse", "same", "valid"


class Act(NamedTuple):
    """A fault by name, with the class of answers that it allows."""

    name: str
    allows: str
    do: Callable[[Any, tuple[Any, ...]], Any]


class Odd(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class OwnBase(BaseException):
    """A kind of its own, like those of job schedulers."""


class Unreadable:
    """Something whose conversion to an array raises."""

    def __array__(self, *args: Any, **more: Any) -> Any:
        raise RuntimeError("no array")


class Endless:
    """Something with a length whose repr is endless."""

    def __repr__(self) -> str:
        return "x" * 100_000


EXCEPTIONS: tuple[Callable[[], BaseException], ...] = (
    lambda: ValueError("no such pair"), lambda: KeyError("x"), lambda: OSError(28, "No space left on device"),
    lambda: MemoryError(), lambda: RecursionError("deep"), lambda: StopIteration(), lambda: AssertionError(),
    lambda: ZeroDivisionError(), lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd"), Odd,
    lambda: RuntimeError("y" * 100_000), lambda: RuntimeError("[bold]\x1b[31mred[/]\n" * 50), lambda: Exception(),
    lambda: ExceptionGroup("many", [ValueError("a"), TypeError("b")]), lambda: UserWarning("as an error"),
    lambda: TimeoutError("slow"), lambda: StopAsyncIteration(), lambda: NotImplementedError(), lambda: EOFError(),
)  # fmt: skip
BASE_EXCEPTIONS: tuple[Callable[[], BaseException], ...] = (
    KeyboardInterrupt, SystemExit, lambda: SystemExit(0), GeneratorExit, asyncio.CancelledError, OwnBase,
    lambda: BaseExceptionGroup("many", [KeyboardInterrupt(), ValueError("a")]),
)  # fmt: skip


def raising(make: Callable[[], BaseException]) -> Act:
    """The fault that raises a fresh exception."""

    def do(value: Any, arguments: tuple[Any, ...]) -> Any:
        raise make()

    return Act(f"raises {type(make()).__name__}", REFUSE, do)


RAISES = tuple(map(raising, EXCEPTIONS))
BASE_RAISES = tuple(map(raising, BASE_EXCEPTIONS))


def _masked(a: Any) -> Any:
    return np.ma.array(a, mask=np.arange(a.size).reshape(a.shape) == 0)


def _filled(a: Any, value: Any) -> Any:
    a = a.copy()
    a.reshape(-1)[0] = value
    return a


def _backwards(a: Any) -> Any:
    return np.ascontiguousarray(a[::-1])[::-1]


_BUFFER: dict[tuple[int, ...], Any] = {}


def _reused(a: Any) -> Any:
    """The values in a buffer that every later call of the same shape overwrites."""
    buffer = _BUFFER.setdefault(a.shape, np.empty(a.shape, a.dtype))
    buffer[...] = a
    return buffer


def _slowly(a: Any) -> Any:
    time.sleep(0.002)
    return a


def _read_only(a: Any) -> Any:
    a = a.copy()
    a.flags.writeable = False
    return a


# What can be done to one array of numbers, [n, ...] of float64.
ARRAYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "one too many": (REFUSE, lambda a: np.concatenate([a, a[:1]])),
    "none": (REFUSE, lambda a: a[:0]),
    "one axis more": (REFUSE, lambda a: a[..., None]),
    "one axis less": (REFUSE, lambda a: a.reshape(-1)[0]),
    "transposed and padded": (REFUSE, lambda a: np.zeros((*a.shape[::-1], 3))),
    "None": (REFUSE, lambda a: None),
    "a text": (REFUSE, lambda a: "states"),
    "objects": (REFUSE, lambda a: np.array([object()] * len(a))),
    "complex numbers": (REFUSE, lambda a: a + 1j),
    "texts": (REFUSE, lambda a: a.astype(str)),
    "dates": (REFUSE, lambda a: a.astype("datetime64[s]")),
    "fields": (REFUSE, lambda a: np.zeros(a.shape, dtype=[("x", "f8"), ("y", "i4")])),
    "a dictionary": (REFUSE, lambda a: {"states": a}),
    "a set": (REFUSE, lambda a: {1, 2}),
    "a generator": (REFUSE, lambda a: (x for x in a)),
    "an endless repr": (REFUSE, lambda a: Endless()),
    "an unreadable object": (REFUSE, lambda a: Unreadable()),
    "ragged rows": (REFUSE, lambda a: [[1.0], [1.0, 2.0], 3.0]),
    "a masked array": (REFUSE, _masked),
    "NaN": (REFUSE, lambda a: _filled(a, np.nan)),
    "infinity": (REFUSE, lambda a: _filled(a, np.inf)),
    "minus infinity": (REFUSE, lambda a: _filled(a, -np.inf)),
    "1e308": (REFUSE, lambda a: _filled(a, 1e308)),
    "a huge array": (REFUSE, lambda a: np.zeros((len(a), 2_000_000 // max(len(a), 1)))),
    "a very huge view": (REFUSE, lambda a: np.broadcast_to(0.0, (1_000_000, 100_000))),
    "a function": (REFUSE, lambda a: lambda: a),
    "float16": (VALID, lambda a: a.astype(np.float16)),
    "float32": (VALID, lambda a: a.astype(np.float32)),
    "long double": (VALID, lambda a: a.astype(np.longdouble)),
    "whole numbers": (VALID, lambda a: np.round(a).astype(np.int64)),
    "bytes": (VALID, lambda a: np.round(a).astype(np.int8)),
    "truths": (VALID, lambda a: a > 0.5),
    "zeros": (VALID, np.zeros_like),
    "minus zeros": (VALID, lambda a: -np.zeros_like(a)),
    "denormal numbers": (VALID, lambda a: np.full_like(a, 5e-324)),
    "the other byte order": (SAME, lambda a: a.astype(">f8")),
    "a list": (SAME, lambda a: a.tolist()),
    "a masked array without masks": (SAME, lambda a: np.ma.array(a)),
    "strides": (SAME, lambda a: np.repeat(a, 2, axis=0)[::2]),
    "backwards in memory": (SAME, _backwards),
    "Fortran order": (SAME, np.asfortranarray),
    "read only": (SAME, _read_only),
    "a reused buffer": (SAME, _reused),
    "slowly": (SAME, _slowly),
    "a subclass": (SAME, lambda a: a.view(np.recarray)),
    "objects of numbers": (SAME, lambda a: a.astype(object)),
}  # fmt: skip


def _over(how: Callable[[Any], Any]) -> Callable[[Any, tuple[Any, ...]], Any]:
    return lambda value, arguments: how(value)


def _over_part(part: int, how: Callable[[Any], Any]) -> Callable[[Any, tuple[Any, ...]], Any]:
    def do(value: Any, arguments: tuple[Any, ...]) -> Any:
        parts = list(value)
        parts[part] = how(np.asarray(parts[part]))
        return tuple(parts)

    return do


def changing(part: int, how: Callable[[Any], None]) -> Callable[[Any, tuple[Any, ...]], Any]:
    """Change an argument in place, and return what was to be returned."""

    def do(value: Any, arguments: tuple[Any, ...]) -> Any:
        how(arguments[part])
        return value

    return do


def _subtract(a: Any) -> None:
    a -= 0.25


def _zero(a: Any) -> None:
    a[...] = 0


IN_PLACE = {"subtracts in place": _subtract, "zeroes in place": _zero}
PAIRS: dict[str, Callable[[Any], Any]] = {  # what can be done to a pair, other than to one of its parts
    "None in place of a pair": lambda v: None, "three parts": lambda v: (*v, 1), "one part": lambda v: v[:1],
    "a generator of two": lambda v: (x for x in v), "a dictionary": lambda v: dict(enumerate(v)),
    "swapped": lambda v: v[::-1], "a text": lambda v: "ab",
}  # fmt: skip


def step_faults() -> list[Act]:
    """Everything that a step can do."""
    found = [*RAISES, *BASE_RAISES]
    for name, (allows, how) in ARRAYS.items():
        found.append(Act(f"rewards: {name}", allows, _over_part(0, how)))
        found.append(Act(f"next states: {name}", allows, _over_part(1, how)))
    found += [Act(name, REFUSE, _over(how)) for name, how in PAIRS.items()]
    found += [Act(f"{name}: states", SAME, changing(0, how)) for name, how in IN_PLACE.items()]
    found += [Act(f"{name}: actions", SAME, changing(1, how)) for name, how in IN_PLACE.items()]
    for reward in (-1e-3, 1.001, 7.0, -np.inf):
        act = _over_part(0, lambda a, r=reward: _filled(a, r))
        found.append(Act(f"reward {reward}", REFUSE, act))
    return found


def initial_faults() -> list[Act]:
    """Everything that a draw of initial states can do."""
    return [*RAISES, *BASE_RAISES, *(Act(name, allows, _over(how)) for name, (allows, how) in ARRAYS.items())]


def feature_faults(sparse: bool) -> list[Act]:
    """Everything that a feature map can do."""
    found = [*RAISES, *BASE_RAISES]
    found += [Act(f"{name}: states", SAME, changing(0, how)) for name, how in IN_PLACE.items()]
    if not sparse:
        found += [Act(name, allows, _over(how)) for name, (allows, how) in ARRAYS.items()]
        found.append(Act("too long", REFUSE, _over(lambda a: 10 * a)))
        found.append(Act("negative", VALID, _over(lambda a: -a)))
        found.append(Act("unavailable everywhere", REFUSE, _over(lambda a: np.full_like(a, -1e300))))
        return found
    found += [Act(name, REFUSE, _over(how)) for name, how in PAIRS.items()]
    for name, (allows, how) in ARRAYS.items():
        found.append(Act(f"weights: {name}", allows, _over_part(1, how)))
    for name in ("one too many", "None", "objects", "texts", "a masked array", "a generator", "a huge array"):
        found.append(Act(f"indices: {name}", REFUSE, _over_part(0, ARRAYS[name][1])))
    for index in (-1, 4, 2**62, -(2**63)):
        found.append(Act(f"index {index}", REFUSE, _over_part(0, lambda a, i=index: _filled(a, i))))
    found.append(Act("indices twice", REFUSE, _over_part(0, np.zeros_like)))
    found.append(Act("indices as floats", REFUSE, _over_part(0, lambda a: a + 0.5)))
    found.append(Act("indices as unsigned", SAME, _over_part(0, lambda a: a.astype(np.uint64))))
    found.append(Act("indices as bytes", SAME, _over_part(0, lambda a: a.astype(np.int8))))
    return found


def mask_faults() -> list[Act]:
    """Everything that a mask, bool `[n, A]`, can do; it is to be all True."""
    found = [*RAISES, *BASE_RAISES]
    found += [Act(f"{name}: states", SAME, changing(0, how)) for name, how in IN_PLACE.items()]
    found += [
        Act("forbids everything", REFUSE, _over(np.zeros_like)),
        Act("forbids one", VALID, _over(lambda a: _filled(a, False))),
        Act("whole numbers", REFUSE, _over(lambda a: a.astype(int))),
        Act("one axis less", REFUSE, _over(lambda a: a[:, 0])),
        Act("NaN", REFUSE, _over(lambda a: a * np.nan)),
        Act("None", REFUSE, _over(lambda a: None)),
        Act("a list", SAME, _over(lambda a: a.tolist())),
        Act("masked", REFUSE, _over(_masked)),
    ]
    return found


def progress_faults() -> list[Act]:
    """Everything that a progress bar can do; a run goes on without it."""
    return [Act(act.name, SAME, act.do) for act in (*RAISES, *BASE_RAISES)]
