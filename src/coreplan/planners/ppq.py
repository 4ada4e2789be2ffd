"""`PPQ`: phased parametric Q-learning through anchors, with and without variance reduction (Yang & Wang 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ..base import FloatArray, as_choice, as_count, as_number, checks, settle
from ..features import best_scores
from ..simulate import Answers
from .protocol import Tunable
from .rounds import InRounds, no_round

VERSIONS = ("optimal", "plain")


class State(NamedTuple):
    """w and theta, the reference of the phase, and the fields of `no_round`."""

    theta: FloatArray  # [d], of the values w
    w: FloatArray  # [m], values of the core pairs
    reference: FloatArray  # [d], theta when the phase began
    base: FloatArray  # [m], the backup of the reference
    round: int
    each: int
    filled: int
    told: int
    total: FloatArray  # [m]
    squares: FloatArray  # [m]


@dataclass(frozen=True, kw_only=True, eq=False)
class PPQ(InRounds):
    """Phased parametric Q-learning: Yang & Wang, "Sample-Optimal Parametric Q-Learning", ICML 2019, Algorithms 1 and 2.

    The plain version is value iteration through the anchors, with n fresh samples of each in every round:

        w_j <- mean_n (r + gamma V(y)),  V(x) = max_a phi(x, a) . theta cut to [0, H],  theta = pinv(Phi~) w.

    The optimal version has phases i = 1, 2, ..., whose targets 2^-i H halve. A phase backs up its first V, the reference
    V_i, with many samples; its rounds then need few, since the differences V - V_i are small:

        b_j = mean (r + gamma V_i(y)) - c s_j,  w_j <- max(w_j, b_j + mean (gamma (V(y) - V_i(y))) - c s'_j),

    with standard errors s and s'. The subtraction keeps w below its own backup, and the maximum lets it grow only, so that
    the greedy policy earns at least what V promises.

    *Setting*: a generative model at d anchor pairs, of whose features all others are convex combinations; transitions
    linear in the features. That is a linear MDP with an exact core set, m = d. *Rate*: with n queries the normalised gap
    is at most eps if n is of the order m H / eps^2 for the optimal version (m H^3 / eps'^2 in values that reach H, where
    eps' = eps H <= 1), up to logarithms: minimax optimal. For the plain version it is m H^5 / eps^2.

    *Departures*: rewards are sampled, not known. The paper keeps all w of all rounds and takes a maximum over them at every
    state; we take it at the anchors, which keeps both promises above and leaves one vector. The paper's constants are for
    the proof, where all phases have the samples of the last: here phase i has 4^i times as many as the first, its
    differences get 2^-i of them, and c, which the paper lets grow as the root of a logarithm, is a setting. Core features
    may be dependent (m > d); then theta is a least-squares fit, and nothing is promised.

    Parameters
    ----------
    version: "optimal" or "plain".
    rounds: value iterations, in all ("plain") or per phase ("optimal"). By default so many that gamma^rounds is about the
        error that sampling leaves ("plain"), or one horizon H ("optimal").
    phases: of the optimal version; by default so many that the first has about one sample per round.
    confidence: c, in standard errors. The default is the best of 0, 0.1, 0.3 and 1 on random-linear 5 and river-linear 3.
    """

    name: ClassVar[str] = "ppq"
    tunable: ClassVar[Tunable] = {"version": VERSIONS, "confidence": (0.01, 3.0)}

    version: str = "optimal"
    rounds: int | None = None
    phases: int | None = None
    confidence: float = 0.3

    def __post_init__(self) -> None:
        settle(self, as_choice, "version", options=VERSIONS)
        settle(self, as_count, "rounds", "phases")
        settle(self, as_number, "confidence", what="a number of at least 0", good=lambda c: c >= 0.0)

    def init(self, rng: np.random.Generator) -> State:
        d, m = self.setup.dimension, self.setup.m
        return State(theta=np.zeros(d), w=np.zeros(m), reference=np.zeros(d), base=np.zeros(m), **no_round(m))

    @cached_property
    def _schedule(self) -> list[tuple[int, bool]]:
        """For each round its samples per pair, and whether it backs up a reference."""
        n = self.setup.budget // self.setup.m
        return self._plain(n) if self.version == "plain" else self._optimal(n)

    def _plain(self, n: int) -> list[tuple[int, bool]]:
        """n samples per pair, in rounds of equal size; the last are larger by one if there is a remainder."""
        R = min(self.rounds or math.ceil(self._most * max(0.5 * math.log(n / self._most), 1.0)), n)
        return [((n + k) // R, False) for k in range(R)]

    def _optimal(self, n: int) -> list[tuple[int, bool]]:
        """n samples per pair, in phases that grow fourfold."""
        R = min(self.rounds or math.ceil(self._most), n)
        P = min(self.phases or max(1, int(math.log(3 * n / R, 4))), n)
        ends = [round(n * (4**i - 1) / (4**P - 1)) for i in range(1, P)]
        sizes = np.diff([0, *ends, n]).tolist()
        return [part for i, size in enumerate(sizes) for part in _phase(size, R, 0.5**i)]

    def _samples(self, state: State) -> int:
        """After the last round, which a run with a larger budget can come to, as many as that has."""
        return self._schedule[min(state.round, len(self._schedule) - 1)][0]

    def _backs_up(self, state: State) -> bool:
        """Whether the round is that of a reference."""
        return state.round < len(self._schedule) and self._schedule[state.round][1]

    def _value(self, answers: Answers, theta: FloatArray) -> FloatArray:
        assert answers.next_features is not None
        return np.clip(best_scores(answers.next_features, theta), 0.0, self._most)

    def _targets(self, state: State, answers: Answers) -> FloatArray:
        gamma, V = self.setup.discount, self._value(answers, state.theta)
        if self.version == "plain" or self._backs_up(state):
            return answers.rewards + gamma * V
        return gamma * (V - self._value(answers, state.reference))

    def _updated(self, state: State, mean: FloatArray, variance: FloatArray, n: int) -> State:
        if self.version == "plain":
            return state._replace(w=mean, theta=self._lift.theta(mean))
        lower = mean - self.confidence * np.sqrt(variance / n)
        if self._backs_up(state):
            state = state._replace(base=lower, reference=state.theta)
        else:
            lower = state.base + lower
        w = np.maximum(state.w, lower)
        return state._replace(w=w, theta=self._lift.theta(w))

    def check(self, state: State) -> None:
        super().check(state)
        checks.require_finite(state, "w", "reference", "base")


def _phase(n: int, R: int, share: float) -> list[tuple[int, bool]]:
    """A phase of n samples per pair: its reference, and then R rounds, with this share of the samples."""
    each = max(int(share * n / (R + (share == 1.0))), 1)
    R = min(R, (n - 1) // each)
    return [(n - each * R, True)] + [(each, False)] * R if n > 0 else []
