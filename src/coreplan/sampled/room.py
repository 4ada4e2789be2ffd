"""How much memory the stored samples of a planner take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..base import SHARE, InputError, available_memory
from ..core import Frame
from ..features import entries, is_sparse
from .policy_iteration import LARGE


def require_fit(what: str, size: float, cure: str) -> None:
    """Raise InputError if `size` bytes, for `what` a planner would do, are more than may be used."""
    most = SHARE * available_memory()
    if size > most:
        raise InputError(
            f"{what}, about {size / 1e9:.3g} GB, and {most / 1e9:.3g} GB may be used here. {cure}"
        )


@dataclass(frozen=True)
class Room:
    """The memory for samples of a planner that solves on them through a frame of core features."""

    frame: Frame
    n_actions: int

    @cached_property
    def bytes(self) -> float:
        """What may be used, determined once at the start of a run."""
        return SHARE * available_memory()

    def per_row(self, state: Any = None) -> int:
        """Bytes per sample, packed as they are in the state; without one, not packed."""
        phi = self.frame.features
        k = entries(phi).shape[1] * (12 if is_sparse(phi) else 8)
        # Twice, since arrays are copied when they grow; four times if a solve takes as much.
        packed = state is not None and len(state.next_step) > 0
        return (4 if packed else 2 * self.n_actions) * k + 64

    @property
    def of_systems(self) -> int:
        """Bytes that a solve takes besides."""
        m = self.frame.m
        return 16 * (min(m**2, LARGE) if self.frame.units is not None else m * self.frame.d)

    def most(self, state: Any = None) -> int:
        """The number of samples per core pair that fit."""
        left = max(self.bytes - self.of_systems, 0.0)
        return int(min(left / (self.per_row(state) * self.frame.m), 2.0**40))

    def require(self, planner: str, samples: int) -> None:
        """Raise InputError if so many samples per core pair do not fit."""
        if self.most() >= samples:
            return
        rows = samples * self.frame.m
        raise InputError(
            f"{planner} would store the features of {rows:,} next states, with its systems about "
            f"{(self.per_row() * rows + self.of_systems) / 1e9:.3g} GB, and {self.bytes / 1e9:.3g} GB may be used here. "
            "Give a smaller budget or `samples`, or use the planner core-mirror, which stores none."
        )
