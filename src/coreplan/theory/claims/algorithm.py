"""Section 4: Algorithm 1 is what is printed, it returns pi_J with J uniform, and its cost per query."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...base import FloatArray
from ...core import CoreSet
from ...planners import CoreSetup, PrimalDual, primal_dual
from ...planning import plan
from ...problem import Problem, make
from ...run import NO_LIMIT, steps
from ..naive import algorithm_1
from ..recorded import record
from ..rows import Row, at_most, equal, group
from ..tables import Enumerated
from .instances import linear_instance, tiny_instance
from .regrets import regret_from_a_given_start


@group("alg:Main", "every iterate")
def naive_loop() -> Iterable[Row]:
    """Every iterate compared with the naive loop's: dense and sparse, with a ball that does not bind and one that does."""
    for kind, name in (("dense", "random-linear"), ("sparse", "river-swim")):
        worst = max(_largest_difference(make(name), D) for D in (12.0, 0.5))
        yield at_most(f"every iterate equals the naive loop's ({kind})", "alg:Main", 1e-9, worst)


@group("section 4", "eq:FTL", "a given pi_1")
def initial_policy() -> Iterable[Row]:
    """Section 4 with a given pi_1: pi_{t+1} is proportional to pi_1 exp(beta sum_{k<=t} Q_k), and so is what is returned."""
    problem, w = make("random-linear"), given_start(8)
    worst = _largest_difference(problem, 12.0, w)
    yield at_most("a given pi_1: every iterate equals the naive loop's", "section 4", 1e-9, worst)
    yield _from_given_start(linear_instance())
    yield from regret_from_a_given_start()


def given_start(d: int) -> FloatArray:
    """The w of some pi_1 = softmax(Phi w) that is far from uniform."""
    return 10.0 * np.random.default_rng(1).normal(size=d)


def _largest_difference(problem: Problem, D: float, w: FloatArray | None = None) -> float:
    """Between theta_t and lambda_{t+1} of the planner and of the naive loop, t = 1..40."""
    rates: dict[str, Any] = {"K": 7, "eta": 3e-3, "beta": 0.02, "alpha": 0.3, "D": D}
    want, worst = algorithm_1(problem, T=40, w=w, **rates), 0.0
    run = itertools.islice(steps(problem, PrimalDual(**rates, pi1=w), budget=NO_LIMIT), 1, None)
    for theta, lam, step in zip(want.thetas, want.lambdas, run, strict=False):
        here = np.exp(step.state.log_lam)
        worst = max(worst, np.abs(step.state.theta - theta).max(), np.abs(here / here.sum() - lam).max())
    return worst


@group("alg:Main", "thm:main", "the returned", "the planner's pi_1", "J is uniform")
def policy_read_out() -> Iterable[Row]:
    """The policy that a run returns is softmax(beta sum_{t<J} Phi theta_t) for the recorded iterates, J uniform on 1..T."""
    problem = linear_instance()
    e = Enumerated.of(problem)
    rates = PrimalDual(K=5, eta=0.01, beta=0.05, alpha=0.1, D=12.0)
    kept = record(problem, rates, T=50, seed=4)
    returned = plan(problem, planner=rates, budget=50 * 6, seed=4, reality=0).policy
    sums = kept.Thetas[0] + np.concatenate([np.zeros((1, e.d)), np.cumsum(kept.thetas, axis=0)])[:-1]
    distance = float(np.abs(sums - returned.theta).max(axis=1).min())  # from Theta_1..Theta_T
    yield at_most("the returned vector is some Theta_J, J in 1..T", "alg:Main", 1e-9, distance)
    gap = np.abs(returned.probabilities(e.table.states) - e.softmax(returned.theta, 0.05)).max()
    yield at_most("the returned policy is softmax(beta Phi Theta_J)", "alg:Main", 1e-12, float(gap))
    first = e.softmax(kept.Thetas[0], 0.05)
    yield equal("the planner's pi_1 is uniform", "thm:main", 1 / e.A, float(first.max()), 1e-15)
    yield at_most(
        "J is uniform on 1..T: P(J = t), largest error (exact)", "alg:Main", 1e-9, _j_error(tiny_instance())
    )


def _from_given_start(problem: Problem) -> Row:
    """The returned policy is pi_1 exp(beta sum_{k<J} Q_k), normalised, for some J."""
    e = Enumerated.of(problem)
    planner = PrimalDual(K=5, eta=0.01, beta=0.05, alpha=0.1, D=12.0, pi1=given_start(e.d))
    thetas = record(problem, planner, T=50, seed=4).thetas
    returned = plan(problem, planner=planner, budget=50 * 6, seed=4, reality=0).policy.probabilities(
        e.table.states
    )
    pi_1, best = e.softmax(given_start(e.d), 1.0), np.inf
    for J in range(1, 51):
        Q = (e.Phi @ thetas[: J - 1].sum(axis=0)).reshape(e.X, e.A)
        pi = pi_1 * np.exp(0.05 * Q)
        best = min(best, float(np.abs(pi / pi.sum(axis=1, keepdims=True) - returned).max()))
    return at_most(
        "a given pi_1: the returned policy is pi_1 exp(beta sum Q), normalised", "section 4", 1e-9, best
    )


def _j_error(problem: Problem, T: int = 6) -> float:
    """The largest |P(J = t) - 1/T|, from the planner's own `tell`.

    Iteration t keeps itself if the last of its uniforms is below a threshold, which bisection finds; so P(J = t) is
    the threshold of t times the product over s > t of 1 minus that of s.
    """
    setup = CoreSetup.with_core(problem, CoreSet.of(problem), NO_LIMIT)
    planner = PrimalDual(K=1, eta=0.01, beta=0.05, alpha=0.1, D=2.0).resolve(setup)
    thresholds = np.array([_threshold(planner, t) for t in range(1, T + 1)])
    stays = [float(np.prod(1 - thresholds[t + 1 :])) for t in range(T)]
    return float(np.abs(thresholds * stays - 1 / T).max())


def _threshold(planner: PrimalDual, t: int) -> float:
    """The uniform below which iteration t replaces the kept one."""
    low, high = 0.0, 1.0
    for _ in range(45):
        u = (low + high) / 2
        low, high = (u, high) if _replaces(planner, t, u) else (low, u)
    return high


def _replaces(planner: PrimalDual, t: int, u: float) -> bool:
    """Whether iteration t, with the uniform u, makes J = t."""
    state, setup = planner.init(np.random.default_rng(0)), planner.setup
    k = planner.kernels()
    state.counts[0], state.counts[1] = t - 1, 0
    phi = np.zeros((2, setup.n_actions, setup.dimension))
    k.tell(
        np.array([0.5, 0.5, u]), state, k.hyper, setup.core_features, np.zeros(2, dtype=np.int64), np.zeros(2),
        phi[:1], phi, k.scratch,
    )  # fmt: skip
    return int(state.counts[1]) == t


@group("thm:main", "computation")
def computation() -> Iterable[Row]:
    """After Theorem 1: work per query is that of sampling from softmax policies, O(A d), and O(log m) for lambda.

    Exponents fitted to the least processor time of several calls of the compiled update itself, with one size growing
    sixteenfold.
    """
    for name, limit in (("A", 1.1), ("d", 1.1), ("m", 0.12)):
        sizes = {"A": 8, "d": 16, "m": 16}
        times = [_seconds({**sizes, name: sizes[name] * k}) for k in (1, 16)]
        exponent = float(np.log(times[1] / times[0]) / np.log(16))
        yield at_most(f"computation per query grows with {name} to the power", "thm:main", limit, exponent)


def _seconds(sizes: dict[str, int], K: int = 200, calls: int = 30) -> float:
    """The least processor time of one compiled outer iteration at random dense features."""
    A, d, m = sizes["A"], sizes["d"], sizes["m"]
    kernels, rng = primal_dual.planner.kernels, np.random.default_rng(0)
    hyper = kernels.Hyper(K=K, eta=1e-3, beta=0.1, alpha=0.01, D=5.0, gamma=0.9)
    log_lam, tree = np.zeros(m), np.empty(2 * 2 ** int(np.ceil(np.log2(m))))
    kernels.build_tree(log_lam, tree)
    state = kernels.State(
        theta=np.zeros(d), Theta=np.zeros(d), Theta_J=np.zeros(d), log_lam=log_lam, tree=tree,
        counts=np.zeros(2, dtype=np.int64), td=np.zeros(2),
    )  # fmt: skip
    scratch = kernels.Scratch(np.empty(A), np.empty(d), np.empty(d))
    phi0, phi = rng.random((K, A, d)), rng.random((K + 1, A, d))
    core, j, r = rng.random((m, d)), np.zeros(K + 1, dtype=np.int64), rng.random(K + 1)
    u, v, least = rng.random(K + 1), rng.random(2 * K + 1), np.inf
    for _ in range(calls):
        begin = time.thread_time()
        kernels.ask(u, state, hyper, j)
        kernels.tell(v, state, hyper, core, j, r, phi0, phi, scratch)
        least = min(least, time.thread_time() - begin)
    return least
