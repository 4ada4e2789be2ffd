"""`Index`: from the key of an answer to its place in the file, in 16 bytes per key."""

from __future__ import annotations

import numpy as np

_FEW = 4096  # keys that are held apart before they are sorted in


class Index:
    """Keys and places, whole numbers below 2^64; the first place of a key stays."""

    def __init__(self) -> None:
        self.keys = np.empty(0, dtype=np.uint64)  # sorted
        self.places = np.empty(0, dtype=np.uint64)
        self.recent: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.keys) + len(self.recent)

    def get(self, key: int) -> int | None:
        """The place of a key; None if it is not known."""
        place = self.recent.get(key)
        if place is not None or not len(self.keys):
            return place
        at = int(np.searchsorted(self.keys, np.uint64(key)))
        return int(self.places[at]) if at < len(self.keys) and int(self.keys[at]) == key else None

    def put(self, key: int, place: int) -> None:
        """Add a key that is not known yet."""
        self.recent.setdefault(key, place)
        if len(self.recent) > max(_FEW, len(self.keys) // 8):
            self._sort_in()

    def _sort_in(self) -> None:
        keys = np.concatenate([self.keys, np.fromiter(self.recent, dtype=np.uint64)])
        places = np.concatenate([self.places, np.fromiter(self.recent.values(), dtype=np.uint64)])
        order = np.argsort(keys, kind="stable")
        self.keys, self.places, self.recent = keys[order], places[order], {}
