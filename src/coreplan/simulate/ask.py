"""What a planner asks a simulator, and what comes back: plain values."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..base import FloatArray, IntArray, States
from ..features import Phi


class Ask(NamedTuple):
    """What to simulate: pairs, by their number in the core set or as states; and draws from nu0."""

    core_index: IntArray | None = None  # [n]; None: `states` and `actions` are given
    states: States | None = None  # [n, ...]
    actions: IntArray | None = None  # [n]
    n_initial: int = 0
    noise: FloatArray | None = None  # [n, noise_dimension] in [0, 1); None: the simulator draws its own
    sweep: int | None = None  # where the pairs are whole sweeps over the core set: the number of the first
    divisible: bool = False  # whether answers to the first pairs only are welcome, should a later one fail

    @property
    def size(self) -> int:
        """How many pairs are to be simulated: queries."""
        pairs = self.actions if self.core_index is None else self.core_index
        return 0 if pairs is None else len(pairs)

    def first(self, n: int) -> Ask:
        """The ask for the first n pairs only."""
        cut: dict[str, Any] = {
            name: getattr(self, name) for name in ("core_index", "states", "actions", "noise")
        }
        shorter: dict[str, Any] = {name: None if value is None else value[:n] for name, value in cut.items()}
        return self._replace(**shorter)


class Answers(NamedTuple):
    """What came back. Next states are opaque: a planner may hand them back in a later ask."""

    ask: Ask
    rewards: FloatArray  # [n], mapped to [0, 1]
    next_states: States  # [n, ...]
    next_features: Phi | None  # [n, A, d] or Sparse [n, A, k]; None where no pair was asked for
    initial_features: Phi | None  # [n_initial, A, ...]; None where no initial state was asked for
    initial_states: States | None = None  # [n_initial, ...], opaque
    fault: BaseException | None = (
        None  # what stopped a divisible ask; `ask` is then the part that was answered
    )
