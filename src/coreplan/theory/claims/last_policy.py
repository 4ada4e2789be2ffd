"""Our bounds on the last policy of CoreMirror, line by line on recorded runs; and instances that nearly reach each constant.

A bound that is far from everything measured could be wrong by any factor and would still hold. So the constants of (L1),
(L4), (D4), (M3) and (M4) are compared with instances that come near them, for several H, A, T and m.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...base import FloatArray
from ...core import CoreSet
from ...planners import CoreMirror, CoreSetup
from ...planning import plan
from ...problem import Problem, from_matrices, make
from ...run import NO_LIMIT, steps
from .. import last_policy as bounds
from ..mirror import expected_theta, mirror_bound, sweeps
from ..operators import occupancy, optimal, value
from ..rows import Row, above, at_most, equal, group
from ..tables import Enumerated

SETTINGS = ((0.5, 2, 1), (0.5, 64, 1), (0.95, 2, 1000), (0.95, 64, 1000))  # discount, A, m


@group(
    "core-mirror (L1)", "core-mirror (L3)", "core-mirror (L4)", "core-mirror (L5)",
    "core-mirror (D1)", "core-mirror (D2)", "core-mirror (D3)", "core-mirror (D4)", "core-mirror (D5)",
    "core-mirror (M3)", "core-mirror (M4)", "core-mirror (M5)",
    "last policy", "default schedule", "constant rate", "dependence",
)  # fmt: skip
def last_policy() -> Iterable[Row]:
    """What docs/core-mirror.md proves of the last policy, and how its bounds depend on H, A, T and m."""
    yield from _constant_rate()
    yield from _default()
    yield from _dependence()
    yield from _conclusion()


def _constant_rate() -> Iterable[Row]:
    problem, beta, T, H = make("random-linear:states=12,actions=3,d=4,discount=0.8"), 0.05, 150, 5.0
    e, run = Enumerated.of(problem), sweeps(problem, beta, T)
    Q = np.array([e.Phi @ theta for theta in run.thetas]).reshape(T + 1, e.X, e.A)  # Q_0..Q_T
    S = np.concatenate([np.zeros((1, e.X, e.A)), np.cumsum(Q, axis=0)])  # S_0..S_{T+1}
    W = log_mean_exp(S, beta)  # [T + 2, X]
    pi = np.array([e.softmax(Theta, beta) for Theta in run.Thetas])  # pi_1..pi_T
    V = (pi * Q[:-1]).sum(axis=2)  # [T, X]
    k = V - np.diff(W[: T + 1], axis=0)
    label = "core-mirror (L1)"
    yield at_most("constant rate: largest k_t", label, bounds.curvature(beta, H), k.max())
    yield at_most("constant rate: -k_t <= 0", label, 1e-12, (-k).max())
    backup = e.r + e.discount * np.array([e.P @ v for v in V])  # [T, Z]
    E = np.cumsum(Q[1:].reshape(T, -1) - backup, axis=0)
    q = optimal(e)[0].Q
    D = np.array([np.abs(S[t].ravel() - (t - 1) * q).max() for t in range(1, T + 2)])  # |D_1|..|D_{T+1}|
    t = np.arange(1, T + 1)
    most = e.discount * np.maximum(t * bounds.curvature(beta, H), math.log(e.A) / beta + H)
    allowed = e.discount * D[:-1] + most + np.abs(E).max(axis=1)
    yield at_most(
        "constant rate: largest |D_{t+1}| over what it may be",
        "core-mirror (L3)",
        1.0,
        (D[1:] / allowed).max(),
    )
    error = np.array([np.abs(S[s + 1].ravel() / s - q).max() for s in t[:-1]])
    gaps = np.array([value(e, optimal(e)[1]) - value(e, pi[s]) for s in t[:-1]])
    loss = gaps - 2 * error - math.log(e.A) / (beta * t[:-1])
    yield at_most(
        "constant rate: gap less twice the error and the softmax", "core-mirror (L5)", 0.0, loss.max()
    )


class Recorded(NamedTuple):
    """A run of the default: theta_0..theta_T, and the policy's vector and scale after them."""

    thetas: FloatArray  # [T + 1, d]
    mean: FloatArray  # [d]
    scale: float


def recorded(problem: Problem, T: int, seed: int = 0) -> Recorded:
    """Run the planner sweep by sweep."""
    thetas, step = [], None
    for step in itertools.islice(steps(problem, CoreMirror(), budget=NO_LIMIT, seed=seed), T + 1):
        thetas.append(step.state.theta.copy())
    assert step is not None
    return Recorded(np.array(thetas), step.state.mean.copy(), float(step.row["scale"]))


def _default() -> Iterable[Row]:
    problem, T, H = make("random-linear:states=12,actions=3,d=4,discount=0.8"), 150, 5.0
    e, run = Enumerated.of(problem), recorded(problem, T)
    t = np.arange(1, T + 1)
    Q = np.array([e.Phi @ theta for theta in run.thetas])  # Q_0..Q_T, [T + 1, Z]
    A = np.concatenate([np.zeros((1, e.Z)), np.cumsum(t[:, None] * Q[1:], axis=0)])  # A_1..A_{T+1}
    W, N = A.reshape(T + 1, e.X, e.A).max(axis=2), t * (t + 1) / 2  # W_1..W_{T+1}; N_2..N_{T+1}
    V = np.concatenate([np.zeros((1, e.X)), np.diff(W[:T], axis=0) / t[: T - 1, None]])  # V_1..V_T
    label = "core-mirror (D1)"
    worst = max(np.abs(mean_step(problem, run, s) - want(e, Q, V, s)).max() for s in (1, 2, 60))
    yield at_most(
        "default schedule: Phi E[theta_t] goes s_t of the way to r + gamma P V_t", label, 1e-9, worst
    )
    yield at_most(
        "default schedule: the planner's mean is A_{T+1} / N_{T+1}",
        label,
        1e-9,
        np.abs(e.Phi @ run.mean - A[T] / N[-1]).max(),
    )
    most = bounds.SHARPNESS * (T + 1) ** 2 / np.ptp(A[T].ravel()[e.rows] / N[-1])
    yield equal("default schedule: its scale", label, most, run.scale, 1e-6 * most)
    step = np.minimum(1.0, np.sqrt(H / t))[:, None]
    B = (
        Q[:-1] + np.diff(Q, axis=0) / step
    )  # the backups that were sampled: Q_t = Q_{t-1} + s_t (B_t - Q_{t-1})
    mean = e.r + e.discount * np.array([e.P @ v for v in V])
    E, left = np.cumsum(t[:, None] * (B - mean), axis=0), np.cumsum(t[:, None] * (Q[1:] - B), axis=0)
    late = np.array([s * bounds.lag(int(s), H) * H for s in t])
    yield at_most(
        "default schedule: what steps below 1 leave behind, over what they may",
        "core-mirror (D2)",
        1.0,
        (np.abs(left).max(axis=1)[8:] / late[8:]).max(),
    )
    p = weights_of_maxima(T)
    told = N[-1] * e.r + e.discount * (e.P @ (p @ W[1:T])) + E[-1] + left[-1]
    yield at_most(
        "default schedule: A_{T+1} from rewards, maxima, noise and steps",
        "core-mirror (D2)",
        1e-9 * T**2,
        np.abs(A[T] - told).max(),
    )
    q = optimal(e)[0].Q
    D = np.abs(A - np.append(0.0, N)[:, None] * q).max(axis=1)  # |D_1|..|D_{T+1}|
    allowed = [
        e.discount * (s / (s - 1) * D[s - 1] + H * s) + np.abs(E[s - 1]).max() + late[s - 1] for s in t[1:]
    ]
    yield at_most(
        "default schedule: largest |D_{t+1}| over what it may be",
        "core-mirror (D3)",
        1.0,
        (D[2:] / allowed).max(),
    )
    error = np.abs(A[T] / N[-1] - q).max()
    gap = value(e, optimal(e)[1]) - value(e, e.softmax(run.mean, run.scale))
    yield at_most(
        "default schedule: gap of the last policy",
        "core-mirror (D5)",
        2 * error + math.log(e.A) / run.scale,
        gap,
    )


def want(e: Enumerated, Q: FloatArray, V: FloatArray, t: int) -> FloatArray:
    """Q_{t-1} + s_t (r + gamma P V_t - Q_{t-1}), `[Z]`."""
    step = min(1.0, math.sqrt(1.0 / ((1.0 - e.discount) * t)))
    return np.asarray((1.0 - step) * Q[t - 1] + step * (e.r + e.discount * (e.P @ V[t - 1])))


def mean_step(problem: Problem, run: Recorded, t: int) -> FloatArray:
    """Phi E[theta_t | past] by the planner's own `tell`, to which every next state is given."""
    e = Enumerated.of(problem)
    planner = CoreMirror().resolve(CoreSetup.with_core(problem, CoreSet.of(problem), NO_LIMIT))
    k = np.arange(1, t)
    before = k @ run.thetas[1:t] / max(k.sum(), 1)
    return np.asarray(e.Phi @ expected_theta(problem, e, planner, run.thetas[t - 1], before, t))


def weights_of_maxima(T: int) -> FloatArray:
    """p_2..p_T with sum_t t V_t = sum_t p_t W_t: differences of t/(t-1), and T/(T-1) for the last."""
    t = np.arange(2.0, T + 1)
    p = 1.0 / (t * (t - 1))
    p[-1] = T / (T - 1)
    return p


def log_mean_exp(S: FloatArray, beta: float) -> FloatArray:
    """(1/beta) log mean_a e^{beta S} over the last axis."""
    top = S.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.exp(beta * (S - top)).mean(axis=-1)) / beta)


def _dependence() -> Iterable[Row]:
    """Instances that come near the constants, for several H, A, T and m: a wrong factor would be seen."""
    noise, weighted = zip(*(_noise(T, m) for T, m in ((400, 1), (400, 200), (1600, 200))), strict=True)
    for name, label, ratio in (
        ("sums of noise", "(L4)", noise),
        ("weighted sums of noise", "(D4)", weighted),
    ):
        what = f"dependence on T and m: {name}, 80% quantile over its bound"
        yield at_most(f"{what}, largest", f"core-mirror {label}", 1.0, max(ratio))
        yield above(f"{what}, smallest", f"core-mirror {label}", 0.6, min(ratio))
    apart = [_apart(*setting) for setting in SETTINGS]
    for i, (name, label) in enumerate(CONSTANTS):
        yield at_most(
            f"dependence on H, A, T, m: {name}, largest relative difference",
            f"core-mirror {label}",
            0.02,
            max(found[i] for found in apart),
        )


def _noise(T: int, m: int) -> tuple[float, float]:
    """The 80% quantile of the largest of m sums of T coins worth -1 or 1, over its bound; and with weights 1..T."""
    coins = np.random.default_rng(0).integers(0, 2, size=(4000 // m + 100, m, T), dtype=np.int8)
    walk = 2.0 * (coins - np.float32(0.5))  # in an interval of length H = 2
    found = []
    for weight, limit in (
        (1.0, bounds.deviation(T, m, 2.0, 0.2)),
        (np.arange(1, T + 1), bounds.weighted_deviation(T, m, 2.0, 0.2)),
    ):
        largest = np.abs(np.cumsum(walk * np.float32(weight), axis=2)).max(axis=(1, 2))
        found.append(float(np.quantile(largest, 0.8)) / limit)
    return found[0], found[1]


CONSTANTS = (
    ("policy part, one action pays", "(M3)"), ("change of occupancy in a sweep", "(M4)"),
    ("first part, one action pays", "(M4)"), ("error of backups", "(M5)"), ("largest k, two actions", "(L1)"),
    ("bound for a constant rate, few sweeps", "(L5)"), ("bound for a constant rate, many sweeps", "(L5)"),
    ("bound for the default schedule", "(D5)"),
)  # fmt: skip


def _apart(gamma: float, A: int, m: int) -> list[float]:
    """How far the bounds' terms are from what instances reach, relatively; in the order of `CONSTANTS`."""
    H, T, beta, delta = 1.0 / (1.0 - gamma), 100_000, 1e-3, 0.05
    given = mirror_bound(T=T, beta=beta, A=A, discount=gamma, bellman_error=0.1)
    k, doubt = largest_curvature(beta, H), math.log(2 * m / delta)
    few, many = (bounds.last_policy_bound(T=t, m=m, A=A, discount=gamma, beta=beta).total for t in (100, T))
    default = (
        2 * gamma * H**2 / T
        + 2 * H**1.5 / math.sqrt(T)
        - 2 * H**2 / T
        + H**2 * math.sqrt(2 * doubt / (3 * T))
    )
    pairs = [
        (T * given.policy_start, learned(A, H, beta)),
        (given.drift, 0.5 * H * change_of_policy(beta, H) * change_of_occupancy(gamma)),
        (T * given.start, first_part(gamma)),
        (given.bellman_error, weighed_error(gamma, 0.1)),
        (bounds.curvature(beta, H), k),
    ]
    for t, got in ((100, few), (T, many)):
        unknown = gamma * max(t * k, math.log(A) / beta + H) + H * math.sqrt(t * doubt / 2)
        pairs.append((got, (2 * H * unknown + math.log(A) / beta) / t))
    pairs.append((bounds.last_policy_bound(T=T, m=m, A=A, discount=gamma).error, default))
    return [abs(a - b) / abs(b) for a, b in pairs]


def learned(A: int, H: float, beta: float) -> float:
    """sum_t <pi* - pi_t, Q> for pi_t = softmax(beta (t - 1) Q), where Q is H for one action and 0 for A - 1."""
    t = np.arange(int(40 * (1 + math.log(A)) / (beta * H)) + 2)
    return float((H * (A - 1) / (np.exp(np.minimum(beta * H * t, 700.0)) + A - 1)).sum())


def change_of_policy(beta: float, H: float) -> float:
    """The largest |pi' - pi|_1 over two actions, if Q of span H is added to the sum."""
    x = np.linspace(-3.0, 3.0, 601)
    p, after = (1 / (1 + np.exp(-z)) for z in (x, x + beta * H))
    return float(2 * np.abs(after - p).max())


def change_of_occupancy(gamma: float) -> float:
    """|mu' - mu|_1 over |pi' - pi|_1 where a state is left for good by a rare action."""
    e = two_states(gamma)
    mus = [occupancy(e, np.array([[1 - p, p], [1.0, 0.0]])) for p in (0.0, 1e-6)]
    return float(np.abs(mus[1] - mus[0]).sum() / 2e-6)


def two_states(gamma: float) -> Enumerated:
    """Action 0 stays; action 1 goes to the second state, which is never left."""
    P = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    return Enumerated.of(from_matrices(P, np.eye(2), gamma, nu0=np.array([1.0, 0.0])))


def first_part(gamma: float) -> float:
    """<mu* - mu, Q> where one action has Q = H, and mu is that of a policy that never takes it."""
    e, H = two_states(gamma), 1.0 / (1.0 - gamma)
    mu = [occupancy(e, pi) for pi in (np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 1.0]]))]
    return float((mu[0] - mu[1]) @ np.array([H, 0.0, 0.0, 0.0]))


def weighed_error(gamma: float, error: float) -> float:
    """<mu' - mu, xi> where |xi| is the error and its sign that of mu' - mu, for policies that take no common pair."""
    e = two_states(gamma)
    mu = [occupancy(e, pi) for pi in (np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 1.0]]))]
    return float(error * np.abs(mu[0] - mu[1]).sum())


def largest_curvature(beta: float, H: float) -> float:
    """The largest <pi_t, Q> - (W_t - W_{t-1}) over two actions of which one has Q = H."""
    S = np.stack([np.linspace(-3.0, 3.0, 601) / beta, np.zeros(601)], axis=1)
    Q = np.array([H, 0.0])
    pi = np.exp(beta * (S - S.max(axis=1, keepdims=True)))
    pi /= pi.sum(axis=1, keepdims=True)
    return float((pi @ Q - (log_mean_exp(S, beta) - log_mean_exp(S - Q, beta))).max())


def _conclusion() -> Iterable[Row]:
    """200,000 sweeps of the default."""
    problem, T = make("random-linear:states=12,actions=3,d=4,discount=0.5"), 200_000
    e = Enumerated.of(problem)
    given = bounds.last_policy_bound(T=T, m=e.m, A=e.A, discount=e.discount)
    (_, q), best = optimal(e)
    run = plan(problem, planner=CoreMirror(), budget=T * e.m, seed=1, reality=0)
    error = np.abs(e.Phi @ run.policy.theta - q).max()
    yield at_most(
        "last policy, default schedule: error of the averaged Q", "core-mirror (D5)", given.error, error
    )
    gap = value(e, best) - value(e, e.softmax(run.policy.theta, run.policy.scale))
    yield at_most("last policy, default schedule: its gap", "core-mirror (D5)", given.total, gap)
    uniform = value(e, best) - value(e, np.full((e.X, e.A), 1 / e.A))
    yield above(
        "last policy: the uniform policy's gap exceeds the bound", "core-mirror (D5)", given.total, uniform
    )
