"""`verify`: every claim of the paper, tested on small instances; each row is a number against its bound."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from scipy.optimize import linprog

from ..base import FloatArray, InputError, nearest
from ..features import one_hot, table_features
from ..planners import PrimalDual, best_rates, primal_dual
from ..planning import plan
from ..problem import Problem, Tabular, make, tabular_model
from ..run import NO_LIMIT, steps
from .definitions import as_dense, inherent_bellman_error, linear_fit
from .estimators import lambda_moments, point, theta_moments, theta_outcomes
from .lp import PAIRS, solve
from .mirror import core_mirror
from .naive import algorithm_1
from .operators import compose, gradients, optimal, state_measure, value
from .recorded import duality_gap, record
from .rows import Group, Row, group
from .rows import above as _above
from .rows import at_most as _at_most
from .rows import equal as _equal
from .tables import Enumerated
from .theorem import bound

# Instances.


def linear_instance() -> Problem:
    """A linear MDP with an exact core set: 36 pairs, d = m = 4, nu0 with full support."""
    return make("random-linear:states=12,actions=3,d=4,discount=0.8")


def tiny_instance() -> Problem:
    """A linear MDP with two core pairs, so small that all outcomes of two inner steps can be enumerated."""
    return make("random-linear:states=3,actions=2,d=2,discount=0.7")


def misspecified_instance() -> Problem:
    """Random P and r, three features that explain neither, an incomplete core set: every error is positive."""
    rng = np.random.default_rng(12)
    X, A, d = 8, 2, 3
    table = Tabular(
        np.arange(X), rng.random((X, A)), np.full(X, 1 / X), P=rng.dirichlet(np.full(X, 0.5), size=X * A)
    )
    phi = rng.dirichlet(np.ones(d), size=(X, A))
    core = (np.array([0, 3, 5, 6]), np.array([0, 1, 0, 1]))
    return Problem(
        tabular_model(table), table_features(phi, d, 1.0), 0.7, core_pairs=core, name="misspecified",
        tabular=lambda: table,
    )  # fmt: skip


def nearly_linear_instance() -> Problem:
    """The linear instance with P, r and features slightly perturbed: every error is positive, but small."""
    base = linear_instance()
    table = base.tabular()  # type: ignore[misc]
    X, A, rng = table.n_states, table.n_actions, np.random.default_rng(8)
    Phi, W = table.factors  # type: ignore[misc]
    P = 0.99 * (Phi @ W) + 0.01 * rng.dirichlet(np.full(X, 0.3), size=X * A)
    r = 0.99 * table.r + 0.01 * rng.random((X, A))
    phi = 0.999 * Phi.reshape(X, A, -1) + 0.001 * rng.dirichlet(np.ones(Phi.shape[1]), size=(X, A))
    off = Tabular(table.states, r, table.nu0, P=P)
    return Problem(
        tabular_model(off), table_features(phi, Phi.shape[1], 1.0), base.discount, core_pairs=base.core_pairs,
        name="nearly linear", tabular=lambda: off,
    )  # fmt: skip


def theorem_instance() -> Problem:
    """m = 2 and a short horizon, so that Theorem 1's bound is below 1: one state, action 1 pays 1, action 0 pays 0."""
    table = Tabular(np.zeros(1, dtype=np.int64), np.array([[0.0, 1.0]]), np.ones(1), P=np.ones((2, 1)))
    return Problem(
        tabular_model(table), one_hot(1, 2), 0.1, core_pairs=(np.zeros(2, dtype=np.int64), np.arange(2)),
        name="theorem", tabular=lambda: table,
    )  # fmt: skip


# The claims, in the paper's order.


@group(
    "eq:LP_primal", "eq:Q-ALP", "eq:QRALP-primal", "eq:QRALP-dual", "app:linMDP-realizability",
    "strong duality", "the classic LP", "the relaxed LP", "the core LP", "V of the", "one backup", "theta of the dual",
)  # fmt: skip
def lp_pairs() -> Iterable[Row]:
    e = Enumerated.of(linear_instance())
    values, _ = optimal(e)
    best = (1 - e.discount) * float(e.nu0 @ values.V)
    labels = {"classic": "eq:LP_primal", "relaxed": "eq:Q-ALP", "core": "eq:QRALP-primal, eq:QRALP-dual"}
    for which in PAIRS:
        primal, dual = solve(e, which, "primal"), solve(e, which, "dual")
        yield _equal(
            f"strong duality of the {which} LPs", labels[which], dual.value, primal.primal_value, 1e-6
        )
        yield _equal(
            f"the {which} LP has the optimal value", "app:linMDP-realizability", best, primal.value, 1e-6
        )
    for which in ("relaxed", "core"):
        found = solve(e, which, "dual")
        gap = float(np.abs(found.V - values.V).max())
        yield _at_most(
            f"V of the {which} dual is V* (nu0 has full support)", "app:linMDP-realizability", 1e-5, gap
        )
        backup = e.r + e.discount * (e.P @ found.V)
        gap = float(np.abs(backup - values.Q).max())
        yield _at_most(f"one backup of the {which} dual's V is Q*", "app:linMDP-realizability", 1e-5, gap)
    yield _other_theta()


def _other_theta() -> Row:
    """Every theta with Q* <= Phi theta <= E V* is optimal; takes the one farthest above Q*, with one state, two actions."""
    e = Enumerated.of(_two_actions())
    values, _ = optimal(e)
    Phi = as_dense(e.Phi)
    A, b = np.vstack([Phi, -Phi]), np.concatenate([e.E @ values.V, -values.Q])
    theta = linprog(-Phi.sum(axis=0), A_ub=A, b_ub=b + 1e-12, bounds=(None, None)).x
    most = float(np.abs(Phi @ theta - values.Q).max())
    claim = "theta of the dual is not unique: an optimal one is off Q* by (against the paper)"
    return _above(claim, "app:linMDP-realizability", 0.1, most)


@group("lem:gtheta", "lem:glambda", "g_theta", "|g_theta|", "g_lambda", "|g_lambda|")
def estimators() -> Iterable[Row]:
    problem = linear_instance()
    D = 10.0
    at = point(problem, K=2, D=1e6)  # far inside the ball
    g = theta_moments(at)
    error = float(np.abs(g.mean - g.gradient).max())
    yield _at_most("g_theta is unbiased (all outcomes enumerated)", "lem:gtheta", 1e-8, error)
    yield _at_most("|g_theta| <= 2 R", "lem:gtheta", 2 * at.e.radius * (1 + 1e-6), g.largest)
    at = point(problem, K=1, D=D)
    g = lambda_moments(at)
    error = float(np.abs(g.mean - g.gradient).max())
    yield _at_most("g_lambda is unbiased (all outcomes enumerated)", "lem:glambda", 1e-8, error)
    limit = at.e.m * (1 + (1 + at.e.discount) * at.e.radius * D)
    yield _at_most("|g_lambda| <= m (1 + (1 + gamma) R D)", "lem:glambda", limit, g.largest)


@group("lem:OMD", "regret of mirror ascent")
def mirror_ascent() -> Iterable[Row]:
    """`lem:OMD` for the planner's own update in log space, over all 2^8 paths of random one-coordinate gradients.

    One instance always rewards the comparator's coordinate, the others are random; tau is the value that minimises the
    bound.
    """
    rng = np.random.default_rng(5)
    N, n, G, worst = 4, 8, 2.0, -np.inf
    for instance in range(5):
        if instance == 0:
            outcomes = [[(0, G), (0, 0.6 * G)]] * n
            start, star = np.full(N, 1 / N), np.eye(N)[0]
        else:
            outcomes = [[(int(rng.integers(N)), rng.uniform(-G, G)) for _ in range(2)] for _ in range(n)]
            start, star = rng.dirichlet(np.ones(N)), rng.dirichlet(np.full(N, 0.3))
        support = star > 0
        kl = float(np.sum(star[support] * np.log(star[support] / start[support])))
        tau = float(np.sqrt(2 * kl / n)) / G
        worst = max(worst, _regret(start, star, outcomes, tau) / (kl / tau + tau * n * G**2 / 2))
    yield _at_most("regret of mirror ascent over its bound (all paths enumerated)", "lem:OMD", 1.0, worst)


def _regret(
    start: FloatArray, star: FloatArray, outcomes: list[list[tuple[int, float]]], tau: float
) -> float:
    """The expected regret if each step has two equally likely (coordinate, gradient) outcomes."""
    kernels, N, regret = primal_dual.planner.kernels, len(start), 0.0
    for path in itertools.product(range(2), repeat=len(outcomes)):
        log_omega, tree = np.log(start), np.empty(2 * N)
        kernels.build_tree(log_omega, tree)
        for step, which in zip(outcomes, path, strict=True):
            mean = np.zeros(N)
            for j, g in step:
                mean[j] += g / 2
            regret += float((star - tree[N:] / tree[1]) @ mean) / 2 ** len(outcomes)
            kernels.raise_log(log_omega, tree, step[which][0], tau * step[which][1])
    return regret


@group("lem:SGDbound", "error of averaged descent", "... and the bound")
def gradient_descent() -> Iterable[Row]:
    """`lem:SGDbound` with K = 2, over every outcome of the step that moves theta_t.

    The policy and lambda are nearly deterministic, so that the noise is small and the bound nearly tight: for the comparator
    theta_{t-1} - 2 alpha g the two sides are 1.5 alpha |g|^2 and alpha (|g|^2 + E|g~|^2 / 2).
    """
    at = point(_two_actions(), K=2, D=3.0, seed=1, sharpness=200.0, lam=np.array([0.02, 0.98]))
    e, alpha, K = at.e, at.kernels.hyper.alpha, 2
    g = gradients(e, at.lam, compose(state_measure(e, at.lam), at.pi), at.state.theta, np.zeros(e.X)).theta
    mean_theta, square = np.zeros(e.d), 0.0
    for p, sample in theta_outcomes(at):
        mean_theta += p * (at.state.theta - alpha * sample / 2)  # theta_t
        square += p * float(sample @ sample)
    worst = -np.inf
    for step in (2 * alpha * g, alpha * g, 10 * alpha * g, *np.random.default_rng(0).normal(size=(20, e.d))):
        star = at.state.theta - step
        left = float((mean_theta - star) @ g)
        right = float(step @ step) / (2 * alpha * K) + alpha / 2 * square
        worst = max(worst, left / right)
    yield _at_most(
        "error of averaged descent over its bound (all outcomes enumerated)", "lem:SGDbound", 1.0, worst
    )
    yield _above("... and the bound is nearly tight there", "lem:SGDbound", 0.8, worst)


@group(
    "lem:duality-to-suboptimality", "lem:duality-bound", "def:IBE",
    "dynamic duality gap", "gap", "suboptimality", "the Bellman error met",
)  # fmt: skip
def duality_to_suboptimality() -> Iterable[Row]:
    problem = linear_instance()
    found = duality_gap(
        Enumerated.of(problem), record(problem, PrimalDual(K=5, eta=0.01, beta=0.05, alpha=0.1, D=12.0), T=60)
    )
    yield _equal(
        "dynamic duality gap = average suboptimality at zero error", "lem:duality-to-suboptimality",
        found.suboptimality, found.gap, 1e-9,
    )  # fmt: skip
    yield _equal(
        "gap = primal regret + dual regret",
        "lem:duality-bound",
        found.primal_regret + found.dual_regret,
        found.gap,
        1e-12,
    )
    problem = nearly_linear_instance()
    e, D = Enumerated.of(problem), 12.0
    found = duality_gap(e, record(problem, PrimalDual(K=5, eta=0.01, beta=0.05, alpha=0.1, D=D), T=60))
    slack = 2 * found.q_error + 2 * found.bellman_error + 2 * D * found.core_error
    yield _at_most(
        "suboptimality <= gap + 2 eps_pi + 2 Bellman error met + 2 D <mu*, eps_core>", "lem:duality-to-suboptimality",
        found.gap + slack, found.suboptimality,
    )  # fmt: skip
    ibe = inherent_bellman_error(e, D)
    yield _at_most("the Bellman error met is at most IBE", "def:IBE", ibe.high, found.bellman_error)


@group("lem:duality-bound", "seed-averaged dynamic duality gap")
def duality_bound() -> Iterable[Row]:
    """Seed-averaged gap on an instance where the bound is below 1, so that a faulty planner exceeds it."""
    problem, T, K, D = theorem_instance(), 600, 600, 1.5
    e = Enumerated.of(problem)
    eta, beta, alpha = best_rates(e.m, e.A, e.radius, D, T, K)
    rates = {"eta": eta, "beta": beta, "alpha": alpha, "K": K, "D": D}
    gaps = [duality_gap(e, record(problem, PrimalDual(**rates), T, seed)) for seed in range(2)]  # type: ignore[arg-type]
    limit = bound(T=T, m=e.m, A=e.A, R=e.radius, relative_entropy=gaps[0].relative_entropy, **rates).eps_opt  # type: ignore[arg-type]
    mean = float(np.mean([g.gap for g in gaps]))
    yield _at_most("seed-averaged dynamic duality gap", "lem:duality-bound", limit, mean)


@group("thm:main", "the uniform policy", "seed-averaged gap")
def theorem() -> Iterable[Row]:
    """Theorem 1 with T = 20,000 and K = 2,000: 40 million queries per seed.

    The gap is averaged over 2 seeds and over about 200 recorded t, which stands for the mean over J.
    """
    problem, T, K, D = theorem_instance(), 20_000, 2_000, 1.5
    e = Enumerated.of(problem)
    eta, beta, alpha = best_rates(2, 2, 1.0, D, T, K)
    limit = bound(T=T, K=K, eta=eta, beta=beta, alpha=alpha, m=2, A=2, R=1.0, D=D)
    planner = PrimalDual(eta=eta, beta=beta, alpha=alpha, K=K, D=D, output="last")
    best = value(e, optimal(e)[1])
    uniform = best - value(e, np.full((1, 2), 0.5))
    yield _above(
        "the uniform policy's gap exceeds the bound: it is not vacuous", "thm:main", limit.total, uniform
    )
    gaps = [
        best - plan(problem, planner=planner, budget=T * (K + 1), seed=s, reality=0).trace["value"]
        for s in range(2)
    ]
    yield _at_most("seed-averaged gap of pi_J", "thm:main", limit.total, float(np.mean(gaps)))


@group("alg:Main", "every iterate", "|theta_t|")
def naive_loop() -> Iterable[Row]:
    """Every iterate compared with the naive loop's, with a ball that does not bind and with one that does."""
    for kind, name in (("dense", "random-linear"), ("sparse", "river-swim")):
        for D, words in ((12.0, ""), (0.5, ", D binding")):
            problem = make(name)
            rates = {"K": 7, "eta": 3e-3, "beta": 0.02, "alpha": 0.3, "D": D}
            want = algorithm_1(problem, T=40, **rates)  # type: ignore[arg-type]
            worst, largest = 0.0, 0.0
            run = itertools.islice(steps(problem, PrimalDual(**rates), budget=NO_LIMIT), 1, None)  # type: ignore[arg-type]
            for theta, lam, step in zip(want.thetas, want.lambdas, run, strict=False):
                state, here = step.state, np.exp(step.state.log_lam)
                largest = max(largest, float(np.linalg.norm(state.theta)))
                worst = max(worst, np.abs(state.theta - theta).max(), np.abs(here / here.sum() - lam).max())
            yield _at_most(f"every iterate equals the naive loop's ({kind}{words})", "alg:Main", 1e-9, worst)
            yield _at_most(f"|theta_t| <= D ({kind}{words})", "alg:Main", D * (1 + 1e-9), largest)


@group("def:linMDP", "def:IBE", "residual", "IBE with")
def bellman_errors() -> Iterable[Row]:
    e = Enumerated.of(linear_instance())
    fit = linear_fit(e)
    residual = max(fit.reward_error, fit.transition_error)
    yield _at_most("residual of P = Phi W and r = Phi vartheta on a linear MDP", "def:linMDP", 1e-9, residual)
    free = inherent_bellman_error(e, 12.0, ball=False).high
    yield _at_most("IBE without the ball is 0 for a linear MDP", "def:IBE", 1e-8, free)
    one_state = Enumerated.of(_two_actions())
    low = inherent_bellman_error(one_state, 30.0).low
    yield _above(
        "IBE with the ball is not 0 for a linear MDP, D = 30 (against the paper)", "def:IBE", 0.1, low
    )


def _two_actions() -> Problem:
    table = Tabular(np.zeros(1, dtype=np.int64), np.array([[0.3, 0.9]]), np.ones(1), P=np.ones((2, 1)))
    return Problem(
        tabular_model(table), one_hot(1, 2), 0.9, core_pairs=(np.zeros(2, dtype=np.int64), np.arange(2)),
        tabular=lambda: table,
    )  # fmt: skip


@group("alg:Main", "thm:main", "the returned", "the planner's pi_1")
def policy_read_out() -> Iterable[Row]:
    """The policy that a run returns is softmax(beta sum_{t<J} Phi theta_t) for the recorded iterates."""
    problem = linear_instance()
    rates = PrimalDual(K=5, eta=0.01, beta=0.05, alpha=0.1, D=12.0)
    kept = record(problem, rates, T=50, seed=4)
    returned = plan(problem, planner=rates, budget=50 * 6, seed=4, reality=0).policy
    sums = np.concatenate([np.zeros((1, kept.thetas.shape[1])), np.cumsum(kept.thetas, axis=0)])[
        :-1
    ]  # Theta_1..Theta_T
    distance = float(np.abs(sums - returned.theta).max(axis=1).min())
    yield _at_most("the returned vector is some Theta_J, J in 1..T", "alg:Main", 1e-9, distance)
    table = problem.tabular()  # type: ignore[misc]
    e = Enumerated.of(problem)
    gap = np.abs(returned.probabilities(table.states) - e.softmax(returned.theta, 0.05)).max()
    yield _at_most("the returned policy is softmax(beta Phi Theta_J)", "alg:Main", 1e-12, float(gap))
    first = e.softmax(kept.Thetas[0], 0.05)
    yield _equal("the planner's pi_1 is uniform", "thm:main", 1 / e.A, float(first.max()), 1e-15)


CLAIMS: dict[str, Group] = {
    g.name: g
    for g in (
        lp_pairs, bellman_errors, estimators, naive_loop, policy_read_out, mirror_ascent, gradient_descent,
        duality_to_suboptimality, duality_bound, theorem, core_mirror,
    )
}  # fmt: skip


def verify(*prefixes: str) -> Iterator[Row]:
    """Yields rows as they are computed: all, or those whose group, label or claim starts with one of the prefixes."""
    for prefix in prefixes:
        if not any(g.may_have(prefix) for g in CLAIMS.values()):
            raise _unknown(prefix)
    return _rows(prefixes or ("",))


def _rows(prefixes: tuple[str, ...]) -> Iterator[Row]:
    unmet = set(prefixes)
    for g in CLAIMS.values():
        if not any(g.may_have(p) for p in prefixes):
            continue
        for row in g.rows():
            met = {p for p in prefixes if g.name.startswith(p) or row.starts_with(p)}
            unmet -= met
            if met:
                yield row
    if unmet:
        raise _unknown(min(unmet))


def _unknown(prefix: str) -> InputError:
    return InputError(
        f"`verify` has no claim, no label and no group that starts with '{prefix}'.{nearest(prefix, CLAIMS)}"
    )
