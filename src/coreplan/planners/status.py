"""How a run ended: its status, and the verdict of a planner or a judge."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Status(Enum):
    """How a run ended. `status.sentence` says it in words; a plan's own `sentence` adds the numbers."""

    FINISHED = "finished"
    REACHED = "accuracy reached"
    INTERRUPTED = "interrupted"
    TIME_UP = "time is up"
    DOUBTFUL = "doubtful"
    DIVERGED = "diverged"
    NOT_REACHED = "accuracy not reached"

    @property
    def sentence(self) -> str:
        """What happened, in one sentence."""
        return _SENTENCES[self].format(after="")

    @property
    def doubted(self) -> bool:
        """Whether there is something against the result."""
        return self in (Status.DOUBTFUL, Status.DIVERGED, Status.NOT_REACHED)

    @property
    def stopped(self) -> bool:
        """Whether the run ended before its last ask, so that it can be resumed."""
        return self in (Status.INTERRUPTED, Status.TIME_UP)

    def after(self, queries: int) -> str:
        """The sentence with the number of queries."""
        return _SENTENCES[self].format(after=f" after {queries:,} queries")


_SENTENCES = {
    Status.FINISHED: "Finished{after}.",
    Status.REACHED: "Accuracy reached{after}.",
    Status.INTERRUPTED: "Interrupted{after}: the policy is the one reached so far, and a run with a folder can be resumed.",
    Status.TIME_UP: "Time was up{after}: the policy is the one reached so far, and a run with a folder can be resumed.",
    Status.DOUBTFUL: "Finished{after}, with doubts about the policy.",
    Status.DIVERGED: "Diverged{after}: no solution was found, and the policy should not be used.",
    Status.NOT_REACHED: "Accuracy not reached{after}: the policy is the best one found.",
}


class Verdict(NamedTuple):
    """The judgement of a result: a status, and the reason with its cure in a sentence or two."""

    status: Status
    reason: str
    helps: str = ""  # what is likely to help against a doubt (`doubts.py`)
