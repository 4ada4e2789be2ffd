"""The attack: seeded generators of hostile input, one rule that judges every answer, and the workers that survive it.

A generator makes input number n from its name and n alone, so that every finding can be repeated:
`python benchmarks/attack.py --only GENERATOR --seed n`. `tests/attack/` runs a few hundred inputs, `benchmarks/attack.py`
as many as it is told.
"""

from __future__ import annotations

from .registry import GENERATORS, SHORT
from .rule import Finding, Generator, Input, Refused, Result, Wrong, answer, one_input
from .workers import Attack

__all__ = [
    "GENERATORS",
    "SHORT",
    "Attack",
    "Finding",
    "Generator",
    "Input",
    "Refused",
    "Result",
    "Wrong",
    "answer",
    "one_input",
]
