"""`Kept`: the answers to the first pairs of an ask that could not be completed.

They were paid for. An error undoes the whole ask, and the planner will ask the same again, after a resume or at once: then
these answers are used, and only the other pairs are simulated, from the stream where it stood. So the bits are those of a
run without the error, whatever the planner does with its answers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..base import FileError, FloatArray, Snapshot, States, checks, digest, restore, state_from, state_of
from .ask import Ask
from .guard import REPEATED


class Part(NamedTuple):
    """The answers of one call, and the state of its stream before it (None before the first call of an ask)."""

    rewards: FloatArray  # [n]
    next_states: States  # [n, ...]
    before: Snapshot | None


class Kept(NamedTuple):
    """Answers to the first j pairs of an ask, and where the stream stands from which the next pair draws."""

    asked: str  # the digest of these pairs
    rewards: FloatArray  # [j], mapped to [0, 1]
    next_states: States  # [j, ...]
    stream: dict[str, Any] | None  # None if the noise was given
    drew: bool  # whether these answers took random numbers
    repeated: int  # queries that were repeated to check the simulator, besides the j

    @property
    def queries(self) -> int:
        """The queries that were made for these answers."""
        return len(self.rewards) + self.repeated

    def fits(self, ask: Ask) -> bool:
        """Whether these are answers to the first pairs of the ask."""
        return len(self.rewards) <= ask.size and pairs_of(ask, len(self.rewards)) == self.asked

    def put(self, stream: np.random.Generator | None) -> None:
        """Set the stream of the next call to where it stood when these answers were kept; None if noise is given."""
        if stream is None or self.stream is None:
            return
        try:
            restore(stream, self.stream)
        except ValueError as error:
            raise FileError(
                f"The answers that were kept of an ask that failed are not of this run: {error}. Begin in another folder."
            ) from None

    def rescaled(self, scale: float, shift: float) -> Kept:
        """The same answers if every reward r had been scale * r + shift."""
        return self._replace(rewards=np.clip(scale * self.rewards + shift, 0.0, 1.0))

    # In a checkpoint: two arrays, and the rest as JSON types.

    @property
    def arrays(self) -> dict[str, Any]:
        return {"kept.rewards": self.rewards, "kept.next_states": self.next_states}

    @property
    def meta(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("asked", "stream", "drew", "repeated")}

    @classmethod
    def read(cls, arrays: dict[str, Any], meta: Any) -> Kept | None:
        """What a checkpoint holds, taken out of its arrays; raises ValueError, KeyError or TypeError if it is damaged."""
        rewards, states = arrays.pop("kept.rewards", None), arrays.pop("kept.next_states", None)
        if meta is None and rewards is None and states is None:
            return None
        if meta is None or rewards is None or states is None:
            raise ValueError("its kept answers are incomplete")
        good = rewards.dtype == np.float64 and rewards.ndim == 1 and states.shape[:1] == rewards.shape
        if not good or not ((rewards >= 0) & (rewards <= 1)).all() or not _finite(states):
            raise ValueError("its kept answers are none")
        if not isinstance(meta, dict) or not isinstance(meta["drew"], bool) or not states.dtype.isnative:
            raise ValueError("its kept answers are none")
        return cls(
            asked=checks.text(meta, "asked"), rewards=rewards, next_states=states, stream=meta["stream"], drew=meta["drew"],
            repeated=checks.whole(meta, "repeated", 0, REPEATED),
        )  # fmt: skip


def _finite(states: States) -> bool:
    return states.dtype.kind in "iub" or (states.dtype.kind == "f" and bool(np.isfinite(states).all()))


def pairs_of(ask: Ask, n: int) -> str:
    """A short hash of the first n pairs of an ask, of their noise if it is given, and of the number of their sweep."""
    pairs = (ask.states, ask.actions) if ask.core_index is None else (ask.core_index,)
    given = [part[:n] for part in (*pairs, ask.noise) if part is not None]
    return digest(-1 if ask.sweep is None else ask.sweep, *given)


def state_at(here: Any) -> dict[str, Any] | None:
    """The state of a stream that is given by itself or by a snapshot, as JSON types; None if it is not given."""
    if here is None:
        return None
    return state_of(here) if isinstance(here, np.random.Generator) else state_from(here)


def joined(parts: list[Part]) -> tuple[FloatArray, States]:
    """The answers of several calls as one: rewards `[n]`, next states `[n, ...]`."""
    if len(parts) == 1:
        return parts[0][:2]
    rewards, next_states, _ = zip(*parts, strict=True)
    return np.concatenate(rewards), np.concatenate(next_states)
