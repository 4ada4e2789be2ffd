"""Reality in every plan: how many queries go to rollouts of the policy, and what they say about the verdict."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..base import CoreplanError, Lane, as_number, digest
from ..judge import ENOUGH, LEAST, Faced, Reality, Rule, price
from ..planners import Earlier, Verdict, against_policy, scale_of, set_aside, unresolved, with_reality
from ..policy import SoftmaxPolicy, with_own_features
from ..problem import Problem
from ..run import Run
from ..sampled import Accuracy, Beliefs
from ..simulate import Simulator

SHARE = 0.1  # of the budget, or of what an accuracy took
_TRIED = 16  # initial states on which a baseline is tried
_KEPT = 0.4  # of the rollouts' queries, kept back where an earlier solve may be better
_DIFFERENCE = (
    0.1  # the least difference between two solves that matters, as a fraction of what the policy gains
)
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
        # The problem's own baseline, unless another is given; it joins the rollouts where they have room for it.
        self.own = problem.baseline if baseline is None else None
        rule = baseline if self.own is None else self.own.rule
        if rule is not None:
            # Tried on some initial states, which are no queries: a rule that cannot act is refused before the first one.
            states = Simulator(problem, seed=seed, lane=Lane.BASELINE).initial(_TRIED)
            Rule(problem, rule, "baseline").act(states, np.random.default_rng(0))
        self.queries = spent

    @property
    def reserved(self) -> int:
        """Queries that the planner does not get."""
        return int(self.share * self.budget)

    def _join(self, run: Run) -> None:
        """Have the problem's own baseline rolled out too, if there is room for a good verdict on three policies.

        It never takes queries from the verdict on the policy where these are few, and the limits stay what they are.
        """
        if self.own is None or self.baseline is not None:
            return
        used, left = run.simulator.queries, self.budget - run.simulator.queries - self.queries
        room = self.reserved - self.queries if self._budgeted(run) else used
        if price(run.problem, True, ENOUGH) <= min(room, left):
            self.baseline = self.own.rule

    def _affordable(self, run: Run) -> int:
        """Queries for rollouts now."""
        used, left = run.simulator.queries, self.budget - run.simulator.queries - self.queries
        if self._budgeted(run):
            return max(min(self.reserved - self.queries, left), 0)
        compared = self.baseline is not None
        least, enough = (price(run.problem, compared, rollouts) for rollouts in (LEAST, ENOUGH))
        first = least if least <= max(2 * used, MODEST) else 0
        return max(min(max(int(self.share * used), min(used, enough), first), left), 0)

    def measured(self, run: Run, policy: SoftmaxPolicy) -> tuple[Reality | None, str]:
        """What the policy earned, or that of an earlier solve if it earned more; or why that is not known."""
        self._join(run)
        queries = self._affordable(run)
        try:
            beliefs, earlier = run.planner.beliefs(run.loop.state), run.planner.earlier(run.loop.state)
        except Exception as error:  # a planner of the user's own; its plan is complete and must not be lost
            return None, _failed(error)
        faced = self._faced(run, policy, beliefs, self.seed)
        kept = _KEPT if earlier is not None and self._budgeted(run) else 0.0
        # The verdict comes first. What is kept back goes on with it, unless it is bad and another policy may be better.
        found = self._seen(faced, int((1.0 - kept) * queries), ahead=not kept)
        if kept and not self._doubted(found, run):
            found = self._seen(faced, queries)
        more = self._more(run)
        if found.fault is None and unresolved(found) and more > found.queries:
            # Fresh rollouts, and these alone: a second look at the same ones would find doubts by chance.
            fresh = self._faced(run, policy, beliefs, (self.seed + 2**63) % 2**64)
            again = self._seen(fresh, more)
            if again.fault is None and again.earned is not None:
                faced, found = fresh, again
        if found.fault is not None:
            return None, _failed(found.fault)
        if found.earned is None:
            return (
                None,
                f"{queries:,} queries are too few for rollouts; a first verdict needs about {found.least:,}.",
            )
        if earlier is not None and self._doubted(found, run):
            return self._raced(run, faced, found, earlier, queries)
        return found, ""

    def _faced(self, run: Run, policy: SoftmaxPolicy, beliefs: Beliefs | None, seed: int) -> Faced:
        return Faced(
            with_own_features(run.problem, policy), policy, seed=seed, beliefs=beliefs, baseline=self.baseline
        )

    def _seen(self, faced: Faced, queries: int, ahead: bool = True) -> Reality:
        """What `faced` shows with at most `queries` queries in all; those that are new are counted."""
        before = faced.queries
        found = faced.see(queries, ahead=ahead)
        self.queries = self.queries + found.queries - before
        joined = self.own is not None and found.baseline is not None
        return replace(found, own_baseline=self.own.name) if self.own and joined else found

    def _budgeted(self, run: Run) -> bool:
        """Whether the run has a budget and no accuracy."""
        return getattr(run.planner, "epsilon", None) is None

    def _doubted(self, found: Reality, run: Run) -> bool:
        """Whether the rollouts speak against the policy."""
        if found.fault is not None or found.gain is None:
            return False
        return against_policy(found, self._target(run, found)) is not None

    def _raced(
        self, run: Run, faced: Faced, found: Reality, earlier: Earlier, queries: int
    ) -> tuple[Reality, str]:
        """The verdict on the last policy or, if paired rollouts show that the earlier one earns more, on that one.

        There is no race that cannot be decided: it must be affordable to see a tenth of what the policy is said to gain.
        """
        used = run.simulator.queries
        rest = queries - found.queries if self._budgeted(run) else max(2 * used, MODEST)
        rest = min(rest, self.budget - used - self.queries)
        needed = faced.needed(found, max(_DIFFERENCE * scale_of(found), 1e-9))
        if needed > rest:
            return found, (
                f"Whether an earlier solve, {earlier.what}, earns more is not known: rollouts of about {needed:,} queries "
                "would tell."
            )
        other = SoftmaxPolicy(*earlier.policy, run.problem.features, run.policy().problem_name)
        seen = faced.against(found, other, earlier.beliefs, needed)
        self.queries = self.queries + seen.queries
        total = found.queries + seen.queries
        if seen.fault is not None or seen.above_last is None or seen.above_last.low <= 0.0:
            return replace(found, queries=total), ""
        last = faced.main.rules[0].acts
        return replace(seen, queries=total, set_aside=digest_of_policy(last)), ""

    def chosen(self, run: Run, found: Reality | None) -> tuple[SoftmaxPolicy, str]:
        """The policy that the rollouts prefer, and which earlier solve it is from, if it is from one."""
        policy = run.policy()
        if found is None or found.set_aside != digest_of_policy(policy):
            return policy, ""
        earlier = run.planner.earlier(run.loop.state)
        if earlier is None:
            return policy, ""
        return SoftmaxPolicy(*earlier.policy, run.problem.features, policy.problem_name), earlier.what

    def _target(self, run: Run, found: Reality) -> float:
        """The accuracy that was asked for, in normalised value; 0 if none was."""
        accuracy = Accuracy.of(getattr(run.planner, "epsilon", None))
        if accuracy is None or found.gain is None:
            return 0.0
        return accuracy.target(max(found.gain.value, 0.0))

    def _more(self, run: Run) -> int:
        """Queries for a good verdict where a first one leaves a suspicion; none if only a budget was given."""
        if self._budgeted(run):
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
        verdict = with_reality(own, found, self._target(run, found), makes=run.planner.needs_box)
        _, what = self.chosen(run, found)
        return (set_aside(verdict, found, what) if what else verdict), missing


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


def digest_of_policy(policy: SoftmaxPolicy) -> str:
    """A short hash of a policy's numbers."""
    return digest(policy.theta, np.array(policy.scale))
