"""An ask that is known before it is made, as the share of work that workers do next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from ..base import IntArray, States
from .ask import Ask
from .elsewhere.desk import Desk, Due, Early, Share
from .noise import Noise


class Office(Protocol):
    """A `Simulator`, as far as its place in the streams is concerned."""

    blocks: Noise
    sweeps: Noise
    noise: Noise
    next_sweep: int
    at: int

    def pairs(self, ask: Ask) -> tuple[States, IntArray]: ...
    def open(self, ask: Ask) -> None: ...
    def calls(self, ask: Ask) -> Iterator[Any]: ...
    def due(self, calls: Iterator[Any], n: int, parts: list[Any]) -> Iterator[Due]: ...


class Following:
    """What will be asked after the ask that is being answered, if that is known; and what workers have begun of it."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.ask: Ask | None = None
        self.early: Early | None = None

    def share(self) -> Share | None:
        """It as a share of work; asked for once."""
        ask, self.ask = self.ask, None
        return None if ask is None else share_after(self.office, ask)

    def begun(self, share: Share) -> Desk | None:
        """The desk at which this share of work was begun; what was begun in vain is given up."""
        early, self.early = self.early, None
        if early is None or early.share.same(share):
            return None if early is None else early.desk
        early.desk.close()
        return None

    def give_up(self) -> None:
        """Take back what workers were sent: it will not be asked."""
        early, self.early, self.ask = self.early, None, None
        if early is not None:
            early.desk.close()


def share_after(office: Office, ask: Ask) -> Share | None:
    """An ask as calls, with streams that answers that are still to come do not move; None if there are no such streams.

    The simulator stands at the end of the ask before, and stands there again afterwards.
    """
    if not ask.size:
        return None
    states, actions = office.pairs(ask)
    noises = (office.blocks, office.sweeps)
    before, own = (office.noise, office.next_sweep, office.at), [dict(vars(noise)) for noise in noises]
    try:
        office.open(ask)
        due = list(office.due(office.calls(ask), len(actions), []))
    finally:
        office.noise, office.next_sweep, office.at = before
        for noise, was in zip(noises, own, strict=True):
            vars(noise).update(was)
    if any(stream is was["stream"] for _, stream, _ in due for was in own):  # the ask goes on in a block
        return None
    return Share(due=due, states=states, actions=actions, noise=ask.noise, numbers=ask.core_index)
