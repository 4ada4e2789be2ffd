"""How a run ended, and the one list of reasons to doubt its result.

A planner judges its own result (`Planner.verdict`), and a run adds what its watch over the core's hull has
seen. No other file decides that a result is doubtful; docs/doubts.md shows this list to users.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base import FloatArray
from ..sampled import share_below
from ..simulate import REPEATED
from .status import Status as Status
from .status import Verdict as Verdict


@dataclass(frozen=True)
class Doubt:
    """One reason for doubt; calling it with its numbers gives a verdict."""

    name: str
    status: Status
    says: str  # a format string with places for the numbers

    def __call__(self, **numbers: object) -> Verdict:
        return Verdict(self.status, self.says.format(**numbers), self.helps)

    @property
    def helps(self) -> str:
        """What is likely to help: more queries, other features, another core set; empty if that is not known."""
        return next((what for what, names in _HELPS.items() if self.name in names), "")


# What helps against a doubt; `planning/advice.py` makes it a proposal.
MORE, FEATURES, CORE = "more queries", "other features", "another core set"
_HELPS = {
    MORE: {
        "no solve", "no LP", "no sweep", "no round", "no generation", "few samples", "few sweeps", "few generations",
        "equal rewards", "equal scores", "unexplored", "halves disagree", "near uniform", "out of balance",
        "too few to tell", "too few to see", "nothing told apart", "not reached",
    },
    FEATURES: {
        "no gain", "did not settle", "not verified", "LP at its bounds", "believed and earned disagree",
        "no better than uniform", "one step of look-ahead is better", "worse than the baseline",
    },
    CORE: {"not settled", "no estimate", "outside the hull"},
}  # fmt: skip


def _doubt(name: str, says: str, status: Status = Status.DOUBTFUL) -> Doubt:
    return Doubt(name, status, says)


_MORE_CORE = "Add extreme pairs to the core set (coreplan.core.select), or use Grow."

# Nothing has been solved yet.
NO_SOLVE = _doubt(
    "no solve", "No solve was finished: the policy is the uniform one. Resume, or raise the budget."
)
NO_LP = _doubt("no LP", "No LP was solved: the policy is the uniform one. Resume, or raise the budget.")
NO_SWEEP = _doubt("no sweep", "No sweep was made: the policy is the uniform one.")
NO_ROUND = _doubt("no round", "No round was finished: the policy is the uniform one. Raise the budget.")

NO_GENERATION = _doubt(
    "no generation",
    "No generation of candidates was finished: the policy is the one at the start. Raise the budget.",
)

# Too little was seen.
FEW_SAMPLES = _doubt(
    "few samples",
    "The policy rests on few next states per core pair ({N}), so that it depends on chance. Give at least {least:,} "
    "queries; if the simulator is deterministic, set `samples`.",
)
FEW_SWEEPS = _doubt(
    "few sweeps",
    "{sweeps} sweeps over the core set are fewer than the horizon 1/(1 - discount) = {horizon:.0f}, and each sweep carries "
    "value by one step only: give at least {least} queries.",
)
FEW_GENERATIONS = _doubt(
    "few generations",
    "The search had {generations} generations of candidates, fewer than {least}: it has hardly left its beginning. Raise "
    "the budget; where values can be fitted, Grow needs far fewer queries.",
)
SAME_SCORES = _doubt(
    "equal scores",
    "All candidates of every generation earned the same in their rollouts ({n:,} queries), so that none could be preferred. "
    "Raise the budget, start nearer to where rewards differ or, with a start, raise `width`.",
)
START_STAYS = _doubt(
    "the start stays",
    "The policy is the one that the search started from: paired rollouts could not show that what it found is better.",
    Status.FINISHED,
)
SAME_REWARDS = _doubt(
    "equal rewards",
    "All {n} rewards seen were the same, so nothing could be learnt. Raise the budget, or start nearer to where rewards "
    "differ.",
)
UNEXPLORED = _doubt(
    "unexplored",
    "Some states within reach have features that the queried pairs do not cover (leverage {leverage:.3g}, above 1): the "
    "policy does not take into account what lies beyond them. Raise the budget.",
)
NO_GAIN = _doubt(
    "no gain",
    "No policy gains anything over the uniform one on these samples: {cure}",
)
HALVES_DISAGREE = _doubt(
    "halves disagree",
    "Policies fitted on two halves of the samples keep only {kept:.0%} of their gain on each other's half: the samples do "
    "not determine the policy. Raise the budget, or use fewer features.",
)

FLIPPING = _doubt(
    "did not settle",
    "Policy iteration did not settle: its last step still changed {changed:.0%} of the actions at next states, so that the "
    "features cannot carry the values of what they choose. Refine them, or give others; `horizon` above 1.25 may help.",
)

NEAR_UNIFORM = _doubt(
    "near uniform",
    "The policy has hardly left the uniform one: at the core states its favourite action is, on average, {lead:.0%} of the "
    "way from the uniform probability to 1. Raise the budget or the policy's rate (those of Theorem 1 are too cautious for "
    "any affordable budget), or use PlugIn or CoreMirror, which need no rates. Where the policy is drawn from all "
    "iterations (output='random'), an early draw does this too: choose another seed.",
)

# No proper solution was found.
NOT_SETTLED = _doubt(
    "not settled",
    "Value iteration through the core set did not settle (residual {residual:.2g} of the value range): features were met "
    f"outside the core's hull, or the core is ill-conditioned. Raise `ridge`. {_MORE_CORE}",
    Status.DIVERGED,
)
NOT_VERIFIED = _doubt(
    "not verified",
    "No answer for the LP on {N} samples per core pair could be verified: the policy is the uniform one. Nearly dependent "
    "core features, or a discount near 1 (here {discount:g}), can cause this. The samples are kept. Choose core pairs or "
    "features further apart, lower the discount, or use another planner.",
    Status.DIVERGED,
)
LP_AT_BOUNDS = _doubt(
    "LP at its bounds",
    "The LP is finite only by its slack ({slack:.2g}) or its bounds on theta (worth {bound:.2g}): the core set is "
    "incomplete, or the features cannot represent the values. Add core pairs or features.",
)
OUT_OF_BALANCE = _doubt(
    "out of balance",
    "The saddle point was not reached: {imbalance:.2g} of lambda's flow is out of balance, more than the inflow "
    "1 - discount = {inflow:.2g}. Raise the budget, or `steps`.",
)

BALL_TOO_SMALL = _doubt(
    "ball too small",
    "theta was held back by its ball: it ended at {norm:.0%} of the radius D = {D:.3g}, and the average of all its iterates "
    "is at {mean:.0%}. Raise D (a ball of radius {enough:.3g} holds the values of every policy, if the core set is exact), "
    "or lower alpha = {alpha:.3g}.",
)

# Verdicts on a run with an accuracy (epsilon).
REACHED = _doubt(
    "reached",
    "Sampling is estimated to lose at most {error:.2g} of normalised value. This is the statistical error only. Outcomes "
    "rarer than 3/N per pair may be unseen: {where}.",
    Status.REACHED,
)
NO_NOISE_REACHED = _doubt("no noise, reached", "{finding}", Status.REACHED)
TOO_FEW_TO_TELL = _doubt(
    "too few to tell",
    "An estimate of the accuracy needs at least {first} samples per core pair: {cure}.",
    Status.NOT_REACHED,
)
NO_ESTIMATE = _doubt(
    "no estimate",
    "The accuracy cannot be estimated: a policy solved on half of the samples has no finite value in the model of all "
    "samples. This happens if features were met outside the core's hull. Add extreme pairs to the core set "
    "(coreplan.core.select), or give a budget and no epsilon.",
    Status.NOT_REACHED,
)
NOTHING_TOLD_APART = _doubt(
    "nothing told apart",
    "{N} samples per core pair tell no policy from the uniform one. {blind} samples are needed to confirm this, or to show "
    "a difference: raise the budget to {least:,}.",
    Status.NOT_REACHED,
)
TOO_FEW_TO_SEE = _doubt(
    "too few to see",
    "The value lost by sampling is estimated to be {error:.2g} at most, but {met} samples of pairs that matter leave room "
    "for outcomes that none of them showed and that could lose more. {cure}, or ask for less.",
    Status.NOT_REACHED,
)
NOT_REACHED = _doubt(
    "not reached",
    "The value lost by sampling is estimated to be up to {error:.2g}, and {target:.2g} was asked for. {cure}, or ask for "
    "less.",
    Status.NOT_REACHED,
)

# The simulator was found to be deterministic.
NO_NOISE = _doubt("no noise", "{finding}", Status.FINISHED)

# From the watch over the core's hull.
OUTSIDE_HULL = _doubt("outside the hull", "{finding}")
HULL_NOT_MEASURED = _doubt("hull not measured", "{finding}", Status.FINISHED)

# From rollouts: what the policy earns.
DISAGREE = _doubt(
    "believed and earned disagree",
    "The samples say {believed:.3g}, rollouts earned {low:.3g} to {high:.3g} (uniform policy: {uniform:.3g}): {cure}",
)
NO_BETTER = _doubt(
    "no better than uniform",
    "Rollouts of the policy earned {value:.3g}, those of the uniform policy {uniform:.3g}: the difference is {low:.3g} to "
    "{high:.3g}, so the policy is not measurably better. {cure}",
)
SHORT_SIGHTED = _doubt(
    "one step of look-ahead is better",
    "One step of look-ahead at the states that the policy meets would gain about {ahead:.2g} ({low:.2g} to {high:.2g}), and "
    "the policy gains {gain:.2g} over the uniform one: {cure}",
)
WORSE_THAN_BASELINE = _doubt(
    "worse than the baseline",
    "The baseline{name} earns more: the policy minus the baseline is {lead:.3g} ({low:.3g} to {high:.3g}).",
)
NO_LEAD = _doubt(
    "no lead over the baseline",
    "The policy is not measurably better than the baseline: the difference is {lead:.3g} ({low:.3g} to {high:.3g}).",
    Status.FINISHED,
)
EARLIER = _doubt(
    "an earlier solve is better",
    "The policy is that of an earlier solve, {what}: in paired rollouts it earned {above:.3g} ({low:.3g} to {high:.3g}) "
    "more than the policy of the last solve. More queries made it worse, so the features may be at fault.",
    Status.FINISHED,
)

DOUBTS: tuple[Doubt, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Doubt))

FEW = 8  # with fewer samples per core pair a result is doubtful, unless they are all the same


def few_samples(N: int, m: int, same: bool) -> Verdict | None:
    """Doubtful if there are few samples N per core pair, unless there are several and they are all the same."""
    if N >= FEW or (N > 1 and same):
        return None
    return FEW_SAMPLES(N=N, least=FEW * m + REPEATED)


def no_noise(N: int, repeats: int, accuracy: bool) -> Verdict:
    """The verdict on a run whose simulator is deterministic: all `repeats` agreed, or it declares so and there are none."""
    samples = "one sample per core pair was" if N == 1 else f"{N} samples per core pair were"
    finding = f"The simulator declares that it has no noise, so {samples} used and sampling loses nothing."
    if repeats:
        finding = (
            f"No noise was seen in {repeats:,} repeated queries, so {samples} used and sampling loses nothing, unless "
            f"noise changes an answer more rarely than {share_below(repeats):.2g} of the time."
        )
    return (NO_NOISE_REACHED if accuracy else NO_NOISE)(finding=finding)


def no_gain(alike: bool) -> Verdict:
    """What to do where no policy gains anything; `alike`: the features are the same for all actions at most states."""
    if alike:
        return NO_GAIN(
            cure="the features are the same for all actions. Give each action features of its own."
        )
    return NO_GAIN(
        cure="they are too few, or the features cannot carry values. Raise the budget, or give others."
    )


NEAR = 0.25  # below this lead of its favourite actions a policy has hardly left the uniform one


def near_uniform(p: FloatArray, uniform: FloatArray) -> Verdict | None:
    """Doubtful if a policy p `[n, A]` hardly differs from the uniform one; forbidden actions have probability 0 in both.

    The lead of a state is 0 for the uniform distribution, and 1 where one action has all probability. States with a single
    action say nothing.
    """
    equal = uniform.max(axis=1)  # 1 / the number of available actions
    choice = equal < 1.0
    if not choice.any():
        return None
    lead = float(((p.max(axis=1) - equal)[choice] / (1.0 - equal)[choice]).mean())
    return NEAR_UNIFORM(lead=lead) if lead < NEAR else None
