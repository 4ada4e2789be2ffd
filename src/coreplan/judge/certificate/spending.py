"""How a certificate's queries are split, and how many a gap will take: by what a pilot says of its three parts.

With a queries for the upper bound, b for the lower one and c for the check of the condition, the gap will be about

    upper sqrt(n / a) + lower / sqrt(b) + sqrt(2 variance L k / c) + spread L k / (3 c),

k fresh pairs being checked and L = log(2 k / doubt) (`condition.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .condition import FRESH, LOG_DOUBT

_PARTS = [i / 20 for i in range(1, 20)]
_EVEN = [i / 20 for i in range(6, 15)]  # pilots are too short for more extreme splits between the bounds
_FACTOR = 1.05  # between the numbers of queries that are tried


@dataclass(frozen=True)
class Prices:
    """What a part of the gap costs: each is the part's size for one query."""

    upper: float
    lower: float
    variance: float  # of r + gamma V(y) at a pair; 0 without noise
    spread: float  # the range of it
    check: float = (
        0.06  # the part of the queries that the check gets where its share of the gap is not asked for
    )

    def width(self, a: float, b: float) -> float:
        """upper - lower."""
        return self.upper / math.sqrt(max(a, 1.0)) + self.lower / math.sqrt(max(b, 1.0))

    def unseen(self, c: float) -> float:
        """What the check of the condition could miss."""
        repeat = max(c / FRESH, 1.0)
        return math.sqrt(2 * self.variance * LOG_DOUBT / repeat) + self.spread * LOG_DOUBT / (3 * repeat)

    def split(self, queries: int) -> tuple[int, int]:
        """Queries for the upper and for the lower bound that make upper - lower smallest; the check has its share left."""
        rest = (1.0 - self.check) * queries
        return self._split(rest)

    def _split(self, rest: float) -> tuple[int, int]:
        if self.upper == 0.0:
            return 0, int(rest)
        part = min(_EVEN, key=lambda f: self.width(f * rest, (1.0 - f) * rest))
        return int(part * rest), int((1.0 - part) * rest)

    def split_of_gap(self, queries: int) -> tuple[int, int]:
        """The same for upper + unseen - lower: the check has what is left."""

        def gap(check: float) -> float:
            rest = (1.0 - check) * queries
            return self.width(*self._split(rest)) + self.unseen(check * queries)

        check = min(_PARTS[:12], key=gap)
        return self._split((1.0 - check) * queries)

    def gap(self, queries: int) -> float:
        """The gap that so many queries will leave, about."""
        a, b = self.split_of_gap(queries)
        return self.width(a, b) + self.unseen(queries - a - b)

    def queries_for(self, gap: float, most: float = 1e15) -> int:
        """About how many queries the gap will take."""
        low, high = 1.0, 1000.0
        while self.gap(int(high)) > gap and high < most:
            low, high = high, 2 * high
        while high > _FACTOR * low:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.gap(int(middle)) > gap else (low, middle)
        return int(high)
