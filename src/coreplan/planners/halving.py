"""How much a policy solved on samples may lose because they are finite: re-solve on halves of them and compare.

A policy from half of the samples differs from ours by as much, in the mean, as ours from the one of infinitely many
(independent samples; the delete-half jackknife, Shao & Wu 1989). What it loses IN THE MODEL OF ALL SAMPLES is then an
estimate of what ours loses in truth: right in the mean, where measured, but nearly uncorrelated with the loss of the run at
hand, so that a multiple of it is used. For quasi-random noise it is too cautious. It sees the error of sampling and nothing
else: features that cannot express a good policy, or a core set with gaps, look as fine as any.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..problem.model import FloatArray
from .bellman import Sampled, Solution, Through

HALVES = 8  # pairs of halves
CAUTION = 3.0  # times the mean loss of the halves: what ours loses scatters about that
NOTHING = (
    1e-8  # of normalised value: where the uniform policy is optimal, a share of 0 could never be reached
)
GROUPS = 8  # consecutive samples of a quasi-random sequence that stay together: an eighth is a net of its own


class Accuracy(NamedTuple):
    """What `epsilon` asks for: a normalised value, or a share of what the optimum is above the uniform policy."""

    epsilon: float
    relative: bool

    @classmethod
    def of(cls, wish: Any) -> Accuracy | None:
        """From a number or a text such as "1%"; None for None."""
        if wish is None:
            return None
        text = str(wish).strip()
        relative = text.endswith("%")
        try:
            epsilon = float(text.removesuffix("%")) / (100.0 if relative else 1.0)
        except ValueError:
            epsilon = np.nan
        if isinstance(wish, bool) or not 0.0 < epsilon < 1.0:
            raise InputError(
                f"An accuracy (epsilon) is a normalised value between 0 and 1, such as 0.01, or a share of what the optimum "
                f"is above the uniform policy, such as '1%'; got {wish!r}."
            )
        return cls(epsilon, relative)

    def target(self, scale: float) -> float:
        """In normalised values, where the optimum is `scale` above the uniform policy."""
        return max(self.epsilon * scale, NOTHING) if self.relative else self.epsilon


def half_weights(rng: np.random.Generator, N: int, m: int, shared: bool) -> tuple[FloatArray, FloatArray]:
    """Two complementary halves of N samples for each of m pairs, as weights of rows `[N * m]`.

    With noise that is shared and quasi-random the halves are unions of eighths, the same for every pair; with independent
    noise every pair is halved by itself.
    """
    if shared:
        groups = min(GROUPS, N)
        first = rng.permutation(groups) < groups // 2
        inside = np.broadcast_to(first[np.arange(N) * groups // N][:, None], (N, m))
    else:
        inside = rng.permuted(np.broadcast_to((np.arange(N) < N // 2)[:, None], (N, m)), axis=0)
    one = inside / inside.sum(axis=0)
    other = ~inside / (~inside).sum(axis=0)
    return np.ascontiguousarray(one).ravel(), np.ascontiguousarray(other).ravel()


def losses(
    sampled: Sampled,
    through: Through,
    solution: Solution,
    rng: np.random.Generator,
    shared: bool,
    pairs: int = HALVES,
) -> tuple[FloatArray, float]:
    """Normalised losses `[2 * pairs]` of half-sample policies in the model of all samples; optimum less uniform there."""
    w = sampled.equal()
    best = sampled.value(through, w, solution.theta, solution.choice)
    scale = best - sampled.value(through, w, None, None)
    found = []
    for _ in range(pairs):
        for half in half_weights(rng, sampled.n // through.m, through.m, shared):
            other = sampled.solve(through, half, start=solution.theta)
            found.append(best - sampled.value(through, w, other.theta, other.choice))
    return np.array(found), scale
