"""How a run ended, as an enum with a sentence for a person."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """How a run ended. `status.sentence` says it to a person."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    DOUBTFUL = "doubtful"

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Status.FINISHED: "Finished: the planner used what it was given and has no doubts of its own.",
    Status.INTERRUPTED: "Interrupted: the policy is the one reached so far. A run with a folder can be resumed.",
    Status.DOUBTFUL: "Finished, but probably not with a good policy.",
}
