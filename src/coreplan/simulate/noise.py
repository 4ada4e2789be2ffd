"""`Noise`: a position in the blocks of noise of one lane."""

from __future__ import annotations

from typing import Any

from ..base import Lane, as_count, restore, simulator_stream, state_of
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

    def return_to(self, mark: dict[str, Any]) -> None:
        """Go back to a position that `mark` returned."""
        number, used = int(mark["number"]), int(mark["used"])
        if not (0 <= number < 2**63 and 0 <= used < 2**63):
            raise ValueError(f"block {number} with {used} queries out of range")
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
