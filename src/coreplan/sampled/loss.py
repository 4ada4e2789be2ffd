"""How much a policy solved on samples may lose because they are finite: re-solve on halves of them and compare.

A policy from half of the samples differs from ours by as much, in the mean, as ours from the one of infinitely many
(independent samples; the delete-half jackknife, Shao & Wu 1989). What it loses in the model of all samples, and what ours
loses in the model of the half, are then about as large, and about as scattered, as what ours loses in truth. The estimate
is the largest of 16 or 32 such losses, not a multiple of their mean: rare losses are many times the mean with few core
pairs, and less so with many. But it says nearly nothing about the run at hand (correlations of 0 to .4 with its true
loss) and is small by chance now and then, so half of the losses are those at the sample size before, where they are
larger. How often this misses is measured, not proved: benchmarks/results/plug_in.md.

For quasi-random noise it is too cautious, by more the better the noise. Where a few close decisions make the whole loss it
is not cautious enough: of two actions that differ by .1 in a reward of 0 or 1, 7% of 150 runs took the wrong one.
What no sample shows it cannot see: under noise that all pairs share, actions may look the same. So a model that tells no
policy from the uniform one is not believed before 128 samples; on `hard-linear` 6 of 40 runs still lost 1.6% at
epsilon = 1%. It sees the error of sampling and nothing else: features that cannot express a good policy, or a core set
with gaps, look as fine as any.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..base import FloatArray, InputError
from ..core import Lift
from .policy_iteration import SampledModel, Solution

NOTHING = (
    1e-8  # of normalised value: where the uniform policy is optimal, a share of 0 could never be reached
)
GROUPS = 4  # at least, of consecutive samples of a quasi-random sequence: each is balanced by itself and stays whole


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


def before(N: int) -> int:
    """The largest of the sizes ..., 6, 8, 12, 16, 24, 32, ... below N > 2."""
    half = 1 << ((N - 1).bit_length() - 1)
    return 3 * half // 2 if 3 * half // 2 < N else half


def half_weights(rng: np.random.Generator, N: int, m: int, shared: bool) -> Iterator[FloatArray]:
    """Pairs of complementary halves of N samples for each of m core pairs, as weights of rows `[N * m]`.

    Two splits at a time cross: a half of one has about half of its samples in each half of the other. With noise that is
    shared and quasi-random there are two, of whole blocks (quarters where N is a power of two), the same for every core
    pair; with independent noise, which needs more caution, four, and every core pair is split by itself.
    """
    block = _block(N) if shared else 1
    size = -(-N // block)
    for _ in range(1 if shared else 2):
        if shared:
            order = np.broadcast_to(rng.permutation(size)[np.arange(N) // block][:, None], (N, m))
        else:
            order = rng.permuted(np.broadcast_to(np.arange(N)[:, None], (N, m)), axis=0)
        for inside in (order < size // 2, order % 2 == 0):
            for half in (inside, ~inside):
                yield (half / half.sum(axis=0)).ravel()


def _block(N: int) -> int:
    """Largest power of two of which N is an even multiple, at least `GROUPS` times; else 1."""
    block = N & -N
    while block > 1 and (N // block < GROUPS or N // block % 2):
        block //= 2
    return block


def losses(
    sampled: SampledModel,
    lift: Lift,
    solution: Solution,
    rewards: FloatArray,
    rng: np.random.Generator,
    shared: bool,
) -> tuple[FloatArray, float]:
    """Normalised losses `[halves, 2]`, and the optimum less uniform in the model of all samples; rewards `[N, m]`.

    Column 0: of the half's policy in the model of all samples. Column 1: of our policy in the model of the half.
    """
    w, (N, m) = sampled.equal(), rewards.shape
    best = sampled.value(lift, w, solution.theta, solution.choice)
    scale = best - sampled.value(lift, w, None, None)
    found = []
    for v in half_weights(rng, N, m, shared):
        r = (v.reshape(N, m) * rewards).sum(axis=0)  # rewards may be noisy, too
        half = SampledModel(sampled.phi, r, sampled.initial, sampled.discount)
        other = half.solve(lift, v, start=solution.theta)
        theirs = best - sampled.value(lift, w, other.theta, other.choice)
        gain = half.value(lift, v, other.theta, other.choice)
        ours = gain - half.value(lift, v, solution.theta, solution.choice)
        found.append((theirs, ours))
    return np.array(found), scale
