"""What people call the coordinates of a state, the actions and the reward, and how messages name a state and an action."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..base import InputError, as_name, shown

_SAID = 8  # coordinates of a state that are written with their names; more would not be read
_CLOCK, _ENDED = "step", "ended"  # the columns that a horizon and an end append to a state


class Names(NamedTuple):
    """Names of a state's coordinates, of the actions and of the reward; None for what has none.

    `appended` are the names of the columns that coreplan itself appends to a state: the clock of a horizon, and the terminal
    column.
    """

    state: tuple[str, ...] | None = None
    action: tuple[str, ...] | None = None
    reward: str | None = None
    appended: tuple[str, ...] = ()

    def columns(self, count: int) -> list[str]:
        """A name for each of the `count` numbers of a state; where there is none, `state[i]`."""
        known = [*self.state, *self.appended] if self.state else []
        if len(known) > count:
            known = known[:count]
        return [*known, *(f"state[{i}]" for i in range(len(known), count))]

    def action_said(self, action: Any) -> str:
        """An action for a person: its number, and its name if it has one."""
        known = self.action is not None and 0 <= action < len(self.action)
        return f"{action} ({self.action[action]})" if known and self.action else str(action)

    def state_said(self, state: Any) -> str:
        """A state for a person: its numbers, each with its name where there are names for a few."""
        numbers = np.asarray(state)
        if not self.state or numbers.size > _SAID or numbers.dtype.kind not in "fiub":
            return shown(numbers)
        pairs = zip(self.columns(numbers.size), numbers.ravel().tolist(), strict=True)
        return f"({', '.join(f'{name}: {value!r}' for name, value in pairs)})"

    def pair_said(self, state: Any, action: Any) -> str:
        """A pair for a person: "state [0.5, 0.1] and action 2", with names where there are any."""
        return f"state {self.state_said(state)} and action {self.action_said(action)}"

    def as_dict(self) -> dict[str, Any]:
        """As JSON types, for the files of a run."""
        return {
            "state": None if self.state is None else list(self.state),
            "action": None if self.action is None else list(self.action),
            "reward": self.reward,
        }


def appended(clock: bool, terminal: bool) -> tuple[str, ...]:
    """The names of the columns that are appended to a state."""
    return (_CLOCK,) * clock + (_ENDED,) * terminal


def as_names(names: Any, count: int, what: str, of: str) -> tuple[str, ...]:
    """`count` different names; `of` says what has so many; else an InputError that names the parameter `what`."""
    if not isinstance(names, (tuple, list)) or len(names) != count:
        got = f"{len(names)} of them" if isinstance(names, (tuple, list)) else shown(names)
        raise InputError(
            f"`Problem({what}=...)` must be a list of {count} name{'s' * (count != 1)}, one for each of {of}; got {got}."
        )
    texts = tuple(_as_word(name, what) for name in names)
    twice = [text for n, text in enumerate(texts) if text in texts[:n]]
    if twice:
        raise InputError(f"`Problem({what}=...)` has {shown(twice[0])} twice: give different names.")
    return texts


def as_reward_name(name: Any) -> str | None:
    """The name of the reward, such as "profit in euros"; None if there is none."""
    return None if name is None else _as_word(name, "reward_name")


def _as_word(name: Any, what: str) -> str:
    text = as_name("Problem", **{what: name})
    if not text.strip():
        raise InputError(f"`Problem({what}=...)` has an empty name. Leave it out, or say what it stands for.")
    return text
