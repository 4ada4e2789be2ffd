"""Two rows about what is real: what the fitted policy earns, and whether the simulator repeats itself."""

from __future__ import annotations

import math

import numpy as np

from ...base import IntArray, Lane, States
from ...problem import Problem
from ...simulate import AGAIN, Simulator
from .fitted import ALARM, MISS, Fit, Rolled, Worth, enough_for_rollouts
from .region import worst_region
from .report import GREEN, GREY, RED, RULE_OF_THREE, Measurement, light_of, resolving

AMBER_FROM, GREEN_UP_TO, RED_FROM = (
    0.1,
    0.2,
    0.3,
)  # of what the fit believes can be gained over the uniform policy


def reality(fitted: Fit, worth: Worth, greedy: Rolled, queries: int) -> Measurement:
    """Whether the fitted policy earns what the fit believes of it, set against the gain that it promises.

    earned - believed is the mean residual over the policy's own visits, <mu_pi, delta> (residual.py), linear part and all.
    """
    name, earned = "reality", worth.earned
    if not worth.known:
        enough = enough_for_rollouts(fitted.problem.discount)
        why = f"the queries are too few for rollouts: give {enough:,}."
        return Measurement(name, math.nan, GREY, why, needed=enough)
    half = earned.margin(MISS / 2)
    # Where all rollouts earned the same, three in n may have been missed: never an interval of no width.
    missed = worth.top * RULE_OF_THREE / earned.n if half < 1e-12 else 0.0
    interval = (max(earned.mean - half, 0.0), min(earned.mean + half + missed, 1.0))
    light = _light(worth, 1.0)
    cause = ""
    needed: int | None = None
    if light == GREY:
        needed = resolving(queries, lambda factor: _light(worth, factor) != GREY)
        cause = (
            f" Rollouts are too noisy to tell whether these agree: give about {needed:,} queries."
            if needed is not None
            else " The fit promises no gain over the uniform policy that a difference could be set against."
        )
    elif light != GREEN:
        light, cause, needed = _cause(fitted, worth, greedy, queries, light)
    text = (
        f"the fitted policy earns {_number(earned.mean)} ({_number(interval[0])} to {_number(interval[1])}), its values say "
        f"{_number(worth.believed.mean)}, and the uniform policy earns {_number(worth.uniform.mean)}.{cause}"
    )
    return Measurement(name, earned.mean, light, text, interval=interval, needed=needed)


def _light(worth: Worth, factor: float) -> str:
    """The light with `factor` times as many rollouts. A policy that earns more than its values say is never red.

    n rollouts may miss outcomes of probability log(1/risk)/n: some that earn nothing, before the light is green; some that
    earn the most that is believed of any state, before it accuses.
    """
    promise, doubt = abs(worth.promise.mean), worth.promise.margin(MISS, factor)
    beyond, red = worth.beyond, RED_FROM if worth.beyond.mean < 0.0 else math.inf
    # More rollouts would presumably find less, since a part of it is noise.
    off = abs(beyond.mean) if factor == 1.0 else max(abs(beyond.mean) - beyond.error, 0.0)
    n = worth.earned.n * factor
    missed = worth.top * math.log(1.0 / ALARM) / n if beyond.mean < 0.0 else 0.0
    least = max(off - beyond.margin(ALARM, factor) - missed, 0.0) / (promise + doubt)
    most = math.inf
    if promise > doubt:
        most = (off + beyond.margin(MISS, factor)) / (promise - doubt) + RULE_OF_THREE / n
    return light_of(least, most, AMBER_FROM, GREEN_UP_TO, red)


def _cause(
    fitted: Fit, worth: Worth, greedy: Rolled, queries: int, light: str
) -> tuple[str, str, int | None]:
    """What explains the difference: too few samples, which is grey, or features that cannot carry the values somewhere."""
    noise, off = fitted.noise / math.sqrt(fitted.samples), worth.beyond.mean
    if noise > abs(off):
        needed = math.ceil(queries * (noise / (AMBER_FROM * abs(worth.promise.mean))) ** 2)
        text = (
            f" They differ, but {fitted.samples} samples per core pair leave an error of {noise:.2g} per step in the "
            f"values: give about {needed:,} queries."
        )
        return GREY, text, needed
    amount = greedy.d * greedy.weights * (1.0 if off > 0.0 else -1.0)
    region = worst_region(fitted.problem, greedy.states, amount, greedy.weights)
    where = "" if region.where == "everywhere" else f", above all where {region.where}"
    much = "too little" if off > 0.0 else "too much"
    return (
        light,
        f" The values promise {much}{where}: refine the features there, or take another family.",
        None,
    )


def repeatable(problem: Problem, states: States, actions: IntArray, seed: int) -> tuple[Measurement, int]:
    """Whether the same pairs, simulated twice with the same stream, give the same answers; and the queries for it.

    Called right after one another with the same arguments, a simulator that takes all its randomness from `rng` repeats
    itself to the last bit.
    """
    answers, spent = [], 0
    for at in (0, AGAIN):
        simulator = Simulator(problem, seed=seed, lane=Lane.CHECK)
        simulator.at = at  # a log must not answer the second time what it was told the first
        starts = simulator.initial(len(actions))
        answers.append((starts, *simulator.step(states, actions)))
        spent = spent + simulator.queries
    same = [np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in zip(*answers, strict=True)]
    if all(same):
        text = f"{len(actions)} pairs simulated twice with the same stream gave the same answers."
        return Measurement("repeatable", 0.0, GREEN, text), spent
    names = ", ".join(
        n for n, s in zip(("initial states", "rewards", "next states"), same, strict=True) if not s
    )
    text = (
        f"the same stream gave other {names} the second time: the simulator takes noise from somewhere else, or remembers "
        "earlier calls. Draw all of it from the `rng` that it is given (np.random, random and unseeded generators do not "
        "follow the seed); until then no run can be repeated or resumed."
    )
    return Measurement("repeatable", float(len(same) - sum(same)), RED, text), spent


def _number(x: float) -> str:
    return f"{x if abs(x) > 1e-9 else 0.0:.4g}"
