"""A sample of trajectories under a policy, for a person to look at, and what the reader's own queries measure for a page.

A page never simulates. What it shows of trajectories and checks was measured before and is kept in the run's folder:
`sample.json` and `check.json`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base import FloatArray, as_count, as_kind, checks, digest
from ..core import CoreSet
from ..judge import Trajectories, check, rollout
from ..policy import SoftmaxPolicy, with_own_features
from ..problem import Problem
from ..run import CHECK_FILE, SAMPLE_FILE, RunFolder

QUERIES = 20_000  # that a report takes by itself, of a compiled simulator
QUERIES_SLOW = 2_000  # of any other, which may be slow
_LARGE = 2_000  # core pairs: with more, checks take seconds by themselves
_SHARE = 0.2  # of them for trajectories
_STEPS, _TRAJECTORIES = 200, 5
_COLUMNS = 64  # coordinates of a state that are kept
_LEAST_CHECK = 100  # queries


class Trajectory(NamedTuple):
    """One trajectory: step t goes from state t by action t to state t + 1 and pays reward t, in the user's own units."""

    states: list[list[float]]
    actions: list[int]
    rewards: list[float]
    ended: bool  # whether the process ended; else the trajectory was cut off

    @property
    def living(self) -> list[list[float]]:
        """The states before the end, which a problem may write as it likes."""
        return self.states[:-1] if self.ended and len(self.states) > 1 else self.states


@dataclass(frozen=True)
class Sample:
    """Some trajectories under a policy. `policy` tells which one: a digest of its numbers."""

    policy: str
    queries: int
    seed: int
    trajectories: tuple[Trajectory, ...]

    def of(self, policy: SoftmaxPolicy) -> bool:
        """Whether the trajectories are of this policy."""
        return self.policy == mark_of(policy)

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
        return {**asdict(self), "trajectories": [t._asdict() for t in self.trajectories]}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Sample:
        """The inverse of `as_dict`; ValueError, KeyError or TypeError for anything else."""
        return cls(
            policy=checks.text(record, "policy"), queries=checks.whole(record, "queries"),
            seed=checks.whole(record, "seed", 0, 2**64), trajectories=tuple(map(_trajectory, record["trajectories"])),
        )  # fmt: skip


def mark_of(policy: SoftmaxPolicy) -> str:
    """A digest of a policy's numbers."""
    return digest(policy.theta, np.array(policy.scale))


def draw_sample(problem: Problem, policy: SoftmaxPolicy, *, queries: int = 1000, seed: int = 0) -> Sample:
    """Up to five trajectories of up to 200 steps, with at most so many queries: rather two long ones than five short."""
    n = min(max(queries // _STEPS, 2), _TRAJECTORIES, queries)
    found = rollout(problem, policy, episodes=n, steps=min(_STEPS, queries // n), seed=seed)
    return Sample(mark_of(policy), found.queries, seed, tuple(_episode(found, i) for i in range(n)))


def _episode(found: Trajectories, i: int) -> Trajectory:
    """One of the episodes of rollouts."""
    mine = found.episode == i
    states = [found.initial_states[i], *found.next_states[mine]]
    return Trajectory(
        states=[_flat(state) for state in states], actions=found.actions[mine].tolist(),
        rewards=found.rewards[mine].tolist(), ended=bool(found.ended[mine].any()),
    )  # fmt: skip


def measure(
    folder: str | Path, problem: Problem, policy: SoftmaxPolicy, core: CoreSet | None = None, *,
    queries: int | None = None, paid: int | None = None, seed: int = 0,
) -> int:  # fmt: skip
    """Measure what a report shows besides a run's own files, and keep it in the folder; returns the queries that it took.

    By default 20,000 queries of a compiled simulator, and 2,000 of any other, which may be slow, or of
    one with more than 2,000 core pairs, where the checks themselves take long. Up to 1,000 of them go to
    trajectories of the policy, a fifth at most, and the rest to the checks of the assumptions. 0: nothing is measured.
    `paid`: what the run took; a simulator that may be slow is then asked for a tenth of that at most.
    """
    queries = as_count("measure", least=0, optional=True, queries=queries)
    as_kind("measure", Problem, "a Problem", problem=problem)
    if queries is None:
        small = problem.compiled and (core is None or len(core) <= _LARGE)
        queries = QUERIES if small else QUERIES_SLOW
        if paid is not None and not problem.compiled:  # each query may cost time or money
            queries = min(queries, paid // 10)
    seen = with_own_features(problem, policy)
    taken = 0
    if queries >= 1:
        sample = draw_sample(seen, policy, queries=min(max(int(_SHARE * queries), 1), 1000), seed=seed)
        RunFolder(Path(folder)).write_judged(SAMPLE_FILE, sample.as_dict())
        taken += sample.queries
    if queries - taken >= _LEAST_CHECK:
        found = check(seen, core, queries=queries - taken, seed=seed)
        RunFolder(Path(folder)).write_judged(CHECK_FILE, found.as_dict())
        taken += found.queries
    return taken


def _flat(state: Any) -> list[float]:
    """A state as numbers, the first of them if there are very many."""
    numbers: FloatArray = np.asarray(state, dtype=np.float64).ravel()[:_COLUMNS]
    return [float(f"{v:.7g}") for v in numbers]


def _trajectory(record: Any) -> Trajectory:
    states, actions, rewards = record["states"], record["actions"], record["rewards"]
    rows = np.array(states, dtype=np.float64)
    paid = np.array(rewards, dtype=np.float64)
    right = rows.ndim == 2 and len(rows) == len(actions) + 1 == len(paid) + 1 and paid.ndim == 1
    if not right or not (np.isfinite(rows).all() and np.isfinite(paid).all()):
        raise ValueError("a trajectory has states, actions and rewards that do not fit each other")
    whole = [checks.whole({"action": a}, "action") for a in actions]
    return Trajectory(rows.tolist(), whole, paid.tolist(), record["ended"] is True)
