"""How much value a policy may lose because its samples are finite: solve again on halves of them and compare.

A policy solved on half of the samples differs from ours, on average, by as much as ours differs from that of infinitely
many samples (for independent samples; the delete-half jackknife, Shao & Wu 1989). So two losses are about as large, and
about as scattered, as our policy's true loss: that of the half's policy in the model of all samples, and that of our
policy in the model of the half. The estimate is the largest of 16 or 32 such losses, not a multiple of their mean: with few
core pairs rare losses are many times the mean, with many core pairs less so. The estimate tells little about a particular
run (its correlation with the run's true loss is 0 to .4) and is occasionally small by chance; so half of the losses are
taken at the previous, smaller sample size, where they are larger. How often the estimate is too small is measured, not
proved: benchmarks/results/plug_in.md.

For quasi-random noise it is too cautious, the more so the better the noise. It is not cautious enough if the whole loss
comes from a few close decisions: of two actions that differ by .1 in a reward of 0 or 1, 7% of 150 runs took the wrong one.
It cannot see what no sample shows: under noise that all pairs share, actions may look the same. So a model in which no
policy differs from the uniform one is not believed before 128 samples; on `hard-linear` 6 of 40 runs still lost 1.6% at
epsilon = 1%. It measures the error of sampling only, and cannot detect features that are unable to express a good policy,
or a core set with gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..base import FloatArray, InputError, IntArray, as_python, shown
from ..core import Lift
from ..features import take_packed
from .policy_iteration import FixedPoint, SampledModel

# The least accuracy, in normalised value: if the uniform policy is optimal, a relative target would be 0, out of reach.
NOTHING = 1e-8
# Smaller losses are rounding errors of the solves.
ROUNDING = 1e-11
# The least number of groups of consecutive points of a quasi-random sequence; each is balanced and is never split.
GROUPS = 4


def next_size(first: int, solved: int, finer: bool) -> int:
    """Samples per core pair at the solve after that on `solved` samples: doubled each time, `finer` in two steps."""
    N = first
    while solved >= N:
        twice = 1 << N.bit_length()  # the next power of two
        between = 3 * twice // 4  # where a quasi-random sequence is still balanced
        N = between if finer and between > N else twice
    return N


class Accuracy(NamedTuple):
    """An accuracy: a normalised value or, if `relative`, a fraction of the optimum's gain over the uniform policy."""

    epsilon: float
    relative: bool

    @classmethod
    def of(cls, wish: Any) -> Accuracy | None:
        """The accuracy given by a number, or by a text such as "1%"; None for None."""
        if wish is None:
            return None
        given = as_python(wish)
        text = given.strip() if isinstance(given, str) else ""
        relative = text.endswith("%")
        try:
            number = given if isinstance(given, (int, float)) else float(text.removesuffix("%"))
        except ValueError:
            number = np.nan
        if isinstance(given, bool) or not 0 < number < (100 if relative else 1):
            raise InputError(
                f"An accuracy (epsilon) is a normalised value between 0 and 1, such as 0.01, or a fraction of the gain "
                f"of the optimum over the uniform policy, such as '1%'; got {shown(wish)}."
            )
        return cls(float(number) / (100.0 if relative else 1.0), relative)

    @property
    def spelled(self) -> float | str:
        """The accuracy as a setting, in one spelling: a number, or a text such as "1%"."""
        return f"{100.0 * self.epsilon:.15g}%" if self.relative else self.epsilon

    def target(self, scale: float) -> float:
        """The accuracy as a normalised value, if the optimum is `scale` above the uniform policy."""
        return max(self.epsilon * scale, NOTHING) if self.relative else self.epsilon


def before(N: int) -> int:
    """The largest of the sample sizes ..., 6, 8, 12, 16, 24, 32, ... that is below N, for N > 2."""
    half = 1 << ((N - 1).bit_length() - 1)
    return 3 * half // 2 if 3 * half // 2 < N else half


def half_weights(rng: np.random.Generator, N: int, m: int, shared: bool) -> Iterator[FloatArray]:
    """Splits of the N samples of each of m core pairs into complementary halves; each half as weights of rows `[N * m]`.

    Splits come in crossing pairs: a half of one has about half of its samples in each half of the other. With shared
    quasi-random noise there are two splits, of whole blocks (quarters if N is a power of two), the same for every core
    pair. With independent noise, which needs more caution, there are four, and every core pair is split on its own.
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
    """The largest power of two that divides N an even number of times, at least `GROUPS`; else 1."""
    block = N & -N
    while block > 1 and (N // block < GROUPS or N // block % 2):
        block //= 2
    return block


def estimated_loss(
    model_of: Callable[[int], SampledModel], lift: Lift, solution: FixedPoint, *, rewards: FloatArray,
    rng: np.random.Generator, shared: bool, accuracy: Accuracy, last: bool,
) -> tuple[float, float]:  # fmt: skip
    """The estimated loss, from N samples and the previous size; and the optimum minus uniform in the sampled model.

    `model_of(M)` is the model of the first M samples of each pair. Unless these samples are the `last`, one loss that is too
    large is enough to know that more are needed: then it is the only part of the estimate.
    """
    N = len(rewards)
    enough = None if last else accuracy
    lost, scale = losses(model_of(N), lift, solution, rewards, rng, shared, enough)
    if not last and lost.max() > accuracy.target(scale):
        return float(lost.max()), float(scale)
    fewer = model_of(before(N))
    there = fewer.solve(lift, fewer.equal(), start=solution.theta)
    more, _ = losses(fewer, lift, there, rewards[: before(N)], rng, shared, enough, scale)
    return float(np.maximum(lost.max(), more.max())), float(scale)


def losses(
    sampled: SampledModel, lift: Lift, solution: FixedPoint, rewards: FloatArray, rng: np.random.Generator, shared: bool,
    accuracy: Accuracy | None = None, scale: float | None = None,
) -> tuple[FloatArray, float]:  # fmt: skip
    """Normalised losses `[halves, 2]`, and the optimum minus the uniform value in the model of all samples.

    Column 0: the loss of the half's policy in the model of all samples. Column 1: the loss of our policy in the model of
    the half. rewards `[N, m]`. With an `accuracy`, the first half that shows a larger loss is the last one. The `scale`,
    optimum minus uniform, may be given.
    """
    w, (N, m) = sampled.equal(), rewards.shape
    best = sampled.value(lift, w, solution.theta, solution.choice, q=solution.q)
    if scale is None:
        scale = best - sampled.value(lift, w, None, None, guess=solution.q)
    enough = np.inf if accuracy is None else accuracy.target(scale)
    found: list[tuple[float, float]] = []
    for v in half_weights(rng, N, m, shared):
        r = (v.reshape(N, m) * rewards).sum(axis=0)  # rewards may be random too
        lost = np.array(_half_losses(sampled, lift, solution, v, r, best))
        lost[np.abs(lost) < ROUNDING] = 0.0  # policies that differ only where actions are equally good
        found.append((lost[0], lost[1]))
        if lost.max() > enough:
            break
    return np.array(found), scale


def _half_losses(
    sampled: SampledModel, lift: Lift, ours: FixedPoint, v: FloatArray, r: FloatArray, best: float
) -> tuple[float, float]:
    """The loss of the half's policy in the model of all samples, and of our policy in the model of the half.

    The half is solved on its own samples alone, starting from our policy, which is nearly as good there.
    """
    rows = rows_inside(v, lift.m)
    half = SampledModel(take_packed(sampled.rows, rows), r, sampled.initial, sampled.discount)
    w, here = half.equal(), ours.choice[rows]
    q = half.evaluate(lift, w, here, guess=ours.q)
    known = None if q is None else ours._replace(theta=lift.theta(q), choice=here, q=q)
    theirs = half.solve(lift, w, start=ours.theta, known=known)
    choice = sampled.greedy(theirs.theta, ours.choice)
    choice[rows] = theirs.choice
    same = np.array_equal(choice, ours.choice)
    gain = half.value(lift, w, theirs.theta, theirs.choice, q=theirs.q)
    if same and np.array_equal(half.start_choice(theirs.theta), half.start_choice(ours.theta)):
        return 0.0 * best, 0.0 * gain  # nothing is lost, unless there is no value
    there = sampled.value(
        lift, sampled.equal(), theirs.theta, choice, q=ours.q if same else None, guess=ours.q
    )
    return best - there, gain - half.value(lift, w, ours.theta, here, q=q)


def rows_inside(v: FloatArray, m: int) -> IntArray:
    """The rows with positive weight, of which every core pair has as many, sample-major and in order."""
    pair, sample = np.nonzero((v.reshape(-1, m) > 0).T)
    rows = (sample * m + pair).reshape(m, -1)
    return np.ascontiguousarray(rows.T).ravel()
