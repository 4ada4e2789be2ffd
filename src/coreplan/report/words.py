"""The verdict in one sentence, and the command that makes a run again."""

from __future__ import annotations

import shlex
from typing import Any

from ..judge import Certificate, Evaluation
from ..planners import Status
from ..planning import SHARE
from ..problem import ZOO
from ..run import CERTIFICATE_FILE
from .facts import Facts
from .ticks import amount, said

_LIGHTS = {
    "finished": "green",
    "accuracy reached": "green",
    "doubtful": "amber",
    "accuracy not reached": "amber",
    "diverged": "red",
    "failed": "red",
}


def light_of(facts: Facts) -> str:
    """The colour of a run's end."""
    return _LIGHTS.get(facts.text("status"), "grey")


def state_of(facts: Facts) -> str:
    """How a run ended, or that it did not, in a word or two."""
    if facts.running:
        return "running"
    return "not ended" if facts.stopped else facts.text("status") or "unknown"


def best_known(facts: Facts) -> tuple[Evaluation | None, str]:
    """The best that is known of the policy's value, and how it is known."""
    if facts.evaluation is not None:
        how = "exact" if facts.evaluation.exact else f"by {facts.evaluation.rollouts:,} rollouts"
        return facts.evaluation, how
    if facts.certificate is not None and facts.certificate.exact is not None:
        return facts.certificate.exact, "exact"
    earned = facts.reality.earned if facts.reality is not None else None
    return earned, "" if earned is None else f"by {earned.rollouts:,} rollouts"


def verdict(facts: Facts) -> str:
    """The value, the certificate, the queries, and what it assumes, in one sentence."""
    if facts.running:
        return f"The run is going on: {_spent(facts)} so far{_of_budget(facts)}."
    if facts.stopped and facts.policy is None:
        return f"The run has not come to its end and has no policy yet; what is known of it is as of {_spent(facts)}."
    return "; ".join((_worth(facts), _certified(facts), f"it took {_spent(facts)}")) + "."


def ending(facts: Facts) -> str:
    """How the run ended, and why, in the planner's own words."""
    status, queries = facts.text("status"), facts.whole("queries") or 0
    if facts.running:
        return ""
    planning = queries - (facts.whole("reality_queries") or 0)
    try:
        ended = Status(status).after(max(planning, 0))
    except ValueError:
        ended = {
            "running": "The run has not ended, or its process was killed.",
            "failed": "The run ended with an error.",
        }.get(status, "It is not known how the run ended.")
    return " ".join(
        part for part in (ended, *(facts.text(n) for n in ("reason", "next", "no_verdict"))) if part
    )


def command_of(facts: Facts) -> str:
    """The command that makes the same run again."""
    words = ["coreplan", "plan", problem_word(facts)]
    if facts.planner:
        words += ["--planner", facts.planner]
    settings = {k: v for k, v in facts.settings.items() if _settable(v)}
    epsilon = settings.pop("epsilon", None)
    if facts.whole("budget"):
        words += ["--budget", str(facts.whole("budget"))]
    if epsilon is not None:
        words += ["--epsilon", str(epsilon)]
    words += ["--seed", str(facts.whole("seed") or 0)]
    if facts.number("reality") not in (None, SHARE):
        words += ["--reality", f"{facts.number('reality'):g}"]
    for name, value in settings.items():
        words += ["--set", f"{name}={value}"]
    return " ".join(shlex.quote(word) for word in [*words, "--out", "NEW_FOLDER"])


def command_for(command: str, facts: Facts, more: str = "") -> str:
    """A command about this run; empty where the run has no policy yet that it could be about."""
    own = ["--problem", facts.given] if facts.given else []
    return (
        "" if facts.policy is None else f"coreplan {shlex.join([command, facts.path, *own])} {more}".strip()
    )


def resuming(facts: Facts) -> str:
    """The command with which a run goes on that has not come to its end; empty where it has."""
    words = ["coreplan", "plan", problem_word(facts), "--out", facts.path, "--resume"]
    return shlex.join(words) if facts.stopped else ""


def problem_word(facts: Facts) -> str:
    """How a command names the problem."""
    name = facts.text("problem")
    if facts.given or name.partition(":")[0] in ZOO:
        return facts.given or name
    return "FILE.py:NAME"


def _settable(value: Any) -> bool:
    """Whether a setting stands on the command line: not what was left out, nor an array, of which only a digest is known."""
    return isinstance(value, (int, float, str)) and value != "auto"


def _worth(facts: Facts) -> str:
    found, how = best_known(facts)
    if found is None:
        return "Nothing in this folder says what the policy is worth"
    range_ = "" if found.exact else f", 95% interval {said(found.low)} to {said(found.high)}"
    if found.exact and found.optimum is not None:
        range_ = f"; the optimum is {said(found.optimum)}"
    own = (
        f" or {amount(found.returns.value)} in {facts.reward_name}, discounted"
        if found.units != (0.0, 1.0)
        else ""
    )
    return f"The policy is worth {said(found.value)} on the scale from 0 to 1{own} ({how}{range_})"


def _certified(facts: Facts) -> str:
    c = facts.certificate
    if c is None:
        return (
            "the certificate cannot be read" if facts.unread(CERTIFICATE_FILE) else "there is no certificate"
        )
    lower = f"with {c.confidence:.0%} confidence it is worth at least {said(c.lower)}"
    alone = f"{lower}, assuming only that rewards lie in their declared range"
    if is_vacuous(c) and c.holds is not False:
        return f"{alone}; the upper bound on the optimum is 1, which says nothing"
    if c.upper is None:
        return f"{alone}; the optimum is not bounded"
    if c.holds is False:
        return f"{alone}; the optimum is not bounded, since an assumption was found false"
    return (
        f"{lower} and no policy more than {said(c.upper)}, assuming that the core set is exact and the problem linear in "
        "its features, of which no violation was found"
    )


def is_vacuous(c: Certificate) -> bool:
    """Whether the upper bound is no lower than what every policy is below by definition."""
    return c.upper is not None and c.upper >= 1.0


def _spent(facts: Facts) -> str:
    queries = facts.queries
    return "an unknown number of queries" if queries is None else f"{queries:,} queries"


def _of_budget(facts: Facts) -> str:
    budget = facts.whole("budget")
    return "" if budget is None else f", of at most {budget:,}"
