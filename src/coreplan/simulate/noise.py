"""`Noise`: a position in the blocks of noise of one lane; and how large a block is."""

from __future__ import annotations

from typing import Any

from ..base import Lane, as_count, checks, restore, simulator_stream, state_of
from ..problem import BLOCK, Problem


class Noise:
    """A position in the blocks of one lane: the block's number, how many of its queries are used, and its two streams."""

    def __init__(self, seed: int, lane: Lane) -> None:
        self.seed, self.lane = seed, lane
        self.go_to(0)

    def go_to(self, block: int) -> None:
        """Go to the start of a block."""
        self.number, self.used = block, 0
        self.stream = simulator_stream(self.seed, block, self.lane)
        self.initial_stream = simulator_stream(self.seed, block, self.lane, initial=True)

    def mark(self) -> dict[str, Any]:
        """This position, as JSON types."""
        return {
            "number": self.number,
            "used": self.used,
            "stream": state_of(self.stream),
            "initial_stream": state_of(self.initial_stream),
        }

    def return_to(self, mark: dict[str, Any], last: int, most: int) -> None:
        """Go back to a position that `mark` returned; block `last` is the last possible, with `most` queries used."""
        number, used = checks.whole(mark, "number", 0, last), checks.whole(mark, "used", 0, most)
        if number != self.number:
            self.go_to(number)
        self.used = used
        restore(self.stream, mark["stream"])
        restore(self.initial_stream, mark["initial_stream"])


def block_of(problem: Problem) -> int:
    """The block size that the problem's model declares, by default 65,536.

    A batched function wants thousands of queries per call, a plain Python function a few, an expensive simulator one.
    """
    block = getattr(problem.model, "block", BLOCK)
    return int(as_count(type(problem.model).__name__, block=block))


COUNTERS = ("queries", "initial_draws", "next_sweep", "repeated", "lost", "rechecked")


def counters(mark: dict[str, Any], m: int) -> dict[str, int]:
    """The counters in a simulator's mark, with sweeps over m core pairs; ValueError if they contradict each other."""
    found = {name: checks.whole({"lost": 0, "rechecked": 0} | mark, name) for name in COUNTERS}
    if found["next_sweep"] * m > found["queries"] or found["repeated"] > found["queries"]:
        raise ValueError(f"its counters contradict each other: {found}")
    return found
