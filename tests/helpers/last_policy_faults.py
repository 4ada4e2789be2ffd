"""One deliberate fault per row of `verify last_policy`, like those of `claim_faults.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .claim_faults import CLAIMS, Fault, changed, instead, times

LAST, BOUNDS = CLAIMS + "last_policy.", "coreplan.theory.last_policy."


def _bound(**factors: float) -> Callable[[Any], Any]:
    """A bound whose terms are multiplied."""
    return lambda real: (
        lambda **k: (lambda b: dataclasses.replace(b, **{n: f * getattr(b, n) for n, f in factors.items()}))(
            real(**k)
        )
    )


def _turned(real: Any) -> Any:
    """`plan`, whose policy prefers what is worst."""

    def plan(*args: Any, **named: Any) -> Any:
        policy = real(*args, **named).policy
        return SimpleNamespace(policy=SimpleNamespace(theta=-policy.theta, scale=policy.scale))

    return plan


def _poor(real: Any) -> Any:
    """The value of policies that are not certain is too small."""
    return lambda e, pi: real(e, pi) - 5.0 * (pi.max() < 1.0)


def _values(by: float) -> Callable[[Any], Any]:
    return lambda real: lambda e: (lambda v, pi: (v._replace(Q=v.Q + by), pi))(*real(e))


DEPENDENCE, DEFAULT = "dependence on H, A, T, m: ", "default schedule: "
FEW, MANY = DEPENDENCE + "bound for a constant rate, few", DEPENDENCE + "bound for a constant rate, many"
SCHEDULE, LARGEST_K = DEPENDENCE + "bound for the default", DEPENDENCE + "largest k"
NOISE = "dependence on T and m: {}, 80% quantile over its bound, {}"
SUMS, WEIGHTED = "sums of noise", "weighted sums of noise"
LAST_POLICY = [
    Fault(
        "last_policy",
        "constant rate: largest k_t",
        BOUNDS + "curvature",
        times(1e-3),
        (
            LARGEST_K,
            MANY,
        ),
    ),
    Fault("last_policy", "constant rate: -k_t", LAST + "sweeps", changed(Thetas=lambda f: -f.Thetas)),
    Fault(
        "last_policy",
        "constant rate: largest |D",
        LAST + "optimal",
        _values(3.0),
        (
            "default schedule: largest |D",
            "last policy, default schedule: error",
        ),
    ),
    Fault("last_policy", "constant rate: gap less", LAST + "value", _poor),
    Fault(
        "last_policy", "default schedule: Phi E", LAST + "mean_step", lambda real: lambda *a: real(*a) + 1e-6
    ),
    Fault(
        "last_policy",
        "default schedule: the planner's mean",
        LAST + "recorded",
        changed(mean=lambda f: 1.001 * f.mean),
    ),
    Fault("last_policy", "default schedule: its scale", BOUNDS + "SHARPNESS", instead(11.0)),
    Fault("last_policy", "default schedule: what steps", BOUNDS + "lag", times(0.03), (SCHEDULE,)),
    Fault("last_policy", "default schedule: A_{T+1}", LAST + "weights_of_maxima", times(1.001)),
    Fault(
        "last_policy",
        "default schedule: largest |D",
        LAST + "optimal",
        _values(-3.0),
        (
            "constant rate: largest |D",
            "last policy, default schedule: error",
        ),
    ),
    Fault(
        "last_policy",
        "default schedule: gap of",
        LAST + "recorded",
        changed(mean=lambda f: -f.mean),
        ("default schedule: the planner's mean",),
    ),
    Fault(
        "last_policy",
        NOISE.format(SUMS, "largest"),
        BOUNDS + "deviation",
        times(0.5),
        (
            FEW,
            MANY,
        ),
    ),
    Fault(
        "last_policy",
        NOISE.format(SUMS, "smallest"),
        BOUNDS + "deviation",
        times(2.0),
        (
            FEW,
            MANY,
        ),
    ),
    Fault(
        "last_policy",
        NOISE.format(WEIGHTED, "largest"),
        BOUNDS + "weighted_deviation",
        times(0.5),
        (SCHEDULE,),
    ),
    Fault(
        "last_policy",
        NOISE.format(WEIGHTED, "smallest"),
        BOUNDS + "weighted_deviation",
        times(1.5),
        (SCHEDULE,),
    ),
    Fault("last_policy", DEPENDENCE + "policy part", LAST + "mirror_bound", _bound(policy_start=1.5)),
    Fault("last_policy", DEPENDENCE + "change of", LAST + "mirror_bound", _bound(drift=0.5)),
    Fault("last_policy", DEPENDENCE + "first part", LAST + "mirror_bound", _bound(start=0.5)),
    Fault("last_policy", DEPENDENCE + "error of", LAST + "mirror_bound", _bound(bellman_error=0.5)),
    Fault("last_policy", LARGEST_K, BOUNDS + "curvature", times(2.0), (MANY,)),
    Fault("last_policy", FEW, BOUNDS + "deviation", times(1.1), (MANY,)),
    Fault("last_policy", MANY, BOUNDS + "curvature", times(1.1), (LARGEST_K,)),
    Fault("last_policy", SCHEDULE, BOUNDS + "lag", times(1.2)),
    Fault("last_policy", "last policy, default schedule: error", LAST + "optimal", _values(0.1)),
    Fault(
        "last_policy",
        "last policy, default schedule: its gap",
        LAST + "plan",
        _turned,
        ("last policy, default schedule: error",),
    ),
    Fault(
        "last_policy",
        "last policy: the uniform",
        LAST + "bounds.last_policy_bound",
        _bound(start=1e9),
        (
            FEW,
            MANY,
            SCHEDULE,
        ),
    ),
]
