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
comes from a few close decisions. It cannot see what no sample shows: `unseen.py` says how often pairs are asked before it
is believed. It measures the error of sampling only, and cannot detect features that are unable to express a good policy,
or a core set with gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..base import FloatArray, InputError, IntArray, as_python, shown
from ..core import Lift
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


def half_weights(rng: np.random.Generator, sampled: SampledModel, shared: bool) -> Iterator[FloatArray]:
    """Splits of the samples of each core pair into complementary halves; each half as weights of rows `[n]`.

    Splits come in crossing pairs: a half of one has about half of its samples in each half of the other. With shared
    quasi-random noise there are two splits, of whole blocks (quarters if the pair has a power of two), the same for all core
    pairs with equally many samples. With independent noise, which needs more caution, there are four, and every core pair
    is split on its own.
    """
    pair, m = sampled.pair, len(sampled.counts)
    for _ in range(1 if shared else 2):
        place, size = _shuffled_blocks(rng, sampled) if shared else _shuffled(rng, sampled)
        for inside in (place < size // 2, place % 2 == 0):
            for half in (inside, ~inside):
                yield half / np.bincount(pair, half, m)[pair]


def _shuffled(rng: np.random.Generator, sampled: SampledModel) -> tuple[IntArray, IntArray]:
    """The place of each row in a random order of its pair's rows, and their number: `[n]` each."""
    place = np.empty(sampled.n, dtype=np.int64)
    place[np.lexsort((rng.random(sampled.n), sampled.pair))] = sampled.number[sampled.order]
    return place, sampled.counts[sampled.pair]


def _shuffled_blocks(rng: np.random.Generator, sampled: SampledModel) -> tuple[IntArray, IntArray]:
    """The place of each row's block in a random order of its pair's blocks, and the number of these: `[n]` each."""
    number, count = sampled.number, sampled.counts[sampled.pair]
    place, size = np.empty_like(number), np.empty_like(number)
    for N in np.unique(count):
        block, rows = _block(int(N)), count == N
        size[rows] = -(-N // block)
        place[rows] = rng.permutation(-(-N // block))[number[rows] // block]
    return place, size


def _block(N: int) -> int:
    """The largest power of two that divides N an even number of times, at least `GROUPS`; else 1."""
    block = N & -N
    while block > 1 and (N // block < GROUPS or N // block % 2):
        block //= 2
    return block


def estimated_loss(
    sampled: SampledModel, fewer: Callable[[], SampledModel], lift: Lift, solution: FixedPoint, *,
    rng: np.random.Generator, shared: bool, accuracy: Accuracy, last: bool,
) -> tuple[float, float]:  # fmt: skip
    """The estimated loss, from all samples and `fewer` of them; and the optimum minus uniform in the sampled model.

    Unless these samples are the `last`, one loss that is too large is enough to know that more are needed: then it is the
    only part of the estimate.
    """
    enough = None if last else accuracy
    lost, scale = losses(sampled, lift, solution, rng, shared, enough)
    if not last and lost.max() > accuracy.target(scale):
        return float(lost.max()), float(scale)
    before = fewer()
    there = before.solve(lift, before.equal(), start=solution.theta)
    more, _ = losses(before, lift, there, rng, shared, enough, scale)
    return float(np.maximum(lost.max(), more.max())), float(scale)


def losses(
    sampled: SampledModel, lift: Lift, solution: FixedPoint, rng: np.random.Generator, shared: bool,
    accuracy: Accuracy | None = None, scale: float | None = None,
) -> tuple[FloatArray, float]:  # fmt: skip
    """Normalised losses `[halves, 2]`, and the optimum minus the uniform value in the model of all samples.

    Column 0: the loss of the half's policy in the model of all samples. Column 1: the loss of our policy in the model of
    the half. With an `accuracy`, the first half that shows a larger loss is the last one. The `scale`, optimum minus
    uniform, may be given. The model must know the rewards of single samples.
    """
    w = sampled.equal()
    best = sampled.value(lift, w, solution.theta, solution.choice, q=solution.q)
    if scale is None:
        scale = best - sampled.value(lift, w, None, None, guess=solution.q)
    enough = np.inf if accuracy is None else accuracy.target(scale)
    found: list[tuple[float, float]] = []
    for v in half_weights(rng, sampled, shared):
        lost = np.array(_half_losses(sampled, lift, solution, np.flatnonzero(v), best))
        lost[np.abs(lost) < ROUNDING] = 0.0  # policies that differ only where actions are equally good
        found.append((lost[0], lost[1]))
        if lost.max() > enough:
            break
    return np.array(found), scale


def _half_losses(
    sampled: SampledModel, lift: Lift, ours: FixedPoint, rows: IntArray, best: float
) -> tuple[float, float]:
    """The loss of the half's policy in the model of all samples, and of our policy in the model of the half.

    The half, the given `rows`, is solved on its own samples alone, starting from our policy, which is nearly as good there.
    """
    half = sampled.part(rows)
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
