"""The gap of Algorithm 1's policies pi_1, ..., pi_T along one run, from which the expectation over J follows.

The output of Algorithm 1 is pi_J with J uniform on 1..T, and its guarantee is on the expected gap. One draw of J says little
about it: `expected_gap` uses the whole run instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from coreplan.base import FloatArray
from coreplan.run import Run
from coreplan.theory import Enumerated, optimal, value


def gaps_at(run: Run, e: Enumerated, moments: Sequence[int]) -> list[float]:
    """The gaps of pi_t for rising t = 1..T; the run, which is at its start, stops at the last of them."""
    planner = run.planner
    best, found = value(e, optimal(e)[1]), []
    for t in moments:
        until = (t - 1) * (planner.K + 1)  # pi_t is the policy after t - 1 iterations
        while run.simulator.queries < until:
            run.advance(until)
        found.append(best - value(e, e.softmax(run.loop.state.Theta, planner.beta)))
    return found


def expected_gap(run: Run, e: Enumerated, T: int, parts: int, rng: np.random.Generator) -> float:
    """E_J[gap of pi_J] of this run: an estimate without bias, from one draw of J in each part of 1..T.

    The parts are short where the policy still moves fast, at the start: they end at T (k / parts)^2, and a part's draw
    counts with its length.
    """
    ends = np.unique(np.ceil(T * (np.arange(parts + 1) / parts) ** 2).astype(int))
    lengths = np.diff(ends)
    moments = ends[:-1] + 1 + np.floor(rng.random(len(lengths)) * lengths).astype(int)
    return float(lengths @ np.array(gaps_at(run, e, moments.tolist())) / T)


def rest(run: Run, e: Enumerated, n: int) -> dict[str, float]:
    """The gaps of the other outputs, from the same run led to its end."""
    while run.left:
        run.advance(n)
    best, found = value(e, optimal(e)[1]), {}
    for output in ("last", "greedy"):
        planner = dataclasses.replace(run.planner, output=output).bind(run.planner.setup)
        theta, scale = planner.policy(run.loop.state)
        found[output] = best - value(e, e.softmax(theta, scale))
    return found


def interval(values: FloatArray) -> tuple[float, float, float]:
    """The mean over seeds, and a 95% interval of it: 10,000 bootstrap samples of the seeds."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, size=(10_000, len(values))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(values.mean()), float(low), float(high)
