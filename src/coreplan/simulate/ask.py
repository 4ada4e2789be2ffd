"""`Ask`, what a planner wants to have simulated, and `Answers`, the result: plain values; and who else has a part in it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from ..base import FloatArray, IntArray, States
from ..features import Phi


class Ask(NamedTuple):
    """What to simulate: n pairs, given by their numbers in the core set or as states and actions; and draws from nu0."""

    core_index: IntArray | None = None  # [n]; None: `states` and `actions` are given instead
    states: States | None = None  # [n, ...]
    actions: IntArray | None = None  # [n]
    n_initial: int = 0  # draws from nu0
    noise: FloatArray | None = None  # [n, noise_dimension] in [0, 1); None: the simulator draws its own
    sweep: int | None = None  # if the pairs are whole sweeps over the core set: the number of the first sweep

    @property
    def size(self) -> int:
        """The number of pairs to simulate, each one query."""
        pairs = self.actions if self.core_index is None else self.core_index
        return 0 if pairs is None else len(pairs)


class Answers(NamedTuple):
    """The simulator's answers to an ask. States are opaque to a planner, which may hand them back in a later ask."""

    ask: Ask
    rewards: FloatArray  # [n], mapped to [0, 1]
    next_states: States  # [n, ...]
    next_features: Phi | None  # [n, A, d] or Sparse [n, A, k]; None if the ask had no pairs
    initial_features: Phi | None  # [n_initial, A, ...]; None if it had no n_initial
    initial_states: States | None = None  # [n_initial, ...], opaque
    drew: bool = (
        True  # whether the pairs' answers took random numbers: drawn from the stream, or given as noise
    )


class Pairs(Protocol):
    """State-action pairs, states `[m, ...]` and actions `[m]`, that an ask may name by number: a core set."""

    @property
    def states(self) -> States: ...
    @property
    def actions(self) -> IntArray: ...


class Watch(Protocol):
    """Something that looks at the features that the simulator returns, such as `core.HullWatch`."""

    due: int  # the number of queries at which it wants to look again

    def see(self, queries: int, *batches: Phi | None) -> None: ...
    def mark(self) -> Any: ...
    def return_to(self, mark: Any) -> None: ...
