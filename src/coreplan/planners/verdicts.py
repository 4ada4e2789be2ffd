"""A planner's own verdict, joined with what the watch over the core's hull and rollouts of its policy found."""

from __future__ import annotations

import math
from typing import Any

from ..core import HullWatch
from ..sampled import Stored
from .doubts import (
    DISAGREE,
    EARLIER,
    HULL_NOT_MEASURED,
    MORE,
    NO_BETTER,
    NO_LEAD,
    OUTSIDE_HULL,
    SHORT_SIGHTED,
    WORSE_THAN_BASELINE,
    Status,
    Verdict,
)


def with_watch(own: Verdict | None, watch: HullWatch) -> Verdict | None:
    """A planner's own verdict combined with the finding of the watch over the core's hull: the worse status counts."""
    if not watch.finding:
        return own
    unknown = math.isnan(watch.outside)
    outside = (HULL_NOT_MEASURED if unknown else OUTSIDE_HULL)(finding=watch.finding)
    if own is None:
        return outside
    if unknown or own.status not in (Status.FINISHED, Status.REACHED, Status.NOT_REACHED):
        return Verdict(own.status, f"{outside.reason} {own.reason}", own.helps)
    both = own.status is Status.NOT_REACHED  # outside the hull, a reached accuracy means nothing
    return outside._replace(reason=f"{outside.reason} {own.reason}" if both else outside.reason)


DISAGREEMENT = 0.25  # believed minus earned, as a fraction of the believed gain over the uniform policy
AHEAD = 0.25  # what look-ahead gains, as a fraction of the same
BEHIND = 0.1  # what the policy earns less than a problem's own baseline, as a fraction of the same
MANY = 32  # rollouts that show whether a policy without beliefs gains anything
_COARSE = "the cells of its features are too coarse{where}, or the samples at their corners too few. Raise the budget."
_TIE = 1e-6  # a gain over the uniform policy below which there is nothing to gain


def with_reality(own: Verdict | None, seen: Any, target: float, makes: bool = False) -> Verdict | None:
    """A planner's own verdict combined with what its policy earned in rollouts.

    `seen` is a `judge.Reality`; `target` is the accuracy that was asked for, as a normalised value. Disagreement is set
    against what the policy is believed to gain over the uniform one, or does gain if that is more: an absolute tolerance
    would mean nothing where all policies earn nearly the same. `makes`: the planner makes its own features, so that more
    queries help and not other features.
    """
    found = against_policy(seen, target, makes)
    lead = _lead(seen)
    if found is None and lead is not None and lead.status is Status.DOUBTFUL:
        found, lead = lead, None
    if found is not None:
        own = _joined(found, own)
    if lead is not None:
        own = own._replace(reason=f"{own.reason} {lead.reason}".strip()) if own else lead
    return own


def against_policy(seen: Any, target: float, makes: bool = False) -> Verdict | None:
    """What rollouts say against the policy itself, whatever the baseline earns; None if nothing."""
    found = _disagreement(seen, target, makes)
    found = found or _no_better(seen, makes) or _short_sighted(seen, target, makes)
    return found._replace(helps=MORE) if found and makes else found


def set_aside(own: Verdict | None, seen: Any, what: str) -> Verdict:
    """The verdict on the policy of an earlier solve, which rollouts preferred to that of the last one."""
    remark = EARLIER(
        what=what, above=seen.above_last.value, low=seen.above_last.low, high=seen.above_last.high
    )
    if own is None or own.status in (Status.FINISHED, Status.REACHED):
        return remark  # an accuracy that was reached is that of the last solve
    return own._replace(reason=f"{remark.reason} {own.reason}")


def unresolved(seen: Any) -> bool:
    """Whether an estimate gives reason for doubt, and its interval is too wide to say so."""
    if seen.gain is None or seen.excess is None:
        return False
    scale = scale_of(seen)
    limits = ((seen.excess, DISAGREEMENT * scale), (seen.ahead, AHEAD * scale))
    wide = seen.gain.low <= 0.0 and seen.gain.high > max(0.5 * scale, _TIE)
    return wide or any(
        found is not None and found.low <= 0.0 and limit < found.value for found, limit in limits
    )


def _large(found: Any, share: float, seen: Any, target: float) -> bool:
    """Whether an estimate exceeds a share of the gain and the accuracy asked for, and it is certain that there is something.

    That its lower end exceeds them would be too much to ask: of runs that lose more than a fifth, three in ten passed.
    """
    if found is None or seen.gain is None:
        return False
    allowed = max(share * scale_of(seen), target, _TIE)
    return bool(found.low > 0.0 and found.value > allowed)


def _joined(found: Verdict, own: Verdict | None) -> Verdict:
    """What rollouts found comes first; a planner's own doubt is kept, but a reached accuracy means nothing then."""
    if own is None or own.status in (Status.FINISHED, Status.REACHED):
        return found
    status = Status.DIVERGED if own.status is Status.DIVERGED else found.status
    return Verdict(status, f"{found.reason} {own.reason}", found.helps)


def scale_of(seen: Any) -> float:
    """What the policy gains over the uniform one, or is believed to gain if that is more."""
    claimed = -math.inf if seen.believed is None else seen.believed - seen.uniform.value
    return max(claimed, seen.gain.value)


def _disagreement(seen: Any, target: float, makes: bool) -> Verdict | None:
    if not _large(seen.excess, DISAGREEMENT, seen, target):  # to earn more than is believed is no fault
        return None
    cure = f"the features cannot carry this policy. Refine them{seen.where}, or give others."
    return DISAGREE(
        believed=seen.believed, low=seen.earned.low, high=seen.earned.high, uniform=seen.uniform.value,
        cure=_COARSE.format(where=seen.where) if makes else cure,
    )  # fmt: skip


def _no_better(seen: Any, makes: bool) -> Verdict | None:
    if seen.gain is None or seen.gain.low > 0.0:
        return None
    if seen.believed is None:  # no claim to set the gain against: only many rollouts count
        resolved = seen.earned.rollouts >= MANY
    else:
        resolved = seen.gain.high <= max(0.5 * scale_of(seen), _TIE) or seen.believed <= seen.uniform.low
    if not resolved:
        return None
    return NO_BETTER(
        value=seen.earned.value, uniform=seen.uniform.value, low=seen.gain.low, high=seen.gain.high,
        cure="Raise the budget." if makes else "Refine the features, or raise the budget.",
    )  # fmt: skip


def _short_sighted(seen: Any, target: float, makes: bool) -> Verdict | None:
    if not _large(seen.ahead, AHEAD, seen, target):
        return None
    cure = "the features cannot tell its actions apart well enough. Refine them, or give others."
    return SHORT_SIGHTED(
        ahead=seen.ahead.value, low=seen.ahead.low, high=seen.ahead.high, gain=seen.gain.value,
        cure=_COARSE.format(where="") if makes else cure,
    )  # fmt: skip


def _lead(seen: Any) -> Verdict | None:
    """What the comparison with the baseline says. Of a problem's own one, only that it earns a good deal more."""
    if seen.lead is None or seen.lead.low > 0.0:
        return None
    numbers = {"lead": seen.lead.value, "low": seen.lead.low, "high": seen.lead.high}
    if seen.own_baseline:
        allowed = 0.0 if seen.gain is None else max(BEHIND * scale_of(seen), _TIE)
        worse = seen.lead.high < 0.0 and -seen.lead.value > allowed
        return WORSE_THAN_BASELINE(name=f", {seen.own_baseline},", **numbers) if worse else None
    return WORSE_THAN_BASELINE(name="", **numbers) if seen.lead.high < 0.0 else NO_LEAD(**numbers)


def with_stored(own: Verdict | None, stored: Stored) -> Verdict | None:
    """A planner's own verdict combined with a look at the stored samples' features."""
    watch = HullWatch(stored.frame, stored.discount)
    watch.look(stored.next_features)
    watch.look(stored.initial_features)
    return with_watch(own, watch)
