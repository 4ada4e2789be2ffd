"""The bound on CoreMirror with a constant rate, and the rows of `verify` that test its proof line by line.

docs/core-mirror.md has the derivation; the labels (M1) to (M5) are from there. Units: gaps and the bound are in normalised
returns, Q is not normalised (up to H = 1/(1 - gamma)).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..base import FloatArray, as_count, as_number, as_positive, several
from ..core import CoreSet
from ..features import checked
from ..planners import CoreMirror, CoreSetup
from ..planning import plan
from ..problem import Problem, make
from ..run import NO_LIMIT, steps
from ..simulate import Answers, Ask
from .operators import occupancy, optimal, state_occupancy, value
from .rows import Row, above, at_most, equal, group
from .tables import Enumerated


@dataclass(frozen=True)
class MirrorBound:
    """The bound on the mean over t = 1..T of E[v* - v_pi_t], term by term."""

    start: float  # H / T
    policy_start: float  # log A / (beta T)
    drift: float  # beta H^3 / 4
    bellman_error: float = 0.0  # 2 eps, eps being the largest distance of a backup from its linear version

    @property
    def total(self) -> float:
        return self.start + self.policy_start + self.drift + self.bellman_error


def mirror_bound(*, T: int, beta: float, A: int, discount: float, bellman_error: float = 0.0) -> MirrorBound:
    """The bound for T sweeps of `CoreMirror(beta=beta)`; it holds for pi_J with J uniform on 1..T (`output="random"`).

    `bellman_error` is the eps of (M5), which is 0 for a linear MDP.
    """
    T, A = several(as_count, "mirror_bound", T=T, A=A)
    beta, H = as_positive("mirror_bound", beta=beta), _horizon("mirror_bound", discount)
    least = "a finite number of at least 0"
    bellman_error = as_number("mirror_bound", least, lambda e: e >= 0.0, bellman_error=bellman_error)
    return MirrorBound(H / T, math.log(A) / (beta * T), beta * H**3 / 4, 2 * bellman_error)


def best_beta(*, T: int, A: int, discount: float) -> float:
    """The beta that minimises the bound: 2 sqrt(log A / (T H^3)), which makes it H/T + sqrt(H^3 log A / T)."""
    T, A = several(as_count, "best_beta", T=T, A=A)
    H = _horizon("best_beta", discount)
    return 2 * math.sqrt(math.log(max(A, 2)) / (T * H**3))  # with one action any rate will do


def mirror_queries(epsilon: float, *, m: int, A: int, discount: float) -> int:
    """The number of queries after which the bound, at the best beta, is at most epsilon: O(m H^3 log A / epsilon^2)."""
    m, A = several(as_count, "mirror_queries", m=m, A=A)
    epsilon = as_positive("mirror_queries", epsilon=epsilon)
    H = _horizon("mirror_queries", discount)
    c = math.sqrt(H**3 * math.log(max(A, 2)))
    root = (c + math.sqrt(c * c + 4 * epsilon * H)) / (2 * epsilon)  # epsilon T - c sqrt(T) - H = 0
    return m * math.ceil(root**2)


def _horizon(owner: str, discount: float) -> float:
    gamma = as_number(owner, "a number from 0 to below 1", lambda g: 0.0 <= g < 1.0, discount=discount)
    return float(1.0 / (1.0 - gamma))


class Sweeps(NamedTuple):
    """A recorded run: theta_0..theta_T, and Theta_1..Theta_T with pi_t = softmax(beta Phi Theta_t)."""

    thetas: FloatArray  # [T + 1, d]
    Thetas: FloatArray  # [T, d]


def sweeps(problem: Problem, beta: float, T: int, seed: int = 0) -> Sweeps:
    """Run the planner sweep by sweep and record its iterates."""
    run = [
        (step.state.theta.copy(), step.state.mean.copy())
        for step in itertools.islice(steps(problem, CoreMirror(beta=beta), budget=NO_LIMIT, seed=seed), T + 1)
    ]
    return Sweeps(np.array([theta for theta, _ in run]), np.array([mean for _, mean in run[:-1]]))


class Parts(NamedTuple):
    """Per sweep t: gap_t = bellman_t + policy_t (M1), and bellman_t = move_t - noise_t (M2)."""

    gap: FloatArray  # [T] v* - v_pi_t
    policy: FloatArray  # [T] sum_x nu*(x) <pi* - pi_t, Q_{t-1}>
    bellman: FloatArray  # [T] <mu* - mu_t, T^pi_t Q_{t-1} - Q_{t-1}>
    move: FloatArray  # [T] <mu* - mu_t, Q_t - Q_{t-1}>
    noise: FloatArray  # [T] <mu* - mu_t, Q_t - T^pi_t Q_{t-1}>
    drift: FloatArray  # [T - 1] <mu_{t+1} - mu_t, Q_t>
    Q: FloatArray  # [T + 1, Z]


def parts(e: Enumerated, run: Sweeps, beta: float) -> Parts:
    """Every quantity in the proof, computed exactly on an enumerated problem."""
    _, best = optimal(e)
    mu_star, nu_star, v_star = occupancy(e, best), state_occupancy(e, best), value(e, best)
    Q = np.array([e.Phi @ theta for theta in run.thetas])
    out, mus = [], []
    for t, Theta in enumerate(run.Thetas, start=1):
        pi = e.softmax(Theta, beta)
        mu = occupancy(e, pi)
        backup = e.r + e.discount * (e.P @ (e.M(pi) @ Q[t - 1]))
        policy = float(nu_star @ ((best - pi) * Q[t - 1].reshape(e.X, e.A)).sum(axis=1))
        d = mu_star - mu
        out.append(
            (
                v_star - value(e, pi),
                policy,
                d @ (backup - Q[t - 1]),
                d @ (Q[t] - Q[t - 1]),
                d @ (Q[t] - backup),
            )
        )
        mus.append(mu)
    drift = np.array([(mus[t] - mus[t - 1]) @ Q[t] for t in range(1, len(mus))])
    gap, policies, bellman, move, noise = np.array(out, dtype=float).T
    return Parts(gap=gap, policy=policies, bellman=bellman, move=move, noise=noise, drift=drift, Q=Q)


def mean_backup(problem: Problem, run: Sweeps, beta: float, t: int) -> tuple[FloatArray, FloatArray]:
    """(Phi E[theta_t | past], T^pi_t Q_{t-1}), both `[Z]`; every next state is given to the planner's own `tell`."""
    e, core = Enumerated.of(problem), CoreSet.of(problem)
    planner = CoreMirror(beta=beta).resolve(CoreSetup.with_core(problem, core, NO_LIMIT))
    mean = expected_theta(problem, e, planner, run.thetas[t - 1], run.Thetas[t - 1], t)
    pi = e.softmax(run.Thetas[t - 1], beta)
    return e.Phi @ mean, e.r + e.discount * (e.P @ (e.M(pi) @ (e.Phi @ run.thetas[t - 1])))


def expected_theta(
    problem: Problem, e: Enumerated, planner: CoreMirror, theta: FloatArray, mean: FloatArray, t: int
) -> FloatArray:
    """E[theta_t] `[d]` given theta_{t-1} and the planner's `mean`, for core features that are unit vectors."""
    table, rng = problem.tabular(), np.random.default_rng(0)  # type: ignore[misc]
    rows, expected = np.arange(e.m), np.zeros(e.m)
    P, r = np.asarray(e.P[e.rows]), e.r[e.rows]
    for x in range(e.X):  # all core pairs lead to x at once: q_j depends only on the next state of pair j
        state = planner.init(rng)
        state.theta[:], state.mean[:] = theta, mean
        state.sweeps[0] = t - 1
        states = np.repeat(table.states[x : x + 1], e.m, axis=0)
        phi = checked(problem.features, states)
        answers = Answers(
            ask=Ask(core_index=rows),
            rewards=r,
            next_states=states,
            next_features=phi,
            initial_features=checked(problem.features, states[:1]),
        )
        expected += P[:, x] * planner.tell(state, answers, rng).theta  # theta_j belongs to pair j
    return expected


@group(
    "core-mirror (M1)", "core-mirror (M2)", "core-mirror (M3)", "core-mirror (M4)", "core-mirror (M5)",
    "gap", "pi_t", "Phi E[theta_t]", "Q_t", "-Q_t", "sum of", "largest change", "... and it is", "the uniform policy",
    "seed-averaged mean gap",
)  # fmt: skip
def core_mirror() -> Iterable[Row]:
    """The derivation of docs/core-mirror.md, line by line on a recorded run; then its conclusion where it is not vacuous."""
    problem, beta, T = make("random-linear:states=12,actions=3,d=4,discount=0.8"), 0.05, 150
    e, H = Enumerated.of(problem), 5.0
    run = sweeps(problem, beta, T)
    p = parts(e, run, beta)
    label = "core-mirror (M1)"
    yield at_most(
        "gap = Bellman part + policy part, largest difference over t",
        label,
        1e-9,
        np.abs(p.gap - p.bellman - p.policy).max(),
    )
    sums = np.cumsum(run.thetas[:-1], axis=0)
    yield at_most(
        "pi_t is the softmax of beta (theta_0 + ... + theta_{t-1})",
        label,
        1e-9,
        np.abs(sums - run.Thetas).max(),
    )
    worst = max(float(np.abs(np.subtract(*mean_backup(problem, run, beta, t))).max()) for t in (1, 2, 60))
    yield at_most(
        "Phi E[theta_t] = T^pi_t Q_{t-1} (all outcomes enumerated)", "core-mirror (M2)", 1e-9, worst
    )
    yield at_most("Q_t <= H", "core-mirror (M2)", H * (1 + 1e-12), p.Q.max())
    yield at_most("-Q_t <= 0", "core-mirror (M2)", 1e-12, (-p.Q).max())
    yield at_most("sum of the policy parts", "core-mirror (M3)", math.log(e.A) / beta, p.policy.sum())
    yield at_most(
        "largest change of occupancy against Q_t in a sweep",
        "core-mirror (M4)",
        beta * H**3 / 4,
        p.drift.max(),
    )
    yield at_most(
        "sum of <mu* - mu_t, Q_t - Q_{t-1}>", "core-mirror (M4)", H + (T - 1) * beta * H**3 / 4, p.move.sum()
    )
    rest = (p.Q[-1] - p.Q[0]) @ occupancy(e, optimal(e)[1]) - p.Q[-1] @ occupancy(
        e, e.softmax(run.Thetas[-1], beta)
    )
    yield equal(
        "... and it is the end of the sum by parts plus the changes",
        "core-mirror (M4)",
        rest + p.drift.sum(),
        p.move.sum(),
        1e-9,
    )
    yield from _conclusion()


def _conclusion() -> Iterable[Row]:
    """30,000 sweeps with the best beta, 2 seeds; the mean over about 200 recorded t stands for the mean over all t."""

    problem, T = make("random-linear:states=12,actions=3,d=4,discount=0.5"), 30_000
    e = Enumerated.of(problem)
    beta = best_beta(T=T, A=e.A, discount=e.discount)
    limit = mirror_bound(T=T, beta=beta, A=e.A, discount=e.discount).total
    best, uniform = value(e, optimal(e)[1]), value(e, np.full((e.X, e.A), 1 / e.A))
    yield above(
        "the uniform policy's gap exceeds the bound: it is not vacuous",
        "core-mirror (M5)",
        limit,
        best - uniform,
    )
    planner = CoreMirror(beta=beta)
    gaps = [
        best - plan(problem, planner=planner, budget=T * e.m, seed=s, reality=0).trace["value"]
        for s in range(2)
    ]
    yield at_most("seed-averaged mean gap of pi_1..pi_T", "core-mirror (M5)", limit, float(np.mean(gaps)))
