"""What `certify` refuses, before the first query: arguments that do not fit together, too few queries, too little memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import SHARE, FloatArray, InputError, as_array, as_number, available_memory
from ...core import CoreSet, Frame
from ...features import fingerprint
from ...problem import Problem
from ...sampled import repeats_needed
from .first_half import Basis

LARGEST = 5000  # the most core pairs or features, where core features are no multiples of unit vectors
PER_PAIR = 60  # queries per core pair at least, of a simulator with noise
_DENSE = 1500  # up to so many pairs there are dense matrices
_FILL = 2000  # numbers per pair that a sparse factorisation is expected to need at most


def checked_core(problem: Any, core: Any, policy: Any) -> CoreSet | None:
    """The core set, or None if there is none; raises InputError about the first argument that cannot be used."""
    if not isinstance(problem, Problem):
        raise InputError(f"`certify(problem=...)` must be a Problem, got {type(problem).__name__}.")
    if policy.features is None:
        raise InputError(
            "The policy was loaded without its features, so it cannot act. Load it with load_policy(path, problem=...)."
        )
    if fingerprint(policy.features) != fingerprint(problem.features):
        raise InputError(
            f"The policy was made for other features than those of the problem '{problem.name}': "
            f"{dict(policy.features.description)} against {dict(problem.features.description)}. Certify a policy on the "
            "problem that it was planned for."
        )
    if core is not None and not isinstance(core, CoreSet):
        raise InputError(f"`certify(core=...)` must be a CoreSet or None, got {type(core).__name__}.")
    return CoreSet.of(problem) if core is None and problem.core_pairs is not None else core


def as_theta(theta: Any, d: int) -> FloatArray:
    form = f"{d} finite numbers, or left out to be fitted"
    numbers = as_array("certify", form, theta=theta).astype(np.float64)
    if numbers.shape != (d,):
        raise InputError(f"`certify(theta=...)` must be {form}; got shape {numbers.shape}.")
    return numbers


def as_target(target: Any) -> float | None:
    """The gap at which to stop."""
    if target is None:
        return None
    what = "the gap at which to stop, above 0 and at most 1 (values are normalised)"
    return float(as_number("certify", what, lambda gap: 0.0 < gap <= 1.0, target=target))


def no_upper(problem: Problem, core: CoreSet | None) -> str:
    """Why there is no upper bound; empty if there is one."""
    if core is None:
        return f"'{problem.name}' has no core set, which an upper bound needs; coreplan.core.select can choose one"
    d = problem.features.dimension
    if max(len(core), d) > LARGEST and Frame(core.features(problem.features), d).simplex is None:
        return (
            f"it takes dense systems of the core's size, and at most {LARGEST:,} fit; there are {len(core):,} core pairs "
            f"and {d:,} features"
        )
    return ""


def says_deterministic(problem: Problem) -> bool:
    """Whether the model says by itself that its steps have no noise. What agrees when repeated may still differ one day."""
    return getattr(problem.model, "noise_dimension", None) == 0


def least_queries(problem: Problem, core: CoreSet | None) -> int:
    """The fewest queries with which every part of the certificate has samples; a useful gap takes many more.

    A core set that is too large for an upper bound is not sampled; each pair of a deterministic simulator is, once.
    """
    m = 0 if core is None or no_upper(problem, core) else len(core)
    return _least(problem, m, says_deterministic(problem))


def _least(problem: Problem, m: int, deterministic: bool) -> int:
    rollouts = rollouts_at_least(problem.discount)
    return m + repeats_needed(m, False) + rollouts if deterministic and m else max(PER_PAIR * m, rollouts)


def rollouts_at_least(gamma: float) -> int:
    """The fewest queries that leave some rollouts for a lower bound."""
    return max(math.ceil(60 / (1 - gamma)), 1000)


def require_enough(problem: Problem, m: int, queries: int, deterministic: bool) -> None:
    """Raise InputError if the queries are too few for m core pairs, or for rollouts alone if m is 0."""
    least = _least(problem, m, deterministic=False)
    if deterministic:  # the few pairs of a small core set may cost less with noise than repeats do
        least = min(_least(problem, m, deterministic=True), least)
    if queries < least:
        noise = " of a simulator with noise" if m and not deterministic else ""
        who = f"{m:,} core pairs{noise} and the discount {{}} need" if m else "the discount {} needs"
        raise InputError(
            f"`certify(queries={queries})` is too few: {who.format(f'{problem.discount:g}')} at least {least:,}, and a "
            f"useful {'gap' if m else 'bound'} takes perhaps {20 * least:,}."
        )


def require_room(problem: Problem, basis: Basis, queries: int) -> None:
    """Raise InputError, before the first query, if the samples or the core set would not fit into memory."""
    f, rho = problem.features, len(basis.J)
    numbers = f.n_actions * (2 * f.nonzeros if f.nonzeros else f.dimension) + basis.states[0].size
    stored = min(queries, rho) if says_deterministic(problem) else queries
    samples = 8 * stored * (2 * numbers + 20 + (5 * rho if not basis.independent else 0))
    systems = 8 * rho * (6 * rho if rho <= _DENSE else _FILL) + (
        0 if basis.independent else 48 * basis.core.size
    )
    room = SHARE * available_memory()
    if systems > room:
        raise InputError(
            f"`certify` would solve systems for {rho:,} core pairs, which take about {systems / 1e9:.3g} GB; "
            f"{room / 1e9:.3g} GB may be used here. Give a smaller core set, or certify(core=None) on a problem without one "
            "for the lower bound alone. evaluate(problem, policy) stores nothing."
        )
    if systems + samples > room:
        raise InputError(
            f"`certify(queries={queries})` would store features of about {2 * stored:,} states, and with what is computed "
            f"from them {(systems + samples) / 1e9:.3g} GB; {room / 1e9:.3g} GB may be used here. Give fewer queries; "
            f"discount and core set need at least {max(PER_PAIR * rho, 1000):,}. evaluate(problem, policy) stores none."
        )
