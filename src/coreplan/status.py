"""How a run ended, as an enum with a sentence for a person."""

from __future__ import annotations

from enum import Enum


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
