"""What `Plan.plot` shows: a column of the trace, and what is known of the values besides, all in the same units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import FloatArray, InputError, as_choice, as_flag
from ..judge import Evaluation
from ..plots import Level, draw_convergence, words

if TYPE_CHECKING:
    from .result import Plan

_WHO = "Plan.plot"
_LABELS = {
    ("value", "normalised"): "normalised value",
    ("value", "returns"): "expected discounted {reward}",
    ("gap", "normalised"): "optimum minus value",
    ("gap", "returns"): "optimum minus value, discounted {reward}",
}
_COUNTS = ("queries", "seconds")


def draw_run(plan: Plan, what: str, units: str, reward: str | None, logarithmic: bool | None, ax: Any) -> Any:
    """The figure of `Plan.plot`; `reward` is what people call it."""
    trace = plan.trace
    others = [name for name in trace.columns if name not in ("value", *_COUNTS)]
    what = as_choice(_WHO, ("value", "gap", *others), what=what)
    units = as_choice(_WHO, ("normalised", "returns"), units=units)
    log = what == "gap" if logarithmic is None else as_flag(_WHO, logarithmic=logarithmic)
    if not len(trace):
        raise InputError(
            "The run ended before its first row, so that there is nothing to draw. Plan with a larger budget."
        )
    queries = trace["queries"]
    if what in others:
        return draw_convergence(
            _WHO, queries, trace[what], {}, label=what.replace("_", " "), logarithmic=log, ax=ax
        )
    known = [plan.evaluation, plan.earned, plan.certificate.exact if plan.certificate else None]
    found = [e for e in known if e is not None]
    values, levels, earned = trace["value"], _levels(plan), _earned(plan)
    if not np.isfinite(values).any() and not found and not levels:
        raise InputError(
            "Nothing is known of the policy's values: the problem cannot be enumerated, and there were no rollouts. Plan "
            f"with evaluate=True, or draw another column of the trace: {', '.join(others)}."
        )
    if what == "gap":
        optimum = levels.get("optimum")
        if optimum is None:
            raise InputError(
                "The gap to the optimum is drawn where the optimum is known exactly: of a problem that can be enumerated, "
                "planned with evaluate=True. plot() draws the values."
            )
        values, levels, earned = optimum - values, {}, None
    scale = _Units.of(units, found, what)
    return draw_convergence(
        _WHO, queries, scale(values), {name: float(scale(level)) for name, level in levels.items()},
        earned=None if earned is None else Level(*(float(scale(v)) for v in earned)),
        label=_LABELS[what, units].format(reward=words(reward or "return")), logarithmic=log, ax=ax,
    )  # fmt: skip


class _Units:
    """From normalised values to what is drawn: zero + (one - zero) * value; differences have no zero."""

    def __init__(self, zero: float, one: float) -> None:
        self.zero, self.one = zero, one

    @classmethod
    def of(cls, units: str, found: list[Evaluation], what: str) -> _Units:
        if units == "normalised":
            return cls(0.0, 1.0)
        if not found:
            raise InputError(
                "Returns in your own rewards need an evaluation: plan with evaluate=True, or leave `units` out."
            )
        zero, one = found[0].units
        return cls(0.0, one - zero) if what == "gap" else cls(zero, one)

    def __call__(self, value: Any) -> FloatArray:
        return np.asarray(self.zero + (self.one - self.zero) * np.asarray(value))


def _earned(plan: Plan) -> tuple[float, float, float] | None:
    """What rollouts of the policy gave, with its interval: an evaluation that was asked for, else those of every plan."""
    rolled = [e for e in (plan.evaluation, plan.earned) if e is not None and not e.exact]
    return (rolled[0].value, rolled[0].low, rolled[0].high) if rolled else None


def _levels(plan: Plan) -> dict[str, float]:
    """What is known besides: the optimum, the uniform policy, the certificate's bounds."""
    certificate = plan.certificate
    exact = [
        e for e in (plan.evaluation, certificate.exact if certificate else None) if e is not None and e.exact
    ]
    uniform = exact[0].uniform if exact else plan.uniform.value if plan.uniform is not None else None
    levels = {"optimum": exact[0].optimum if exact else None, "uniform policy": uniform}
    if certificate is not None:
        name = "upper bound" if certificate.holds else "upper bound, not proved"
        levels |= {"lower bound": certificate.lower, name: certificate.upper}
    return {name: level for name, level in levels.items() if level is not None}
