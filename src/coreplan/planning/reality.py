"""Reality in every plan: how many queries go to rollouts of the policy, and what they say about the verdict."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import CoreplanError, Lane, as_number
from ..judge import ENOUGH, LEAST, Reality, Rule, face_reality, price
from ..planners import Verdict, unresolved, with_reality
from ..policy import SoftmaxPolicy
from ..problem import Problem
from ..run import Run
from ..sampled import Accuracy
from ..simulate import Simulator

SHARE = 0.1  # of the budget, or of what an accuracy took
_TRIED = 16  # initial states on which a baseline is tried
MODEST = 20_000  # queries that a first verdict may cost, however few the accuracy took


class RealityCheck:
    """The part of a run's budget that is reserved for rollouts of its policy, and what was spent of it.

    `share` of the budget is reserved before the run starts. A run that stops at an accuracy spends that share of what the
    accuracy took, but more where that would tell nothing: up to as many queries as the accuracy took for a good verdict
    (`judge.ENOUGH` rollouts), and the price of a first one (`judge.LEAST` rollouts) where it is modest: a deterministic
    simulator may need a few hundred queries to plan, and a tenth of them shows nothing. Where the first verdict leaves a
    suspicion that it cannot resolve, a good one is bought if it is modest, too.
    """

    def __init__(
        self, problem: Problem, *, share: Any, baseline: Any, budget: int, seed: int, spent: int = 0
    ) -> None:
        """`spent`: queries of this kind in earlier sessions of the same run."""
        self.share, self.budget, self.seed, self.baseline = require_share(share), int(budget), seed, baseline
        if baseline is not None:
            # Tried on some initial states, which are no queries: a rule that cannot act is refused before the first one.
            states = Simulator(problem, seed=seed, lane=Lane.BASELINE).initial(_TRIED)
            Rule(problem, baseline, "baseline").act(states, np.random.default_rng(0))
        self.queries = spent

    @property
    def reserved(self) -> int:
        """Queries that the planner does not get."""
        return int(self.share * self.budget)

    def _affordable(self, run: Run) -> int:
        """Queries for rollouts now."""
        used, left = run.simulator.queries, self.budget - run.simulator.queries - self.queries
        if getattr(run.planner, "epsilon", None) is None:
            return max(min(self.reserved - self.queries, left), 0)
        compared = self.baseline is not None
        least, enough = (price(run.problem, compared, rollouts) for rollouts in (LEAST, ENOUGH))
        first = least if least <= max(2 * used, MODEST) else 0
        return max(min(max(int(self.share * used), min(used, enough), first), left), 0)

    def measured(self, run: Run, policy: SoftmaxPolicy) -> tuple[Reality | None, str]:
        """What the policy earned, or why that is not known."""
        queries = self._affordable(run)
        found = self._faced(run, policy, queries, self.seed)
        more = self._more(run)
        if found.fault is None and unresolved(found) and more > found.queries:
            # Fresh rollouts, and these alone: a second look at the same ones would find doubts by chance.
            again = self._faced(run, policy, more, (self.seed + 2**63) % 2**64)
            found = found if again.fault is not None or again.earned is None else again
        if found.fault is not None:
            return None, _failed(found.fault)
        if found.earned is None:
            return (
                None,
                f"{queries:,} queries are too few for rollouts; a first verdict needs about {found.least:,}.",
            )
        return found, ""

    def _faced(self, run: Run, policy: SoftmaxPolicy, queries: int, seed: int) -> Reality:
        try:
            beliefs = run.planner.beliefs(run.loop.state)
        except Exception as error:  # a planner of the user's own; its plan is complete and must not be lost
            return Reality(queries=0, least=0, fault=error)
        found = face_reality(
            run.problem, policy, queries=queries, seed=seed, beliefs=beliefs, baseline=self.baseline
        )
        self.queries = self.queries + found.queries
        return found

    def _more(self, run: Run) -> int:
        """Queries for a good verdict where a first one leaves a suspicion; none if only a budget was given."""
        if getattr(run.planner, "epsilon", None) is None:
            return 0
        used, enough = run.simulator.queries, price(run.problem, self.baseline is not None, ENOUGH)
        left = self.budget - used - self.queries
        return enough if enough <= min(max(2 * used, MODEST), left) else 0

    def verdict(self, own: Verdict | None, found: Reality, run: Run) -> tuple[Verdict | None, str]:
        """The verdict with what rollouts say, and what they cannot say."""
        missing = ""
        if found.gain is None:
            missing = (
                f"There were no queries left for the uniform policy; a verdict needs about {found.least:,}."
            )
        elif found.excess is not None and found.believed is not None and found.uniform is not None:
            claimed = max(found.believed - found.uniform.value, found.gain.value)
            half = (found.excess.high - found.excess.low) / 2
            if claimed > 0 and half > 0.5 * claimed:
                cost = math.ceil(found.queries * (2.0 * half / claimed) ** 2)
                missing = (
                    f"The rollouts do not resolve whether the policy earns what it is believed to: about {cost:,} queries "
                    "would."
                )
        accuracy = Accuracy.of(getattr(run.planner, "epsilon", None))
        target = 0.0
        if accuracy is not None and found.gain is not None:
            target = accuracy.target(max(found.gain.value, 0.0))
        return with_reality(own, found, target), missing


def _failed(fault: BaseException) -> str:
    """Why there is no verdict, in a sentence."""
    if isinstance(fault, KeyboardInterrupt):
        return (
            "The rollouts of the policy were interrupted. A resumed run makes fresh ones from what is left."
        )
    kind = "" if isinstance(fault, CoreplanError) else f"{type(fault).__name__}: "
    return f"The rollouts of the policy failed: {kind}{fault}"


def require_share(share: Any) -> float:
    """`reality` as a float in [0, 1); raises InputError if it is not one."""
    what = "the share of the budget for rollouts of the policy, from 0 (none) to below 1"
    return float(as_number("plan", what, lambda number: 0.0 <= number < 1.0, reality=share))
