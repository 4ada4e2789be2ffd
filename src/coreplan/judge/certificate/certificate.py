"""`certify`: an interval that contains the policy's value and the optimum, from simulator queries alone.

lower <= v_pi needs no assumption. v* <= upper needs a linear MDP and an exact core set; how far these could be verified
is part of the certificate. Where there is no core set, there is the lower bound only. docs/certificate.md has the
derivation.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base import (
    SHARE,
    FloatArray,
    InputError,
    Lane,
    as_array,
    as_count,
    as_generator,
    available_memory,
    checks,
    html,
    key_of,
    known,
    one_thread,
)
from ...core import CoreSet
from ...features import fingerprint
from ...plots import draw_bounds
from ...policy import SoftmaxPolicy, policy_of, with_own_features
from ...problem import Problem
from ...sampled import Transitions
from ...simulate import Simulator, by_executor, by_log
from ..value import Evaluation, as_confidence, evaluate
from .alone import fit_on_rollouts
from .condition import Condition, check_condition
from .first_half import Basis, Means, PolicyValues
from .lower import lower_bound
from .upper import Rule, make_rule, upper_bound

_FIRST, _SECOND, _ROLLOUTS = 0.22, 0.36, 0.36  # fractions of the queries; the rest checks the condition
_FIT = 0.15  # of the queries where there is no core set: rollouts on which values are fitted; the others give the bound
_HEAVY = (0.0, 0.05, 2.0)  # thresholds: which pairs a rule treats to second order: all, heavy ones, none
_LARGEST = 5000  # the most core pairs or features
_RANGE = "lower: rewards lie in the declared range, which was checked for every query; nothing else"
_FEW = 100  # pairs; with more, second order has never been better, and it is slow


@dataclass(frozen=True)
class Certificate:
    """With probability `confidence`: lower <= v_pi, and v* <= upper if what it `assumes` is true.

    `holds` tells whether the assumptions were found true as far as they could be checked. False means that `upper` is no
    bound, and `gap` is None; True means that no violation was found. Misspecification of up to `condition.unseen` may have
    gone unnoticed: `upper` does not cover it, `gap` does. Values are normalised, in [0, 1].

    Where there is no core set, or one too large, only `lower` is known: `upper`, `holds`, `condition` and `gap` are None,
    and the last of `assumes` says why.
    """

    lower: float
    upper: float | None
    confidence: float
    assumes: tuple[str, ...]
    holds: bool | None
    queries: int
    initial_draws: int
    condition: Condition | None
    exact: Evaluation | None = None  # if the problem can be enumerated

    @property
    def gap(self) -> float | None:
        """The policy is at most this much worse than the optimum; None if the condition does not hold or is not known.

        It is upper + unseen - lower: it allows for what the check of the condition could have missed. No value exceeds 1.
        """
        if not self.holds or self.upper is None or self.condition is None:
            return None
        return min(self.upper + self.condition.unseen, 1.0) - self.lower

    @property
    def sentence(self) -> str:
        """The certificate in words."""
        if self.upper is None or self.condition is None:
            return (
                f"With confidence {self.confidence:g} the policy's value is at least {self.lower:.6f}. The optimum is not "
                f"bounded: {self.assumes[-1]}."
            )
        if self.gap is not None:
            return (
                f"With confidence {self.confidence:g} the policy is within {self.gap:.6f} of the optimum: its value is at "
                f"least {self.lower:.6f}, and the optimum at most {self.upper:.6f} if the assumptions are true. No "
                f"violation was found; residuals of up to {self.condition.unseen:.2g} could pass unseen, which the "
                f"{self.gap:.6f} allow for."
            )
        return (
            f"No certificate: the condition does not hold, so {self.upper:.6f} is no bound on the optimum. The policy's "
            f"value is nevertheless at least {self.lower:.6f}, with confidence {self.confidence:g}."
        )

    @property
    def rows(self) -> list[tuple[str, str]]:
        """What a table shows: both bounds, the gap, the exact values where they are known, and what is assumed."""
        doubt = " not proved" if self.holds is False else ""
        rows = [
            ("lower <= value", known(self.lower)),
            ("optimum <= upper", known(self.upper) + doubt),
            ("gap at most", known(self.gap)),
        ]
        if self.exact is not None:
            rows += [
                ("exact value, optimum", f"{known(self.exact.value)}, {known(self.exact.optimum)}"),
                ("exact gap", known(self.exact.gap)),
            ]
        return rows + [("assumes", text) for text in self.assumes]

    @property
    def title(self) -> str:
        return f"certificate, {self.queries:,} queries, confidence {self.confidence:g}"

    def _repr_html_(self) -> str:
        """How a notebook shows it: the table of `coreplan certify`."""
        return html.block(html.table(self.rows, title=self.title), self.sentence)

    def plot(self, *, ax: Any = None) -> Any:
        """A figure of both bounds, by Matplotlib (the extra `plot`), with value and optimum where they are exact.

        `ax` are axes of your own; by default a new figure, one column of a paper wide. Returns the figure.
        """
        exact = {} if self.exact is None else {"value": self.exact.value, "optimum": self.exact.optimum}
        return draw_bounds(
            "Certificate.plot",
            self.lower,
            self.upper,
            proved=self.holds is not False,
            points={name: value for name, value in exact.items() if value is not None},
            label="normalised value",
            ax=ax,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
        record = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        record |= {
            "assumes": list(self.assumes),
            "condition": None if self.condition is None else dataclasses.asdict(self.condition),
            "gap": self.gap,
        }
        record["exact"] = None if self.exact is None else self.exact.as_dict()
        return record

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Certificate:
        """The inverse of `as_dict`."""
        fields = checks.plain(cls, record)
        exact, condition = record["exact"], record["condition"]
        fields |= {
            "assumes": checks.texts(record, "assumes"),
            "condition": None
            if condition is None
            else Condition(**checks.plain(Condition, condition, finite=False)),
        }
        return cls(**{**fields, "exact": None if exact is None else Evaluation.from_dict(exact)})


@one_thread
@by_executor
@by_log
def certify(
    problem: Problem,
    core: CoreSet | None,
    policy: SoftmaxPolicy,
    theta: FloatArray | None = None,
    *,
    queries: int = 50_000,
    confidence: float = 0.95,
    seed: int | np.random.Generator = 0,
    executor: Any = None,
    log: Any = None,
) -> Certificate:
    """A bound on how far a policy is from optimal, from fresh queries.

    Parameters
    ----------
    core: the core set; None for the problem's own. Where there is none either, or more than 5,000 pairs or features, only
        the policy's value is bounded, from below, and all queries and all of the risk go to that bound.
    policy: the policy, or the plan that found it.
    theta: `[d]`, used as it is for the upper bound. By default it is fitted on the first half of the core samples so that
        the confidence bound is small, and the bound is computed on the second half. A theta of your own is rarely better.
    queries: in total; each simulated pair counts. The gap shrinks like 1/sqrt(queries).
    confidence: of both bounds together: each has half of the risk.
    executor: who simulates: "processes", an engine of `coreplan.executors`, or any `concurrent.futures.Executor`; by default
        this process. The answer is the same to the last bit (docs/scale.md).
    log: a file that keeps every paid answer, and from which none that it has is paid for again (docs/scale.md).

    The core samples go to the pairs that matter. The lower bound takes about a third of the queries; its rollouts
    use fitted values of the policy only to reduce variance. Bounds are wide if rewards or values have rare large jumps:
    no method can exclude what it has not sampled.
    """
    policy = policy_of("certify", policy)
    problem = with_own_features(problem, policy)
    core = _checked(problem, core, policy)
    theta = None if theta is None else _as_theta(theta, problem.features.dimension)
    budget, confidence = as_count("certify", queries=queries), as_confidence("certify", confidence)
    rng, why = as_generator(seed), _no_upper(problem, core)
    if core is None or why:
        if theta is not None:
            raise InputError(
                f"`certify(theta=...)` is for an upper bound, which cannot be had: {why}. Leave it out."
            )
        return _below(problem, policy, budget, confidence, why, seed)
    gamma, alpha = problem.discount, (1 - confidence) / 2
    simulator = Simulator(problem, core, key_of(seed), lane=Lane.CERTIFICATE)
    basis = Basis.of(problem, core)
    rho = len(basis.actions)
    _enough(budget, rho, gamma)
    _fits(problem, basis, budget)
    first = basis.draw(simulator, np.arange(int(_FIRST * budget)) % rho)
    n = int(_SECOND * budget)
    rule = _best_rule(basis, first, n, gamma, alpha, theta)
    second = basis.draw(simulator, rng.choice(rho, size=n, p=rule.p))
    upper = upper_bound(basis, rule, second, gamma).bound
    values = PolicyValues.of(basis, first, gamma, policy)
    lower = lower_bound(simulator, policy, values, int(_ROLLOUTS * budget), alpha, rng)
    met = np.concatenate([first.initial[:200], first.states[-2000:], second.states[:2000], lower.visited])
    left = budget - simulator.queries
    condition = check_condition(simulator, basis, rule.fit.theta, second, met, left, rng)
    upper = min(upper + condition.excess, 1.0)
    return Certificate(
        lower=lower.bound, upper=upper, confidence=confidence, assumes=_assumptions(condition, lower.bound, upper),
        holds=condition.holds and lower.bound <= upper,
        queries=simulator.queries, initial_draws=simulator.initial_draws, condition=condition,
        exact=_exact(problem, policy),
    )  # fmt: skip


def _below(
    problem: Problem, policy: SoftmaxPolicy, queries: int, confidence: float, why: str, seed: int | np.random.Generator
) -> Certificate:  # fmt: skip
    """The certificate with the lower bound alone; `why` says why there is no upper one."""
    _enough(queries, 0, problem.discount)
    rng, simulator = as_generator(seed), Simulator(problem, seed=key_of(seed), lane=Lane.CERTIFICATE)
    values = fit_on_rollouts(simulator, policy, int(_FIT * queries), rng)
    lower = lower_bound(simulator, policy, values, queries - simulator.queries, 1 - confidence, rng)
    return Certificate(
        lower=lower.bound, upper=None, confidence=confidence, assumes=(_RANGE, why), holds=None,
        queries=simulator.queries, initial_draws=simulator.initial_draws, condition=None, exact=_exact(problem, policy),
    )  # fmt: skip


def _exact(problem: Problem, policy: SoftmaxPolicy) -> Evaluation | None:
    return evaluate(problem, policy) if problem.tabular is not None else None


def _best_rule(
    basis: Basis, first: Transitions, n: int, gamma: float, alpha: float, theta: FloatArray | None
) -> Rule:
    """The rule for the second half: the kind that does best when made from one half of `first` and tried on the other."""
    rho, means = len(basis.actions), Means(basis, first, gamma)
    full = means.fit(means.optimise() if theta is None else theta)
    if rho > _FEW:
        return make_rule(means, full, n, means.count.min(), gamma, alpha, _HEAVY[-1], theta is None)
    odd = np.arange(len(first)) // rho % 2 == 1  # whole rounds, so that both halves have all pairs
    fitted, held_out = Means(basis, first.take(~odd), gamma), first.take(odd)
    even = np.bincount(held_out.pair, minlength=rho) / len(held_out)
    start = fitted.fit(fitted.optimise() if theta is None else theta)
    bounds = []
    for heavy in _HEAVY:
        rule = make_rule(
            fitted, start, len(held_out), fitted.count.min(), gamma, alpha, heavy, theta is None, even
        )
        bounds.append(upper_bound(basis, rule, held_out, gamma).bound)
    heavy = _HEAVY[int(np.argmin(bounds))]
    return make_rule(means, full, n, means.count.min(), gamma, alpha, heavy, theta is None)


def _assumptions(c: Condition, lower: float, upper: float) -> tuple[str, ...]:
    hull = f"largest distance {c.hull_error:.3g} on {c.hull_pairs:,} reachable pairs"
    linear = (
        f"largest residual {c.violation:.3g}, where noise may cause {c.noise:.3g}, on {c.fresh} fresh pairs"
    )
    if c.excess:
        linear += f"; upper is raised by {c.excess:.3g}, the most that residuals may be there, assuming that none is larger"
    else:
        linear += (
            f"; up to {c.unseen:.3g} would have passed unseen there: the gap contains it, upper does not"
        )
    crossed = (
        f"upper {upper:.6f} is below lower {lower:.6f}: an assumption is false, or the samples were unlucky",
    )
    return (
        _RANGE,
        f"upper, the core is exact (each reachable feature vector is a convex combination of the core's): {hull}",
        f"upper, the MDP is linear in the features (r + gamma P V is, at reachable pairs): {linear}",
        *(crossed if upper < lower else ()),
    )


def _checked(problem: Any, core: Any, policy: Any) -> CoreSet | None:
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


def _as_theta(theta: Any, d: int) -> FloatArray:
    form = f"{d} finite numbers, or left out to be fitted"
    numbers = as_array("certify", form, theta=theta).astype(np.float64)
    if numbers.shape != (d,):
        raise InputError(f"`certify(theta=...)` must be {form}; got shape {numbers.shape}.")
    return numbers


def _no_upper(problem: Problem, core: CoreSet | None) -> str:
    """Why there is no upper bound; empty if there is one."""
    if core is None:
        return f"'{problem.name}' has no core set, which an upper bound needs; coreplan.core.select can choose one"
    d = problem.features.dimension
    if max(len(core), d) > _LARGEST:
        return (
            f"it takes dense systems of the core's size, and at most {_LARGEST:,} fit; there are {len(core):,} core pairs "
            f"and {d:,} features"
        )
    return ""


def least_queries(rho: int, gamma: float) -> int:
    """The fewest queries with which every part of the certificate has samples; a useful gap takes many more.

    A core set that is too large for an upper bound is not sampled.
    """
    return max(60 * rho if rho <= _LARGEST else 0, math.ceil(60 / (1 - gamma)), 1000)


def _enough(queries: int, rho: int, gamma: float) -> None:
    least = least_queries(rho, gamma)
    if queries < least:
        who = (
            f"{rho} independent core pairs and the discount {gamma:g} need"
            if rho
            else f"the discount {gamma:g} needs"
        )
        raise InputError(
            f"`certify(queries={queries})` is too few: {who} at least {least:,}, and a useful "
            f"{'gap' if rho else 'bound'} takes perhaps {20 * least:,}."
        )


def _fits(problem: Problem, basis: Basis, queries: int) -> None:
    """Raise InputError, before the first query, if the samples would not fit into memory."""
    f = problem.features
    numbers = f.n_actions * (2 * f.nonzeros if f.nonzeros else f.dimension) + basis.states[0].size
    rho = len(basis.actions)
    steps = 5 * rho if rho <= _FEW else 0  # numbers per sample for the second-order terms
    row = 8 * (2 * numbers + 4)  # a next state and an initial state
    needed = row * queries + 8 * (steps + 16) * _SECOND * queries + 48 * basis.core.size
    room = SHARE * available_memory()
    if needed > room:
        raise InputError(
            f"`certify(queries={queries})` would store features of about {2 * queries:,} states, and with what is computed "
            f"from them {needed / 1e9:.3g} GB; {room / 1e9:.3g} GB may be used here. Give fewer queries; discount and core "
            f"set need at least {least_queries(rho, problem.discount):,}. evaluate(problem, policy) stores none."
        )
