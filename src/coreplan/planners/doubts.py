"""Every reason for doubting a result, in one list."""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

from ..core import Cover
from ..sampled import Stored
from ..simulate import REPEATED

FEW = 8  # samples a core pair: with fewer that differ a result is doubtful


class Status(Enum):
    """How a run ended. `status.sentence` says it to a person."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    DOUBTFUL = "doubtful"
    DIVERGED = "diverged"
    NOT_REACHED = "accuracy not reached"

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Status.FINISHED: "Finished: the planner has used its budget, or needs no more of it.",
    Status.INTERRUPTED: "Interrupted: the policy is the one reached so far. A run with a folder can be resumed.",
    Status.DOUBTFUL: "Finished, with doubts about the policy.",
    Status.DIVERGED: "Diverged: the policy is not the solution of anything and should not be used.",
    Status.NOT_REACHED: "The budget was used before the accuracy asked for was reached; this is the best found.",
}


class Verdict(NamedTuple):
    """What a planner thinks of its own result: a status, the reason in a sentence, and the cure."""

    status: Status
    reason: str


def few(N: int, m: int, same: bool) -> Verdict | None:
    """Doubtful where the N samples of each of m core pairs are few, and not seen to be the same each time."""
    if N >= FEW or (N > 1 and same):
        return None
    return Verdict(
        Status.DOUBTFUL,
        f"The policy rests on few next states of each core pair ({N}), and chance decides which. Give at least "
        f"{FEW * m + REPEATED:,} queries; for a simulator without chance set `samples`.",
    )


def with_watch(own: Verdict | None, watch: Cover) -> Verdict | None:
    """A planner's own verdict, and what the watch over the core's hull found: what is worse counts, and both are said."""
    if not watch.finding:
        return own
    unknown = math.isnan(watch.outside)
    outside = Verdict(Status.FINISHED if unknown else Status.DOUBTFUL, watch.finding)
    if own is None:
        return outside
    if unknown or own.status not in (Status.FINISHED, Status.NOT_REACHED):
        return Verdict(own.status, f"{outside.reason} {own.reason}")
    both = own.status is Status.NOT_REACHED  # an estimated accuracy means nothing outside
    return Verdict(Status.DOUBTFUL, f"{outside.reason} {own.reason}" if both else outside.reason)


def with_stored(own: Verdict | None, stored: Stored) -> Verdict | None:
    """A planner's own verdict on stored samples, and what their features say."""
    watch = Cover(stored.core_features, stored.dimension, stored.discount)
    watch.look(stored.next_features)
    watch.look(stored.initial_features)
    return with_watch(own, watch)
