"""One deliberate fault per row of `verify`: what it breaks, and which rows of its group then fail.

A fault changes one function or one line of the code that a row is about. Where two rows say the same of one quantity (a
point that violates a constraint also has another value), `also` names those that fail with it; no other row may.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from coreplan.theory import Enumerated
from coreplan.theory.claims import instances

from .mutants import mutant

CLAIMS = "coreplan.theory.claims."


class Fault(NamedTuple):
    """`where` names an attribute, module and name; `broken` makes of the real one a faulty one."""

    group: str
    row: str  # how the claim begins
    where: str
    broken: Callable[[Any], Any]
    also: tuple[str, ...] = ()

    def install(self, monkeypatch: Any, tmp_path: Any) -> None:
        home, name = _home(self.where)
        real = getattr(home, name)
        if isinstance(self.broken, Line):
            monkeypatch.setattr(home, name, mutant(real, *self.broken, tmp_path, monkeypatch))
        else:
            monkeypatch.setattr(home, name, self.broken(real))


def _home(where: str) -> tuple[Any, str]:
    """The module or class that has the attribute, and its name."""
    path, _, name = where.rpartition(".")
    try:
        return importlib.import_module(path), name
    except ModuleNotFoundError:
        module, _, owner = path.rpartition(".")
        return getattr(importlib.import_module(module), owner), name


class Line(NamedTuple):
    """A fault that replaces one place of a module's source."""

    old: str
    new: str


def solution(which: str, form: str | None = None, **changes: Any) -> Callable[[Any], Any]:
    """`solve` with fields of its answer changed, for one pair of programs."""

    def broken(real: Any) -> Any:
        def solve(e: Any, name: str = "core", how: str = "dual", *more: Any) -> Any:
            found = real(e, name, how, *more)
            if name != which or (form and how != form):
                return found
            return dataclasses.replace(found, **{k: f(e, found) for k, f in changes.items()})

        return solve

    return broken


def scaled_cost(which: str) -> Callable[[Any], Any]:
    """The printed dual with its objective a little too large."""

    def broken(real: Any) -> Any:
        def dual(e: Any, name: str) -> Any:
            g, A, b = real(e, name)
            return (1.001 * g if name == which else g), A, b

        return dual

    return broken


def _nonlinear(e: Any) -> Any:
    """The same rewards and features with transitions that are not linear: u is no occupancy measure any more."""
    P = 0.9 * np.asarray(e.P) + 0.1 * np.random.default_rng(0).dirichlet(np.ones(e.X), size=e.Z)
    return dataclasses.replace(e, table=dataclasses.replace(e.table, P=P, factors=None))


def _beside(real: Any) -> Any:
    """Core coefficients with something added that no core reward sees."""

    def core_errors(e: Any) -> Any:
        B, eps = real(e)
        r = e.r[e.rows]
        v = np.zeros(e.m)
        v[0], v[1] = 1e-3 * r[1], -1e-3 * r[0]
        return B + v, eps

    return core_errors


def _uniform_measure(real: Any) -> Any:
    return lambda e, pi: real(e, np.full_like(pi, 1 / e.A))


def plus(by: float) -> Callable[[Any], Any]:
    """A function whose number is off by so much."""
    return lambda real: lambda *args, **named: real(*args, **named) + by


def times(by: float) -> Callable[[Any], Any]:
    return lambda real: lambda *args, **named: real(*args, **named) * by


def changed(**changes: Any) -> Callable[[Any], Any]:
    """A function whose NamedTuple answer has fields changed: each a function of the answer."""
    return lambda real: (
        lambda *args, **named: (lambda found: found._replace(**{k: f(found) for k, f in changes.items()}))(
            real(*args, **named)
        )
    )


def instead(value: Any) -> Callable[[Any], Any]:
    return lambda real: value


PROGRAMS, SOLVE = CLAIMS + "programs.", CLAIMS + "programs.solve"
POINTS = "`solve`: its primal points"
LP = [
    *(Fault("lp_pairs", f"strong duality of the {w}", PROGRAMS + "printed_dual", scaled_cost(w))
      for w in ("classic", "relaxed", "core")),
    *(Fault("lp_pairs", f"the {w} LP has", SOLVE, solution(w, value=lambda e, s: s.value + 1e-3))
      for w in ("classic", "relaxed", "core")),
    Fault("lp_pairs", POINTS, SOLVE, solution("relaxed", u=lambda e, s: s.u[::-1])),
    Fault("lp_pairs", "`solve`: its dual points", SOLVE, solution("relaxed", theta=lambda e, s: -s.theta)),
    # Features sum to one here: with theta + c and V + c the point stays feasible, and is not optimal any more.
    *(Fault("lp_pairs", f"V of the {w} dual", SOLVE,
            solution(w, V=lambda e, s: s.V + 1e-3, theta=lambda e, s: s.theta + 1e-3)) for w in ("relaxed", "core")),
    Fault("lp_pairs", "u of the core LP is an", PROGRAMS + "core_primal", lambda real: lambda e: real(_nonlinear(e))),
    Fault("lp_pairs", "u of the core LP earns", PROGRAMS + "core_primal",
          lambda real: lambda e: dataclasses.replace(real(e), primal_value=0.0)),
    Fault("lp_pairs", "(B' mu*, mu*) is feasible", PROGRAMS + "core_errors", _beside),
    Fault("lp_pairs", "(B' mu*, mu*) has the optimal", PROGRAMS + "occupancy", _uniform_measure),
    Fault("lp_pairs", "u of the core LP: its conditionals", PROGRAMS + "conditionals",
          lambda real: lambda e, u: 0.7 * real(e, u) + 0.3 / e.A),
    Fault("lp_pairs", "greedy on one backup", PROGRAMS + "greedy", lambda real: lambda e, V: real(e, V)[:, ::-1]),
    Fault("lp_pairs", "theta of the dual is not unique", PROGRAMS + "two_actions",
          instead(lambda: instances._problem("equal", 0.9, [[0.5, 0.5]], np.ones((2, 1)), np.eye(2)[None],
                                             ([0, 0], [0, 1])))),
]  # fmt: skip
MAXIMA = "complete under maxima: "
FOOTNOTE = [
    Fault("footnote", MAXIMA + "P is off", PROGRAMS + "linear_fit", changed(transition_error=lambda f: 0.0)),
    Fault("footnote", MAXIMA + "... and max", PROGRAMS + "_closed", plus(1e-3)),
    Fault("footnote", MAXIMA + "the core dual", SOLVE, solution("core", value=lambda e, s: s.value + 1e-3)),
    Fault("footnote", MAXIMA + "its V", SOLVE, solution("core", V=lambda e, s: s.V + 1e-3)),
]
REAL = CLAIMS + "realizability."
ERRORS = [
    Fault("bellman_errors", "residual of P", REAL + "linear_fit", changed(reward_error=lambda f: 1e-6)),
    Fault("bellman_errors", "IBE without the ball", REAL + "inherent_bellman_error", changed(high=lambda f: f.high + 1e-6)),
    Fault("bellman_errors", "IBE with the ball", REAL + "inherent_bellman_error", changed(low=lambda f: 0.0)),
    Fault("bellman_errors", "a nonlinear P has", REAL + "best_fit", changed(error=lambda f: 0.1 * f.error)),
    Fault("bellman_errors", "a nonlinear P can have", REAL + "constant_feature_instance",
          instead(instances.misspecified_instance)),
    Fault("bellman_errors", "a nonlinear P: that one", REAL + "linear_fit", changed(transition_error=lambda f: 0.0)),
    Fault("q_errors", "eps_pi is 0", REAL + "q_approximation_error", changed(error=lambda f: f.error + 1e-6)),
    Fault("q_errors", "eps_pi in a ball", REAL + "q_approximation_error",
          lambda real: lambda e, pi, D: real(e, pi, None)),
]  # fmt: skip
SADDLE = [
    Fault("saddle", "the game over", PROGRAMS + "saddle_point", changed(value=lambda f: f.value + 1e-3)),
    Fault(
        "saddle",
        "the game loses",
        PROGRAMS + "core_errors",
        lambda real: lambda e: (real(e)[0], 0.01 * real(e)[1]),
    ),
    Fault("saddle", "the game ... and", PROGRAMS + "saddle_point", lambda real: _whole_core(real)),
]


def _whole_core(real: Any) -> Any:
    """The saddle point of the problem with its whole core set, whatever was asked."""
    e = Enumerated.of(instances.linear_instance())
    return lambda _, D: real(e, D)


PLANNER = "coreplan.planners.primal_dual.planner."
KERNELS = PLANNER + "kernels"
DENSE = "every iterate equals the naive loop's (dense)"
LOOP = [
    Fault("naive_loop", DENSE, KERNELS,
          Line("        theta[l] = mean[l] / K\n", "        theta[l] = (mean[l] + theta[l]) / (K + 1)\n")),
    Fault("naive_loop", "every iterate equals the naive loop's (sparse)", KERNELS,
          Line("core.weight[j], by, S", "core.weight[j], -by, S")),
    Fault("policy_read_out", "the returned vector", KERNELS,
          Line("state.Theta_J[:] = Theta", "state.Theta_J[:] = 1.01 * Theta")),
    Fault("policy_read_out", "the returned policy", PLANNER + "PrimalDual.policy",
          lambda real: lambda self, state: real(self, state)._replace(scale=1.01 * self.beta)),
    Fault("policy_read_out", "the planner's pi_1", PLANNER + "PrimalDual.init",
          lambda real: lambda self, rng: (lambda s: s._replace(Theta=s.Theta + np.arange(len(s.Theta))))(real(self, rng))),
    Fault("policy_read_out", "J is uniform", KERNELS, Line("if u[2 * K] * t < 1.0:", "if True:")),
]  # fmt: skip
ALGORITHM = CLAIMS + "algorithm."


def leaning(w: list[float]) -> Callable[[Any], Any]:
    """Another pi_1 in the regrets."""
    return lambda real: lambda e, star, _: real(e, star, np.array(w))


GIVEN = "a given pi_1: "
START = [
    Fault("initial_policy", GIVEN + "every iterate", KERNELS,
          Line("core_index[i] = draw(state.tree, u[i])", "core_index[i] = draw(state.tree, 1.0 - u[i])")),
    Fault("initial_policy", GIVEN + "the returned", PLANNER + "PrimalDual.policy",
          lambda real: lambda self, state: real(self, state)._replace(theta=state.Theta_J - self._start)),
    Fault("initial_policy", GIVEN + "regret of", CLAIMS + "regrets.conditional_entropy", times(0.1)),
    Fault("initial_policy", GIVEN + "regret exceeds", CLAIMS + "regrets._policy_regret", leaning([0.0, 0.0])),
]  # fmt: skip
COST = [
    Fault("computation", "computation per query grows with A", KERNELS, Line(
        "    mean[:] = 0.0\n    for i in range(K):\n",
        "    mean[:] = 0.0\n    for q in range(K * p.shape[0]):\n        choose(initial_phi, q % K, Theta, beta, 0.5, p)\n"
        "    for i in range(K):\n")),
    Fault("computation", "computation per query grows with d", KERNELS, Line(
        "            mean[l] += theta[l]  # theta^(i) joins the mean before it moves: i = 1..K, not K + 1\n",
        "            for q in range(4 * d):\n                mean[l] += theta[q % d] * theta[l]\n")),
    Fault("computation", "computation per query grows with m", KERNELS, Line(
        "    for i in range(K):\n        core_index[i] = draw(state.tree, u[i])\n",
        "    for i in range(K):\n        sum_tree(state.log_lam, state.tree)\n"
        "        core_index[i] = draw(state.tree, u[i])\n")),
]  # fmt: skip
STEP = "core[j, l]\n            theta[l] -= alpha * g"
TD = "hyper.eta * (m * td)"
ESTIMATORS = [
    Fault("estimators", "g_theta is unbiased", KERNELS, Line(
        "g = (1.0 - gamma) * initial_phi[i, a0, l] + gamma * next_phi",
        "g = gamma * initial_phi[i, a0, l] + (1.0 - gamma) * next_phi")),
    Fault("estimators", "|g_theta|", KERNELS, Line(STEP, STEP.replace("* g", "* min(g, 1.9)"))),
    Fault("estimators", "g_lambda is unbiased", KERNELS, Line(TD, "hyper.eta * (2 * td)")),
    Fault("estimators", "|g_lambda|", KERNELS, Line(TD, "hyper.eta * (m * min(td, 6.0))")),
]  # fmt: skip
REGRETS = CLAIMS + "regrets."
REGRET = [
    Fault("mirror_ascent", "regret of mirror ascent", KERNELS, Line("    log_lam[j] += by\n", "    log_lam[j] -= by\n")),
    Fault("policy_regret", "regret of the policies is the mean", REGRETS + "compose", times(1.01)),
    Fault("policy_regret", "regret of the policies", KERNELS,
          Line("        Theta[i] += theta[i]\n", "        Theta[i] -= theta[i]\n")),
    Fault("policy_regret", "regret of the policies, had", REGRETS + "conditional_entropy", times(100.0)),
    Fault("gradient_descent", "error of averaged descent", KERNELS,
          Line("theta[l] -= alpha * g", "theta[l] -= 0.5 * alpha * g")),
    Fault("gradient_descent", "... and the bound", REGRETS + "theta_outcomes",
          lambda real: lambda at: ((p, 2.0 * g) for p, g in real(at))),
]  # fmt: skip
DUAL = CLAIMS + "duality."
GAP = DUAL + "duality_gap"
LEMMA = "the lemma with D"
DUALITY = [
    Fault("duality_to_suboptimality", "dynamic duality gap =", GAP, changed(suboptimality=lambda g: g.suboptimality + 1e-6)),
    Fault("duality_to_suboptimality", "gap = primal", GAP, changed(primal_regret=lambda g: g.primal_regret + 1e-6)),
    Fault("duality_to_suboptimality", "suboptimality <=", GAP,
          changed(suboptimality=lambda g: g.suboptimality + 1e3 * g.bellman_error * (g.core_error < 0.1))),
    Fault("duality_to_suboptimality", "the Bellman error met", DUAL + "inherent_bellman_error",
          changed(high=lambda f: 0.01 * f.high)),
    Fault("duality_to_suboptimality", "gap of one step", PLANNER + "_theta0",
          lambda real: lambda theta, d, D: np.zeros(d), (LEMMA,)),
    Fault("duality_to_suboptimality", "the lemma with 2 D", GAP, changed(core_error=lambda g: 0.0)),
    Fault("duality_to_suboptimality", LEMMA, GAP, changed(core_error=lambda g: 2.0 * g.core_error)),
    Fault("duality_to_suboptimality", "D(lambda*|lambda_1)", GAP,
          changed(relative_entropy=lambda g: g.relative_entropy / 2)),
]  # fmt: skip


def average(instance: Any, **changes: float) -> Callable[[Any], Any]:
    """`averages` with other numbers, for one instance."""

    def broken(real: Any) -> Any:
        def averages(of: Any) -> Any:
            found = real(of)
            if of is not instance:
                return found
            terms = {k: v for k, v in changes.items() if k in found.terms._fields}
            rest = {k: v for k, v in changes.items() if k not in terms}
            return found._replace(terms=found.terms._replace(**terms), **rest)

        return averages

    return broken


MAIN = CLAIMS + "main_theorem."
AVERAGES = MAIN + "averages"
APPROX, PATH = "the theorem with eps_approx > 0: ", "a core set that is bad off the optimal path: "
THEOREM = [
    Fault("theorem", "the uniform policy's gap", AVERAGES, average(instances.theorem_instance, uniform=0.1)),
    Fault("theorem", "seed-averaged gap", AVERAGES, average(instances.theorem_instance, suboptimality=0.4)),
    Fault("theorem", "seed-averaged dynamic", AVERAGES, average(instances.theorem_instance, gap=0.4)),
    Fault("theorem", APPROX + "the smallest", MAIN + "inherent_bellman_error", changed(low=lambda f: 0.0)),
    Fault(
        "theorem",
        APPROX + "the uniform",
        MAIN + "inherent_bellman_error",
        changed(high=lambda f: f.high + 0.2),
    ),
    Fault("theorem", APPROX + "seed", AVERAGES, average(instances.approximate_instance, suboptimality=0.4)),
    Fault("theorem", "the average Lagrangian", MAIN + "saddle_point", changed(value=lambda f: f.value + 0.5)),
    Fault("theorem", PATH + "largest", MAIN + "detour_instance", instead(instances.theorem_instance)),
    Fault("theorem", PATH + "uniform", AVERAGES, average(instances.detour_instance, uniform=0.1)),
    Fault("theorem", PATH + "seed", AVERAGES, average(instances.detour_instance, suboptimality=0.4)),
]
CERT = CLAIMS + "certificate."
CERTIFICATE = [
    Fault("certificate", "U(theta) is at least", CERT + "upper",
          lambda real: lambda e, theta: real(dataclasses.replace(e, rows=e.rows[:1]), theta)),
    Fault("certificate", "U(theta) is v*", CERT + "upper",
          lambda real: lambda e, theta: real(e, theta) + 1e-6 * float(e.m == 4)),
    Fault("certificate", "U(theta) misses", CERT + "core_errors", lambda real: lambda e: (real(e)[0], 0.0 * real(e)[1])),
    Fault("certificate", "U(theta) ... and", CERT + "saddle_point", lambda real: _whole_core(real)),
    Fault("certificate", "certify: upper", CERT + "certify",
          lambda real: lambda *a, **k: (lambda c: dataclasses.replace(c, upper=c.upper - 0.1))(real(*a, **k))),
    Fault("certificate", "certify: lower", CERT + "certify",
          lambda real: lambda *a, **k: (lambda c: dataclasses.replace(c, lower=c.lower + 0.1))(real(*a, **k))),
]  # fmt: skip
MIRROR = "coreplan.theory.mirror."
PARTS, MIRROR_RUN = MIRROR + "parts", MIRROR + "sweeps"


def with_entry(**entries: tuple[int, float]) -> Callable[[Any], Any]:
    """A function whose NamedTuple answer has one entry of an array raised: (index, by)."""

    def raised(name: str, at: int, by: float) -> Callable[[Any], Any]:
        def value(found: Any) -> Any:
            array = getattr(found, name).copy()
            array[at] += by
            return array

        return value

    return changed(**{name: raised(name, at, by) for name, (at, by) in entries.items()})


def _much_policy(f: Any) -> Any:
    return 1e3 * np.abs(f.policy)


CORE_MIRROR = [
    Fault("core_mirror", "gap = Bellman", PARTS, with_entry(policy=(3, 1e-6))),
    Fault("core_mirror", "pi_t is the softmax", MIRROR_RUN, with_entry(Thetas=(4, 1e-6))),
    Fault("core_mirror", "Phi E[theta_t]", MIRROR + "mean_backup",
          lambda real: lambda *a: (lambda got, want: (got + 1e-6, want))(*real(*a))),
    Fault("core_mirror", "Q_t <= H", PARTS, with_entry(Q=(5, 10.0))),
    Fault("core_mirror", "-Q_t <= 0", PARTS, with_entry(Q=(5, -10.0))),
    Fault("core_mirror", "sum of the policy parts", PARTS,
          changed(policy=_much_policy, gap=lambda f: f.bellman + _much_policy(f))),
    Fault("core_mirror", "largest change of", PARTS,
          lambda real: with_entry(drift=(1, -50.0))(with_entry(drift=(0, 50.0))(real))),
    Fault("core_mirror", "sum of <mu*", PARTS, with_entry(move=(2, 1e3)), ("... and it is",)),
    Fault("core_mirror", "... and it is", PARTS, with_entry(move=(2, 1e-6))),
    Fault("core_mirror", "the uniform policy", MIRROR + "mirror_bound",
          lambda real: lambda **k: dataclasses.replace(real(**k), start=1.0)),
    Fault("core_mirror", "seed-averaged", MIRROR + "plan",
          lambda real: lambda *a, **k: SimpleNamespace(trace={"value": real(*a, **k).trace["value"] - 0.5})),
]  # fmt: skip
FAULTS = [
    *LP, *FOOTNOTE, *ERRORS, *SADDLE, *LOOP, *START, *COST, *ESTIMATORS, *REGRET, *DUALITY, *THEOREM, *CERTIFICATE,
    *CORE_MIRROR,
]  # fmt: skip
