"""Stored samples: rows that grow, are saved in checkpoints, can be split in halves and handed to other planners.

There are two forms. A planner that samples every core pair equally often keeps `Rows` in its state. They are sample-major:
row n belongs to core pair n mod m, so that more samples extend the arrays. It hands them on as `Stored`, ordered pair by
pair. Where pairs are sampled unequally often, `Transitions` name the pair of each sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base import FloatArray, InputError, IntArray, States, checks
from ..core import Frame
from ..features import (
    Packed,
    Phi,
    Sparse,
    as_sparse,
    first_fault,
    first_repeat,
    from_parts,
    is_sparse,
    length,
    n_actions,
    packed,
    parts_of,
    stack,
    take,
    unpacked,
)
from ..simulate import Answers, Simulator
from .policy_iteration import by_pair


@dataclass(frozen=True)
class Stored:
    """n transitions of each core pair, on which planners that sample once can solve, and which they hand to each other."""

    frame: Frame  # of the core features
    rewards: FloatArray  # [m], means over the n samples
    samples: (
        Phi | Callable[[], Phi]
    )  # the next features, or a function that writes them out when they are first used
    initial_features: Phi  # [n0, A, ...]
    discount: float

    @cached_property
    def next_features(self) -> Phi:
        """Features of the next states, `[m n, A, ...]`; rows j n to (j + 1) n - 1 belong to core pair j."""
        return self.samples() if callable(self.samples) else self.samples

    @property
    def m(self) -> int:
        """The number of core pairs."""
        return self.frame.m

    @property
    def dimension(self) -> int:
        """d."""
        return self.frame.d

    @property
    def n_actions(self) -> int:
        """A."""
        return n_actions(self.initial_features)

    @property
    def n(self) -> int:
        """Samples per core pair."""
        return length(self.next_features) // self.frame.m


@dataclass(frozen=True)
class Transitions:
    """n transitions, each from the pair numbered `pair`, and as many initial states if they were requested."""

    pair: IntArray  # [n]
    rewards: FloatArray  # [n]
    states: States  # [n, ...] next states
    phi: Phi  # [n, A, ...] features of the next states
    initial: States  # [n or 0, ...]
    initial_phi: Phi | None  # [n, A, ...]
    independent: bool = (
        False  # whether every sample has noise of its own; shared or quasi-random noise is not
    )

    def __len__(self) -> int:
        return len(self.pair)

    def require_independent(self) -> None:
        """Raise InputError if these samples may share noise, for a bound that would be wrong then."""
        if not self.independent:
            raise InputError(
                "These samples may share noise, within or between pairs, or be quasi-random; a confidence bound needs "
                "independent ones, such as `draw` takes from a simulator."
            )

    @property
    def starts(self) -> Phi:
        """Features of the initial states, which must have been requested."""
        assert self.initial_phi is not None, "they were not asked for"
        return self.initial_phi

    def take(self, which: Any) -> Transitions:
        """The transitions selected by an index array, a mask or a slice."""
        phi0 = None if self.initial_phi is None else take(self.initial_phi, which)
        initial = self.initial if phi0 is None else self.initial[which]
        return Transitions(
            pair=self.pair[which], rewards=self.rewards[which], states=self.states[which], phi=take(self.phi, which),
            initial=initial, initial_phi=phi0, independent=self.independent,
        )  # fmt: skip


def together(old: Transitions, new: Transitions) -> Transitions:
    """The transitions of both, and their initial states."""

    def both(name: str) -> Any:
        return np.concatenate([getattr(old, name), getattr(new, name)])

    return Transitions(
        pair=both("pair"), rewards=both("rewards"), states=both("states"), phi=stack([old.phi, new.phi]),
        initial=both("initial"), initial_phi=stack([old.starts, new.starts]),
        independent=old.independent and new.independent,
    )  # fmt: skip


def draw(
    simulator: Simulator, states: States, actions: IntArray, pair: IntArray, initial: bool = False
) -> Transitions:
    """One transition from each pair `(states[i], actions[i])` for i in `pair [n]`; if `initial`, also n initial states."""
    x0 = simulator.initial(len(pair)) if initial else states[:0]
    rewards, y = simulator.step(states[pair], actions[pair])
    return Transitions(
        pair=pair, rewards=rewards, states=y, phi=simulator.features(y), initial=x0,
        initial_phi=simulator.features(x0) if initial else None, independent=True,
    )  # fmt: skip


# Rows in a planner's state.

ROWS = ("rewards", "next_index", "next_weight", "next_step")
GROWING = frozenset({*ROWS, "initial_index", "initial_weight"})


class Rows(NamedTuple):
    """The fields of a planner's state that stores samples. Features of next states are `Packed` if that is possible.

    If not, the steps are empty and B = A; if features are dense, so is the index.
    """

    filled: int  # rows in use; the arrays have room for more
    solved: int  # samples per core pair at the last solve
    rewards: FloatArray  # [room]
    next_index: IntArray  # [room, B, k]
    next_weight: FloatArray  # [room, B, k or d]
    next_step: IntArray  # [room]
    initial_index: IntArray  # [n0, A, k]
    initial_weight: FloatArray  # [n0, A, k or d]


def no_rows(n_actions: int) -> dict[str, Any]:
    """The fields of `Rows` before the first answer."""
    index: Any = np.zeros((0, n_actions, 0), dtype=np.int32)
    weight = np.zeros((0, 0, 0))
    return Rows(
        filled=0, solved=0, rewards=np.zeros(0), next_index=index, next_weight=weight,
        next_step=np.zeros(0, dtype=np.int8), initial_index=index, initial_weight=weight,
    )._asdict()  # fmt: skip


def grown(state: Any, filled: int, rows: Mapping[str, Any], most: int = 0) -> Any:
    """The state with `rows` written after the first `filled` rows of the fields of these names; full arrays are doubled.

    If `most` rows are expected, there is room for all of them as soon as an eighth is filled: large arrays are then copied
    no more, and memory that is not yet written to is not yet taken.
    """
    more = max(len(values) for values in rows.values())
    if filled + more > max(len(getattr(state, name)) for name in rows):
        room = max(2 * filled, filled + more, most if 8 * filled >= most else 0)
        bigger = {}
        for name, values in rows.items():
            bigger[name] = np.zeros((room if len(values) else 0, *values.shape[1:]), dtype=values.dtype)
            if len(values) and filled:
                bigger[name][:filled] = getattr(state, name)[:filled]
        state = state._replace(**bigger)
    for name, values in rows.items():
        if len(values):
            getattr(state, name)[filled : filled + more] = values
    return state


def next_rows(filled: int, wanted: int, m: int, most: int) -> int | None:
    """The number of rows of the next ask, for `wanted` rows in total; None if there are enough.

    It is whole sweeps over the m core pairs if one has at most `most` rows. Asks end at the same rows, however often the run
    was interrupted.
    """
    batch = most // m * m if m <= most else most
    return min(wanted - filled, batch - filled % batch) if wanted > filled else None


def append(state: Any, answers: Answers) -> Any:
    """The state with the samples of the answers appended, and the initial states set if the answers have any."""
    assert answers.next_features is not None
    if answers.initial_features is not None:
        index, weight = parts_of(answers.initial_features)
        state = state._replace(initial_index=index, initial_weight=weight)
    new = _rows(answers.next_features)
    if state.filled and len(state.next_step) != len(state.rewards):
        new = _rows(answers.next_features, pack=False)
    elif state.filled and not len(new["next_step"]):
        state = _written_out(state)
    state = grown(state, state.filled, {"rewards": answers.rewards, **new})
    return state._replace(filled=state.filled + len(answers.rewards))


def overwrite(state: Any, rows: IntArray, answers: Answers) -> Any:
    """The state with the samples in the given rows replaced by the answers, in place where that is possible."""
    assert answers.next_features is not None
    new = _rows(answers.next_features, pack=len(state.next_step) > 0)
    if len(state.next_step) and not len(new["next_step"]):
        state = _written_out(state)
    for name, values in {"rewards": answers.rewards, **new}.items():
        if len(values):
            getattr(state, name)[rows] = values
    return state


def _rows(phi: Phi, pack: bool = True) -> dict[str, Any]:
    """The fields of `Rows` that hold features of next states, packed if that is wanted and possible."""
    small = packed(phi) if pack else None
    if small is not None and small.weight.shape[1] < small.n_actions:
        index, weight = parts_of(Sparse(small.index, small.weight))
        return {"next_index": index, "next_weight": weight, "next_step": small.step}
    index, weight = parts_of(phi)
    return {"next_index": index, "next_weight": weight, "next_step": np.zeros(0, dtype=np.int8)}


def _written_out(state: Any) -> Any:
    """The state with its packed features written out, after features were met that cannot be packed."""
    return state._replace(**_rows(next_features(state, len(state.rewards)), pack=False))


def without_room(state: Any) -> Any:
    """The state with arrays that end with the last row in use."""
    return state._replace(**{name: getattr(state, name)[: state.filled] for name in ROWS})


def next_packed(state: Any, n: int) -> Packed:
    """Features of the first n next states, for compiled code."""
    A = state.initial_weight.shape[1]
    index, weight = as_sparse(from_parts(state.next_index[:n], state.next_weight[:n]))
    step = state.next_step[:n] if len(state.next_step) else np.zeros(n, dtype=np.int8)
    return Packed(index, weight, step, A)


def next_features(state: Any, which: Any) -> Phi:
    """Features of the next states in the given rows (an index array), or in the first rows (a number)."""
    which = slice(which) if np.ndim(which) == 0 else which
    index = state.next_index[which] if len(state.next_index) else state.next_index
    phi = from_parts(index, state.next_weight[which])
    if not len(state.next_step):
        return phi
    index, weight = as_sparse(phi)
    return unpacked(Packed(index, weight, state.next_step[which], state.initial_weight.shape[1]))


def rescale(state: Any, scale: float, shift: float) -> Any:
    """The state with every stored reward r replaced by scale * r + shift."""
    rewards = state.rewards.copy()
    rewards[: state.filled] = np.clip(scale * rewards[: state.filled] + shift, 0.0, 1.0)
    return state._replace(rewards=rewards)


def initial_features(state: Any) -> Phi:
    """Features of the initial states."""
    return from_parts(state.initial_index, state.initial_weight)


def stored(state: Any, frame: Frame, discount: float, pairs: IntArray | None = None) -> Stored | None:
    """The first samples of each core pair, as many as the one with the fewest had at the last solve, ordered pair by pair.

    `pairs` are those of the rows, if these are not sample-major. None before the first solve.
    """
    N, m = state.solved, frame.m
    if N == 0:
        return None
    order = np.arange(N * m).reshape(N, m).T.ravel()  # pair-major
    if pairs is not None:
        rows, first = by_pair(pairs, m)
        order = rows[(first[:-1, None] + np.arange(N)).ravel()]
    return Stored(
        frame=frame, rewards=state.rewards[order].reshape(m, N).mean(axis=1),
        samples=lambda: next_features(state, order), initial_features=initial_features(state), discount=discount,
    )  # fmt: skip


def constant_pairs(state: Any, by: tuple[IntArray, IntArray]) -> NDArray[np.bool_]:
    """For each core pair, whether its samples are all the same; `[m]`. `by`: the rows, pair by pair (`by_pair`)."""
    order, first = by
    same = np.ones(len(first) - 1, dtype=bool)
    for name in ROWS:
        rows = getattr(state, name)
        if len(rows):
            rows = rows[order].reshape(len(order), -1)
            other = (rows != np.repeat(rows[first[:-1]], np.diff(first), axis=0)).any(axis=1)
            same &= np.add.reduceat(other, first[:-1]) == 0
    return same


def all_same(state: Any, m: int, N: int) -> bool:
    """Whether the first N samples of each core pair are the same."""
    drawn = (getattr(state, name) for name in ROWS)
    samples = [a[: N * m].reshape(N, -1) for a in drawn if len(a)]
    return all(bool((a == a[0]).all()) for a in samples)


def check_rows(
    state: Any, like: Any, frame: Frame, n_actions: int, radius: float = math.inf, full: bool = False
) -> None:
    """Raise ValueError if rows read from a file do not fit together, or hold what no simulator and features return.

    `like` is a state before the first query; `full`: the state was saved without room.
    """
    rows, room = state.filled, len(state.rewards)
    if not 0 <= rows <= room == len(state.next_weight) or not 0 <= state.solved * frame.m <= rows:
        raise ValueError("its samples do not fit together")
    if full and rows != room:
        raise ValueError(f"it holds {room} samples and says that there are {rows}")
    for name in GROWING:
        if getattr(like, name).dtype != getattr(state, name).dtype:
            raise ValueError(f"'{name}' has dtype {getattr(state, name).dtype}")
    if state.rewards.ndim != 1 or state.next_step.ndim != 1:
        raise ValueError("'rewards' or 'next_step' are no lists of numbers")
    checks.require_within(state, 0.0, 1.0, "rewards")
    small = len(state.next_step) > 0
    if small and (len(state.next_step) != room or not np.isin(state.next_step, (0, 1)).all()):
        raise ValueError("'next_step' does not fit the samples")
    if not rows and (room or state.initial_weight.size or state.initial_index.size or state.next_index.size):
        raise ValueError("it has features and no samples")
    for name in ("next", "initial") if rows else ():
        index, weight = getattr(state, f"{name}_index"), getattr(state, f"{name}_weight")
        step = state.next_step if small and name == "next" else None
        _check_features(name, index, weight, step, frame.d, n_actions, radius)


def _check_features(
    name: str, index: IntArray, weight: FloatArray, step: Any, d: int, n_actions: int, radius: float
) -> None:
    """The features of next or initial states, all actions' or, with a `step` per state, packed; see `Rows`."""
    blocks = n_actions if step is None else 1
    if weight.ndim != 3 or len(weight) == 0 or weight.shape[1] != blocks or weight.shape[2] == 0:
        raise ValueError(f"'{name}_weight' has shape {weight.shape}")
    if not len(index) and (step is not None or weight.shape[2] != d):
        raise ValueError(f"'{name}_weight' has shape {weight.shape}")
    if len(index) and index.shape != weight.shape:
        raise ValueError(f"'{name}_index' has shape {index.shape}")
    phi = from_parts(index, weight)
    if not np.isfinite(weight).all():
        raise ValueError(f"'{name}_weight' has numbers that are not finite")
    if first_fault(phi, d, radius) >= 0 or (is_sparse(phi) and first_repeat(phi) >= 0):
        raise ValueError(f"'{name}_weight' and '{name}_index' hold what no features are")
    if step is not None and (index + (n_actions - 1) * step[:, None, None].astype(np.int64)).max() >= d:
        raise ValueError(f"'{name}_index' names coordinates that do not exist")
