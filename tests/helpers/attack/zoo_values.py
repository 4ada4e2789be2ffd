"""Values that nobody should pass, and that somebody will.

Counts between 2,000 and 2^63 are left out: a budget of a billion queries is not silly, it only takes its time.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import coreplan


class Bare:
    """An object with nothing in it."""


class Rude:
    """An object that raises whatever is asked of it."""

    def _no(self, *args: Any, **more: Any) -> Any:
        raise RuntimeError("no")

    __repr__ = __str__ = __float__ = __int__ = __index__ = __bool__ = __len__ = __iter__ = __getitem__ = _no
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __call__ = __array__ = __fspath__ = _no  # type: ignore[assignment]
    __hash__ = object.__hash__


class Wordy:
    """An object with a repr of 100,000 characters."""

    def __repr__(self) -> str:
        return "w" * 100_000


class Colour(enum.Enum):
    RED = 1


def _deep() -> Any:
    value: Any = []
    for _ in range(2_000):
        value = [value]
    return value


def _cycle() -> Any:
    value: list[Any] = [1]
    value.append(value)
    return value


def _raising(*args: Any, **more: Any) -> Any:
    raise KeyError("nothing")


def _nonsense(*args: Any, **more: Any) -> Any:
    return "nonsense"


ZOO: dict[str, Callable[[], Any]] = {
    "None": lambda: None, "True": lambda: True, "False": lambda: False, "NotImplemented": lambda: NotImplemented,
    "...": lambda: ..., "0": lambda: 0, "1": lambda: 1, "-1": lambda: -1, "2": lambda: 2, "7": lambda: 7,
    "2**63": lambda: 2**63, "-2**63-1": lambda: -(2**63) - 1, "2**64": lambda: 2**64, "10**400": lambda: 10**400,
    "-10**400": lambda: -(10**400), "10**5000": lambda: 10**5000, "0.0": lambda: 0.0, "-0.0": lambda: -0.0,
    "0.5": lambda: 0.5,
    "1.0": lambda: 1.0, "1.5": lambda: 1.5, "-1.0": lambda: -1.0, "1e-320": lambda: 1e-320, "1e308": lambda: 1e308,
    "-1e308": lambda: -1e308, "nan": lambda: math.nan, "inf": lambda: math.inf, "-inf": lambda: -math.inf,
    "1j": lambda: 1j,
    "Decimal": lambda: decimal.Decimal("0.3"), "Decimal NaN": lambda: decimal.Decimal("NaN"),
    "Decimal huge": lambda: decimal.Decimal("1e999999"), "Fraction": lambda: fractions.Fraction(1, 3),
    "''": lambda: "", "'x'": lambda: "x", "'1'": lambda: "1", "'1%'": lambda: "1%", "'nan'": lambda: "nan",
    "'NUL'": lambda: "a\0b", "'markup'": lambda: "[/]", "'red'": lambda: "[red]x", "'ansi'": lambda: "\x1b[31mred\x1b[0m",
    "'long'": lambda: "n" * 300, "'very long'": lambda: "n" * 100_000, "'lines'": lambda: "a\nb\r\nc",
    "'surrogate'": lambda: "\ud800", "'emoji'": lambda: "\U0001f600", "'bidi'": lambda: "\u202eabc",
    "'dots'": lambda: "../../x",
    "'/dev/full'": lambda: "/dev/full/x", "'/proc'": lambda: "/proc/self/x", "b''": lambda: b"", "b'x'": lambda: b"x\xff",
    "bytearray": lambda: bytearray(b"ab"), "Path": lambda: Path("p"), "[]": lambda: [], "()": lambda: (),
    "{}": lambda: {},
    "set()": lambda: set(), "[1]": lambda: [1], "[1, 2]": lambda: [1, 2], "(0, 1)": lambda: (0, 1),
    "(1, 0)": lambda: (1, 0),
    "(nan, nan)": lambda: (math.nan, math.nan), "(0, inf)": lambda: (0, math.inf), "[None]": lambda: [None, None],
    "['a', 'b']": lambda: ["a", "b"], "[[1], [2, 3]]": lambda: [[1], [2, 3]], "deep": _deep, "cycle": _cycle,
    "range": lambda: range(3), "generator": lambda: (i for i in range(3)), "dict": lambda: {"a": 1},
    "slice": lambda: slice(3),
    "np.int64(3)": lambda: np.int64(3), "np.float64(0.5)": lambda: np.float64(0.5), "np.float32": lambda: np.float32(0.5),
    "np.bool_": lambda: np.bool_(True), "np.str_": lambda: np.str_("x"), "np.float16": lambda: np.float16(0.5),
    "np.longdouble": lambda: np.longdouble(0.5), "np.complex128": lambda: np.complex128(1),
    "np.datetime64": lambda: np.datetime64("2020"),
    "np.uint8(200)": lambda: np.uint8(200), "np.nan0d": lambda: np.array(np.nan), "np.array(3)": lambda: np.array(3),
    "np.array([])": lambda: np.array([]), "np.array([1, 2])": lambda: np.array([1, 2]),
    "np.array([3])": lambda: np.array([3]),
    "np.ones(4)": lambda: np.ones(4), "np.zeros((2, 2))": lambda: np.zeros((2, 2)),
    "np.ones((2, 2, 2))": lambda: np.ones((2, 2, 2)),
    "np.full nan": lambda: np.full(4, np.nan), "np.eye(3)": lambda: np.eye(3), "np objects": lambda: np.array([1, "a",
    None], dtype=object),
    "np texts": lambda: np.array(["a", "b"]), "np masked": lambda: np.ma.array([0.5, 0.5, 0.5, 0.5], mask=[1, 0, 0, 0]),
    "np fields": lambda: np.zeros(2, dtype=[("a", "f8")]), "np >f8": lambda: np.ones(4, dtype=">f8"),
    "np f2": lambda: np.ones(4, np.float16),
    "np huge": lambda: np.broadcast_to(0.5, (10**6, 10**6)), "np 0xn": lambda: np.zeros((0, 5)),
    "np.random": lambda: np.random.default_rng(1),
    "np.dtype": lambda: np.dtype("f8"), "object()": object, "Bare": Bare, "Rude": Rude, "Wordy": Wordy,
    "int": lambda: int,
    "a class": lambda: Bare, "a module": lambda: math, "Enum": lambda: Colour.RED, "date": lambda: datetime.date(2020,
    1, 1),
    "exception": lambda: ValueError("x"), "print": lambda: _nonsense, "raises": lambda: _raising,
    "lambda": lambda: (lambda: None),
    "identity": lambda: (lambda x: x), "open": lambda: open, "type": lambda: type, "a planner": lambda: coreplan.PlugIn(),
    "a planner class": lambda: coreplan.PlugIn, "a status": lambda: coreplan.Status("finished"),
    "sparse": lambda: coreplan.Sparse(np.zeros((1, 2, 2), int), np.zeros((1, 2, 2))),
}  # fmt: skip
