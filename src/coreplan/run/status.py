"""How a run ended, as an enum with a sentence for a person."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """How a run ended. `status.sentence` says it to a person."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Status.FINISHED: "Finished: the whole budget was used.",
    Status.INTERRUPTED: "Interrupted: the policy is the one reached so far. A run with a folder can be resumed.",
}
