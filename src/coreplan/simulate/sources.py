"""Global sources of randomness, which coreplan does not control: does a simulator draw from them?"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

_LOOKS = 3  # calls of each function after which nobody looks any more


class Sources:
    """Watches NumPy's and Python's global generators during the first calls of each function; costs no query."""

    def __init__(self) -> None:
        self.looks: dict[str, int] = {}  # by function

    def look(self, name: str) -> dict[str, Any] | None:
        """The state of the sources before a call; None if enough calls were watched."""
        looks = self.looks.get(name, 0)
        if looks >= _LOOKS:
            return None
        self.looks[name] = looks + 1
        return _states()

    def drawn(self, before: dict[str, Any] | None) -> list[str]:
        """The sources that have been drawn from since then."""
        if before is None:
            return []
        return [source for source, state in _states().items() if state != before[source]]

    def stop(self) -> None:
        """Look no more."""
        self.looks = dict.fromkeys(("initial", "step", "step_with"), _LOOKS)


def _states() -> dict[str, Any]:
    """The states of NumPy's and Python's global generators, as values that can be compared."""
    kind, key, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    states: dict[str, Any] = {"np.random": (kind, key.tobytes(), *rest)}  # type: ignore[union-attr]
    if "ray" not in sys.modules:  # whose own threads draw from it, too
        states["Python's random"] = random.getstate()
    return states


def drawn_warning(name: str, drawn: Sequence[str]) -> str:
    """What a call of this function has drawn from, and what to do about it."""
    return (
        f"The simulator's {name} draws from {' and '.join(drawn)}, a global source of randomness, so that the same "
        "seed does not give the same result and a resumed run differs. Take all noise from the `rng` that it is "
        "given, such as rng.random(n) or rng.integers(6, size=n)."
    )
