"""The upper bound: the facts behind it by enumeration, its coverage, and faults that make it miss."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from scipy.stats import binom

import coreplan
from coreplan import CoreSet
from coreplan.base import key_of
from coreplan.core import Frame
from coreplan.features import best_scores, dense
from coreplan.judge import optimal_values
from coreplan.judge.certificate import first_half, upper
from coreplan.judge.certificate.first_half import Basis, Means
from coreplan.judge.certificate.upper import explore, make_rule, upper_bound
from coreplan.sampled import Transitions
from coreplan.simulate import Simulator
from coreplan.theory import Enumerated
from helpers.mutants import mutant
from helpers.policies import EXACT, uniform


@pytest.mark.parametrize("spec", EXACT)
def test_one_weight_vector_serves_every_theta(spec):
    """v* <= (1 - gamma) nu0 . V_theta + <kappa*, delta(theta)>, kappa* the core coefficients of mu*, at random theta."""
    problem = coreplan.make(spec)
    e = Enumerated.of(problem)
    gamma = e.discount
    V, Q = optimal_values(e.table, gamma)
    pi = np.eye(e.A)[Q.argmax(axis=1)]
    Phi = e.Phi.toarray() if hasattr(e.Phi, "toarray") else e.Phi
    P = e.P.toarray() if hasattr(e.P, "toarray") else e.P
    nu = np.linalg.solve(
        np.eye(e.X) - gamma * np.einsum("xa,xay->xy", pi, P.reshape(e.X, e.A, e.X)).T, (1 - gamma) * e.nu0
    )
    basis = Basis.of(problem, CoreSet.of(problem))
    kappa = (nu[:, None] * pi).ravel() @ Phi @ basis.inverse  # [rho]
    J = [int(np.flatnonzero((Phi == row).all(axis=1))[0]) for row in basis.Phi]
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 30.0):
        for theta in scale * rng.standard_normal((20, e.d)):
            W = (Phi @ theta).reshape(e.X, e.A).max(axis=1)
            delta = e.r[J] + gamma * P[J] @ W - Phi[J] @ theta
            assert (1 - gamma) * e.nu0 @ V <= (1 - gamma) * e.nu0 @ W + kappa @ delta + 1e-9


@pytest.mark.parametrize("spec", ["random-linear", "river-linear:L=4"])
def test_explore_brackets_every_sign(spec):
    """V + U.s <= V_{theta + B s} <= V + U.s + D, at all sign vectors."""
    problem = coreplan.make(spec)
    phi = problem.features(problem.tabular().states)
    rng = np.random.default_rng(1)
    theta, B = rng.standard_normal(problem.features.dimension), 0.2 * rng.standard_normal((8, 5))
    V, D, U = explore(phi, theta, B)
    full = dense(phi, 8)
    assert (D > 0).any() and (D >= 0).all()
    for s in itertools.product([-1.0, 1.0], repeat=5):
        moved = (full @ (theta + B @ np.array(s))).max(axis=1)
        assert (moved >= V + U @ s - 1e-9).all() and (moved <= V + U @ s + D + 1e-9).all()


def test_no_slope_goes_below_the_maximum():
    """`_beyond` against a search over the simplex: above it for any slope; near it with the best."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        kappa, delta = rng.dirichlet(np.ones(4)), rng.normal(size=4)
        for kink in (-np.abs(rng.normal(size=4)), rng.normal(size=4)):
            mu = np.concatenate([rng.dirichlet(np.full(4, 0.3), 4000), np.eye(4), kappa[None]])
            values = (mu - kappa) @ delta + np.abs(mu - kappa) @ kink
            solved = upper._supporting(np.eye(4), kappa, delta, kink)
            for slope in (solved, solved + 1e-3, np.zeros(4), rng.normal(size=4), np.full(4, 1e9)):
                assert upper._beyond(np.eye(4), kappa, delta, kink, slope) >= values.max() - 1e-12
            if (kink < 0).all():
                assert upper._beyond(np.eye(4), kappa, delta, kink, solved) <= values.max() + 0.2


def betting_bound(basis, rule, s, kappa, gamma):
    """T(kappa) as it is defined, by bisection: the least x >= floor with sum_i log(1 + eta (x - Y_i)) >= log 1/alpha."""
    h = kappa - rule.fit.kappa
    theta = rule.fit.theta + rule.fit.B @ (rule.tau * np.sign(h))
    x = s.rewards + gamma * best_scores(s.phi, theta) - (basis.Phi @ theta)[s.pair]
    Y = (1 - gamma) * best_scores(s.initial_phi, theta) + (kappa / rule.p)[s.pair] * x
    eta = rule.bet / (1 + rule.slow @ np.abs(h))
    below, above = max(rule.floor, Y.max() - 1 / eta), max(rule.floor, Y.max()) + 2 * rule.log_target / eta
    for _ in range(60):
        middle = (below + above) / 2
        enough = np.log1p(np.maximum(eta * (middle - Y), -1 + 1e-16)).sum() >= rule.log_target
        below, above = (below, middle) if enough else (middle, above)
    return above


def weights(basis, kappa, rng):
    """kappa^, and points of the hull of the rows of C: corners, random ones, and some near kappa^."""
    mu = np.concatenate([np.eye(len(basis.C)), rng.dirichlet(np.full(len(basis.C), 0.3), 20)]) @ basis.C
    return np.concatenate([mu, (mu + kappa) / 2, 0.9 * kappa + 0.1 * mu])


def masked(problem):
    """Action 0 only at core states."""
    core = CoreSet.of(problem).states
    return dataclasses.replace(
        problem, mask=lambda x: np.stack([np.isin(x, core)] + 3 * [np.ones(len(x), bool)], axis=1)
    )


@pytest.mark.parametrize("heavy", [0.0, 0.05, 2.0])
@pytest.mark.parametrize("spec", [*EXACT, "masked actions"])
def test_the_bound_is_above_the_betting_bound_of_every_kappa(spec, heavy):
    """No chance: on any samples, whatever came out. With few samples the excess is positive in most cases."""
    problem = coreplan.make(spec if spec in EXACT else "random-linear:compiled=false")
    problem = masked(problem) if spec == "masked actions" else problem
    core = CoreSet.of(problem)
    basis, rng = Basis.of(problem, core), np.random.default_rng(5)
    simulator = Simulator(problem, core, seed=key_of(rng))
    assert basis.signed == (spec == "hard-linear")  # weights may be negative there
    rho, gamma = len(basis.actions), problem.discount
    for n in (2000, 20_000):
        means = Means(basis, basis.draw(simulator, np.arange(n // 2) % rho), gamma)
        rule = make_rule(means, means.fit(means.optimise()), n, means.count.min(), gamma, 0.025, heavy)
        s = basis.draw(simulator, rng.choice(rho, n, p=rule.p))
        found = upper_bound(basis, rule, s, gamma)
        for kappa in weights(basis, rule.fit.kappa, rng):
            assert found.bound >= min(betting_bound(basis, rule, s, kappa, gamma), 1.0) - 1e-12


def nearly_equal(sigma, share):
    """One basis pair, every sample -w, and a core pair of twice its features: kappa in [1, 2], kappa^ = 1.

    All inequalities behind the bound are nearly equalities where slow = w / away, `away` from Y to the bound at kappa^;
    `sigma` is slow over that, and with more than 1 the bound grows with kappa. `share` is bet times away.
    """
    n, w, away = 50, 0.2, 0.3
    bet, C = share / away, np.array([[1.0], [2.0]])
    basis = Basis(
        np.zeros(1), np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([[1 / w]]), Frame(C * w, 1)
    )
    fit = first_half.Fit(np.ones(1), np.zeros((1, 1)), np.ones(1), np.array([-w]), np.zeros(1), 0.0)
    L = (away - bet * away**2 / 2) * bet * n
    rule = upper.Rule(fit, np.ones(1), np.zeros(1), n, L, bet, np.array([sigma * w / away]), -w)
    none = np.zeros((n, 1, 1))
    same = Transitions(
        np.zeros(n, np.int64), np.zeros(n), np.zeros(n), none, np.zeros(n), none, independent=True
    )
    return basis, rule, same


def test_the_bound_is_proved_where_it_is_returned(tmp_path, monkeypatch):
    """Fault: squares taken at the bound for kappa^ instead of at the bound that is returned."""
    all_kappa = "lambda at: here(at) + _beyond(basis.C, fit.kappa, delta, kink(at), slope), near"
    broken = mutant(upper, all_kappa, all_kappa.replace("(at)", "(near)"), tmp_path, monkeypatch)
    for sigma, share in itertools.product((1.5, 2.0, 3.0), (0.05, 0.1, 0.2)):
        basis, rule, s = nearly_equal(sigma, share)
        true = max(betting_bound(basis, rule, s, np.array([k]), 0.9) for k in np.linspace(1, 2, 21))
        found = upper_bound(basis, rule, s, 0.9)
        assert found.excess > 0.08 and true <= found.bound <= true + 0.2
        assert broken.upper_bound(basis, rule, s, 0.9).bound < true - 0.003


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_no_bound_where_a_sample_breaks_the_bets(share):
    """A sample beyond what the hull allows could ruin the bets: then 1, which holds without any assumption.

    With one core pair kappa is known. A largest sample just below floor + 1 / bet leaves a bound; just above it, none.
    """
    basis, rule, s = nearly_equal(6.0, share)
    basis = dataclasses.replace(basis, frame=Frame(basis.core[:1], 1))
    for by, proved in ((-0.05, True), (0.05, False)):
        largest = rule.floor + 1 / rule.bet + by
        odd = dataclasses.replace(
            s, rewards=np.where(np.arange(50) == 7, largest + 0.2, 0.0)
        )  # Y = r - w there
        assert (upper_bound(basis, rule, odd, 0.9).bound < 0.5) == proved


def bounds(module, spec, runs, heavy, n=4000):
    """Upper bounds of one rule over fresh second halves, at 60% confidence, and the optimum."""
    problem = coreplan.make(spec)
    table = problem.tabular()
    optimum = (1 - problem.discount) * table.nu0 @ optimal_values(table, problem.discount)[0]
    core = CoreSet.of(problem)
    basis, rng = Basis.of(problem, core), np.random.default_rng(3)
    simulator = Simulator(problem, core, seed=key_of(rng))
    rho, gamma, found = len(basis.actions), problem.discount, []
    for _ in range(runs):
        means = Means(basis, basis.draw(simulator, np.arange(50 * rho) % rho), gamma)
        rule = module.make_rule(means, means.fit(means.optimise()), n, 50, gamma, 0.4, heavy)
        second = basis.draw(simulator, rng.choice(rho, n, p=rule.p))
        found.append(module.upper_bound(basis, rule, second, gamma).bound)
    return np.array(found), optimum


@pytest.mark.parametrize("heavy", [0.0, 0.05, 2.0])
@pytest.mark.parametrize("spec", ["random-linear", "river-swim"])
def test_upper_bound_covers_at_low_confidence(spec, heavy):
    """30 bounds at 60%: 26 misses have probability below 1e-6; the bounds are conservative, so none is common."""
    found, optimum = bounds(upper, spec, 30, heavy)
    assert binom.sf(25, 30, 0.4) < 1e-6
    assert (found < optimum).sum() <= 25


@pytest.mark.parametrize("heavy", [0.0, 0.05, 2.0])
@pytest.mark.parametrize("spec", EXACT)
def test_no_outcome_can_ruin_the_bets(spec, heavy):
    """eta(kappa) (Y - floor) <= STAKE for the worst of all pairs of the table, all signs drawn and corners kappa."""
    problem = coreplan.make(spec)
    core = CoreSet.of(problem)
    basis, rng, gamma = Basis.of(problem, core), np.random.default_rng(0), problem.discount
    rho = len(basis.actions)
    samples = basis.draw(Simulator(problem, core, seed=key_of(rng)), np.arange(60 * rho) % rho)
    means = Means(basis, samples, gamma)
    rule = make_rule(means, means.fit(means.optimise()), 3000, 60, gamma, 0.05, heavy)
    phi, kappa = problem.features(problem.tabular().states), rule.fit.kappa
    corners = np.concatenate([basis.C, kappa[None], (basis.C + kappa) / 2])
    for s in (*rng.choice([-1.0, 1.0], size=(20, rho)), np.ones(rho), -np.ones(rho)):
        theta = rule.fit.theta + rule.fit.B @ (rule.tau * s)
        V = best_scores(phi, theta)
        for k in corners:
            eta = rule.bet / (1 + rule.slow @ np.abs(k - kappa))
            for reward in (0.0, 1.0):
                x = reward + gamma * V[:, None] - basis.Phi @ theta  # [X, rho]
                Y = (1 - gamma) * V.max() + (k / rule.p * x).max()
                assert eta * (Y - rule.floor) <= upper.STAKE + 1e-9


FAULTS = {  # fault: whether theta is fitted or 0
    (
        "+ _beyond(basis.C, fit.kappa, delta, kink(at), slope)",
        "- _beyond(basis.C, fit.kappa, delta, kink(at), slope)",
    ): False,
    ("x = s.rewards + gamma * V -", "x = s.rewards + gamma * (V - 0.2) -"): True,
    ("Y = (1 - gamma) * V0 +", "Y = (1 - gamma) * V0 * 0.9 +"): True,
}


@pytest.mark.parametrize("fault", FAULTS, ids=["far", "residual", "start"])
def test_a_broken_bound_misses(fault, tmp_path, monkeypatch):
    problem = coreplan.make("random-linear")
    core = CoreSet.of(problem)
    basis, rng = Basis.of(problem, core), np.random.default_rng(0)
    simulator = Simulator(problem, core, seed=key_of(rng))
    means = Means(basis, basis.draw(simulator, np.arange(4000) % 8), 0.9)
    fitted = FAULTS[fault]
    theta = means.optimise() if fitted else np.zeros(8)
    rule = make_rule(means, means.fit(theta), 9000, 500, 0.9, 0.05, 0.0 if fitted else 2.0, fitted)
    rule = dataclasses.replace(rule, floor=0.0)  # it would hide a fault
    samples = basis.draw(simulator, rng.choice(8, 9000, p=rule.p))
    optimum = coreplan.evaluate(problem, uniform(problem)).optimum
    assert upper_bound(basis, rule, samples, 0.9).bound >= optimum
    broken = mutant(upper, *fault, tmp_path, monkeypatch)
    assert broken.upper_bound(basis, rule, samples, 0.9).bound < optimum
