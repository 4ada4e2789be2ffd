"""The certificate: its inequalities against exact enumeration, its coverage, and what it says when it cannot hold."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

import coreplan
from coreplan import CoreSet, FunctionFeatures, InputError, SoftmaxPolicy, certify
from coreplan.cli import app
from coreplan.features import dense_rows
from coreplan.judge import optimal_values, policy_value, value_function
from coreplan.judge.certificate import fitting, lower, upper
from coreplan.judge.certificate.fitting import Basis, Means, PolicyValues
from coreplan.judge.certificate.upper import explore, make_rule, upper_bound
from coreplan.sampled import intervals as betting
from coreplan.simulate import Guard
from coreplan.theory import Enumerated
from mutants import mutant

EXACT = ["random-linear", "river-linear:L=4", "hard-linear", "river-swim"]


def near_optimal(problem):
    e = Enumerated.of(problem)
    Q = optimal_values(e.table, e.discount)[1].ravel()
    Phi = e.Phi.toarray() if hasattr(e.Phi, "toarray") else e.Phi
    return SoftmaxPolicy(np.linalg.lstsq(Phi, Q, rcond=None)[0], np.inf, problem.features)


def uniform(problem):
    return SoftmaxPolicy.uniform(problem.features)


# Betting.


@pytest.mark.parametrize("kind", ["rare", "beta", "constant"])
def test_lower_mean_covers(kind):
    """400 intervals at 90%: 73 misses or more have probability below 1e-6 if each misses with at most 10%."""
    rng = np.random.default_rng(0)
    draw = {
        "rare": lambda: 1.0 - (rng.random(200) < 0.01),  # the hard case: the bad outcome is rarely seen
        "beta": lambda: rng.beta(2, 5, 200),
        "constant": lambda: np.full(200, 0.4),
    }[kind]
    mean = {"rare": 0.99, "beta": 2 / 7, "constant": 0.4}[kind]
    bounds = np.array([betting.lower_mean(draw(), 0.0, 0.1, 0.2, 200) for _ in range(400)])
    assert binom.sf(72, 400, 0.1) < 1e-6
    assert (bounds > mean).sum() <= 72
    assert np.median(mean - bounds) < {"rare": 0.03, "beta": 0.04, "constant": 0.02}[kind]


def test_the_bet_is_lost_where_its_stake_is_not_bounded(tmp_path, monkeypatch):
    """Fault: staking more than the worst outcome allows. Rare disasters are then bet away."""
    broken = mutant(betting, "most = _STAKE / (m - low)", "most = 1e9", tmp_path, monkeypatch)
    z = np.append(np.full(50, 1.0), 0.0)
    with pytest.raises((ValueError, AssertionError)):
        assert broken.lower_mean(z, 0.0, 0.05, 1e-3, 50) <= betting.lower_mean(z, 0.0, 0.05, 1e-3, 50) + 1e-9


@pytest.mark.parametrize("c", [1e-6, 0.1, 0.5, 0.99])
def test_curvature_is_a_lower_parabola(c):
    u = np.linspace(-c, 3.0, 10_001)
    g = betting.curvature(c)
    assert (np.log1p(u) >= u - g * u**2 - 1e-12).all()
    assert np.log1p(-c) == pytest.approx(-c - g * c**2, abs=2e-3 * c)


# The upper bound: the facts behind it.


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
    dense = problem.features.nonzeros is None
    rng = np.random.default_rng(1)
    theta, B = rng.standard_normal(problem.features.dimension), 0.2 * rng.standard_normal((8, 5))
    V, D, U = explore(phi, theta, B)
    full = (
        phi
        if dense
        else dense_rows(
            type(phi)(phi.index.reshape(-1, phi.index.shape[2]), phi.weight.reshape(-1, phi.index.shape[2])),
            8,
        ).reshape(*phi.index.shape[:2], 8)
    )
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
    x = s.rewards + gamma * fitting.greedy_values(s.phi, theta) - (basis.Phi @ theta)[s.pair]
    Y = (1 - gamma) * fitting.greedy_values(s.initial_phi, theta) + (kappa / rule.p)[s.pair] * x
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
    basis, guard, rng = Basis.of(problem, core), Guard(problem, like=core.states), np.random.default_rng(5)
    assert basis.signed == (spec == "hard-linear")  # weights may be negative there
    rho, gamma = len(basis.actions), problem.discount
    for n in (2000, 20_000):
        means = Means(basis, basis.draw(problem, guard, np.arange(n // 2) % rho, rng), gamma)
        rule = make_rule(means, means.fit(means.optimise()), n, means.count.min(), gamma, 0.025, heavy)
        s = basis.draw(problem, guard, rng.choice(rho, n, p=rule.p), rng)
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
    basis = Basis(np.zeros(1), np.zeros(1, np.int64), np.array([[w]]), np.array([[1 / w]]), C, C * w)
    fit = fitting.Fit(np.ones(1), np.zeros((1, 1)), np.ones(1), np.array([-w]), np.zeros(1), 0.0)
    L = (away - bet * away**2 / 2) * bet * n
    rule = upper.Rule(fit, np.ones(1), np.zeros(1), n, L, bet, np.array([sigma * w / away]), -w)
    none = np.zeros((n, 1, 1))
    same = fitting.Samples(np.zeros(n, np.int64), np.zeros(n), np.zeros(n), none, np.zeros(n), none)
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


def test_no_bound_where_a_sample_breaks_the_bets():
    """A sample beyond what the hull allows could ruin the bets; then 1, which holds without any assumption."""
    basis, rule, s = nearly_equal(1.5, 0.1)
    s = dataclasses.replace(s, rewards=np.where(np.arange(50) == 7, 4.0, 0.0))
    assert upper_bound(basis, rule, s, 0.9).bound == 1.0


def bounds(module, spec, runs, heavy, n=4000):
    """Upper bounds of one rule over fresh second halves, at 60% confidence, and the optimum."""
    problem = coreplan.make(spec)
    table = problem.tabular()
    optimum = (1 - problem.discount) * table.nu0 @ optimal_values(table, problem.discount)[0]
    core = CoreSet.of(problem)
    basis, guard, rng = Basis.of(problem, core), Guard(problem, like=core.states), np.random.default_rng(3)
    rho, gamma, found = len(basis.actions), problem.discount, []
    for _ in range(runs):
        means = Means(basis, basis.draw(problem, guard, np.arange(50 * rho) % rho, rng), gamma)
        rule = module.make_rule(means, means.fit(means.optimise()), n, 50, gamma, 0.4, heavy)
        found.append(
            module.upper_bound(
                basis, rule, basis.draw(problem, guard, rng.choice(rho, n, p=rule.p), rng), gamma
            ).bound
        )
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
    samples = basis.draw(problem, Guard(problem, like=core.states), np.arange(60 * rho) % rho, rng)
    means = Means(basis, samples, gamma)
    rule = make_rule(means, means.fit(means.optimise()), 3000, 60, gamma, 0.05, heavy)
    phi, kappa = problem.features(problem.tabular().states), rule.fit.kappa
    corners = np.concatenate([basis.C, kappa[None], (basis.C + kappa) / 2])
    for s in (*rng.choice([-1.0, 1.0], size=(20, rho)), np.ones(rho), -np.ones(rho)):
        theta = rule.fit.theta + rule.fit.B @ (rule.tau * s)
        V = fitting.greedy_values(phi, theta)
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
    basis, guard, rng = Basis.of(problem, core), Guard(problem, like=core.states), np.random.default_rng(0)
    means = Means(basis, basis.draw(problem, guard, np.arange(4000) % 8, rng), 0.9)
    fitted = FAULTS[fault]
    theta = means.optimise() if fitted else np.zeros(8)
    rule = make_rule(means, means.fit(theta), 9000, 500, 0.9, 0.05, 0.0 if fitted else 2.0, fitted)
    rule = dataclasses.replace(rule, floor=0.0)  # it would hide a fault
    samples = basis.draw(problem, guard, rng.choice(8, 9000, p=rule.p), rng)
    optimum = coreplan.evaluate(problem, uniform(problem)).optimum
    assert upper_bound(basis, rule, samples, 0.9).bound >= optimum
    broken = mutant(upper, *fault, tmp_path, monkeypatch)
    assert broken.upper_bound(basis, rule, samples, 0.9).bound < optimum


# The lower bound.


@pytest.mark.parametrize("good", [True, False])
@pytest.mark.parametrize("policy", [near_optimal, uniform])
def test_rollouts_never_overstate(policy, good):
    """The mean outcome is at most the value, and near it; with a useless V too. 6 standard errors: rarer than 1e-6."""
    problem = coreplan.make("random-linear")
    pi, rng = policy(problem), np.random.default_rng(0)
    basis = Basis.of(problem, CoreSet.of(problem))
    first = basis.draw(problem, Guard(problem), np.arange(4000) % 8, rng)
    fitted = PolicyValues.of(basis, first, 0.9, pi)
    if not good:
        fitted = dataclasses.replace(fitted, theta=np.linspace(0, 9, 8))
    value = policy_value(problem.tabular(), pi, 0.9)
    steps = lower.lengths(200_000, 0.9**lower._C, rng)
    z, lows, queries, _ = lower._rollouts(problem, Guard(problem), pi, fitted, steps, -np.inf, rng)
    z, error = 0.1 * z, 0.1 * z.std() / np.sqrt(len(z))
    # Rollouts that are cut at the longest length, one in 3,000, lose at most V.
    assert value - 1e-3 - 6 * error <= z.mean() <= value + 6 * error
    assert queries == steps.sum()
    cut, _, _, _ = lower._rollouts(problem, Guard(problem), pi, fitted, steps, float(np.median(lows)), rng)
    assert 0.1 * cut.mean() <= value + 6 * 0.1 * cut.std() / np.sqrt(len(cut))
    line = float(np.median(lows)) - (1 - 0.9**lower._C) * fitted.high
    assert cut.min() >= line - 1e-9


def test_fitted_policy_values_are_near_exact():
    """LSTD-Q on many samples against the table: 20,000 samples a pair leave a few thousandths."""
    problem = coreplan.make("random-linear")
    pi, rng = uniform(problem), np.random.default_rng(0)
    basis = Basis.of(problem, CoreSet.of(problem))
    first = basis.draw(problem, Guard(problem), np.arange(160_000) % 8, rng)
    V = PolicyValues.of(basis, first, 0.9, pi).values(problem, np.arange(200))
    np.testing.assert_allclose(V, value_function(problem.tabular(), np.full((200, 4), 0.25), 0.9), atol=0.05)


def test_lengths_keep_the_budget():
    rng = np.random.default_rng(0)
    for budget in (100, 5000, 100_000):
        steps = lower.lengths(budget, 0.9, rng)
        assert (len(steps) >= 1 and budget - 80 <= steps.sum() <= budget) or budget < 200


# The whole.


@pytest.mark.parametrize("spec", EXACT)
def test_certificates_cover(spec):
    """8 certificates at 99.9%: two misses would be rarer than 1e-4 even if the bounds were not conservative."""
    problem = coreplan.make(spec)
    for seed, policy in itertools.product(range(4), (near_optimal(problem), uniform(problem))):
        c = certify(problem, None, policy, queries=10_000, confidence=0.999, seed=seed)
        assert c.lower <= c.exact.value + 1e-12 and c.upper >= c.exact.optimum - 1e-12
        assert c.holds and c.queries <= 10_000 and c.initial_draws > 0
        assert c.gap == c.upper - c.lower >= c.exact.gap - 1e-12


def test_width_on_random_linear():
    problem = coreplan.make("random-linear")
    c = certify(problem, None, near_optimal(problem), queries=50_000)
    assert c.gap <= 0.05 * (c.exact.optimum - c.exact.uniform)
    assert 49_000 <= c.queries <= 50_000
    assert "within" in c.sentence and any("linear" in a for a in c.assumes)


def test_same_seed_same_bits_and_the_simulator_counts():
    problem = coreplan.make("random-linear:compiled=false")
    calls = [0]

    def step(rng, states, actions):
        calls[0] += len(actions)
        return problem.model.step(rng, states, actions)

    model = coreplan.FunctionModel(4, problem.model.initial, step)
    counted = dataclasses.replace(problem, model=model)
    one = certify(counted, None, uniform(problem), queries=5000, seed=4)
    assert calls[0] == one.queries
    compiled = coreplan.make("random-linear")
    two = certify(compiled, None, uniform(compiled), queries=5000, seed=4)
    assert (one.lower, one.upper) == (two.lower, two.upper)
    assert certify(problem, None, uniform(problem), queries=5000, seed=5).lower != one.lower


@pytest.mark.parametrize("positions", [1, 3])
@pytest.mark.parametrize("policy", [near_optimal, uniform])
def test_a_core_without_its_last_positions_is_denied(positions, policy):
    problem = coreplan.make("river-linear")
    core = CoreSet.of(problem)
    keep = core.states < 10 - positions
    c = certify(problem, CoreSet(core.states[keep], core.actions[keep]), policy(problem), queries=10_000)
    assert not c.holds and c.condition.hull_error > 0.1
    assert c.lower <= c.exact.value and "No certificate" in c.sentence
    assert c.gap is None and json.loads(json.dumps(c.as_dict(), allow_nan=False))["gap"] is None


def test_rewards_that_are_not_linear_are_denied():
    """random-linear with a reward that the features do not see: 1 at one action of each state in the half."""
    problem = coreplan.make("random-linear:compiled=false")
    core = CoreSet.of(problem)

    def step(rng, states, actions):
        rewards, y = problem.model.step(rng, states, actions)
        at_core = (states[:, None] == core.states).any(axis=1)
        return np.where(at_core, rewards, 1.0), y

    model = coreplan.FunctionModel(4, problem.model.initial, step)
    other = dataclasses.replace(problem, model=model, tabular=None)
    c = certify(other, None, uniform(problem), queries=20_000)
    assert not c.holds and c.condition.hull_exact and c.condition.excess > 0.1 and c.exact is None
    assert "raised" in " ".join(c.assumes) and c.condition.excess == c.condition.unseen


def misspecified(size):
    """random-linear where, away from the core's states, a share `size` of transitions pays 1 instead: (p, its optimum)."""
    problem = coreplan.make("random-linear:compiled=false")
    core, table = CoreSet.of(problem), problem.tabular()
    seen = np.isin(table.states, core.states)
    r = np.where(seen[:, None], table.r, (1 - size) * table.r + size)

    def step(rng, states, actions):
        rewards, y = problem.model.step(rng, states, actions)
        paid = (rng.random(len(rewards)) < size) & ~np.isin(states, core.states)
        return np.where(paid, 1.0, rewards), y

    model = coreplan.FunctionModel(4, problem.model.initial, step)
    optimum = 0.1 * table.nu0 @ optimal_values(dataclasses.replace(table, r=r), 0.9)[0]
    return dataclasses.replace(problem, model=model, tabular=None), optimum


@pytest.mark.parametrize("seed", range(3))
def test_what_passes_unseen_is_covered_by_what_may_be_unseen(seed):
    """A bonus of 0.04 in rewards passes, and the optimum exceeds upper; upper + unseen covers it, at 99.9% confidence."""
    problem, optimum = misspecified(0.1)
    c = certify(problem, None, uniform(problem), queries=50_000, confidence=0.999, seed=seed)
    assert c.holds and c.upper < optimum <= c.upper + c.condition.unseen
    assert f"{c.condition.unseen:.3g} would have passed unseen" in " ".join(c.assumes)
    assert c.as_dict()["condition"]["unseen"] == c.condition.unseen and "unseen" in c.sentence


def test_bounds_that_cross_are_no_certificate(monkeypatch):
    problem = coreplan.make("random-linear")
    low = upper.Upper(0.1, 0.1, 0.0, 0.0, 0.0)
    monkeypatch.setattr(sys.modules["coreplan.judge.certificate.certificate"], "upper_bound", lambda *_: low)
    c = certify(problem, None, near_optimal(problem), queries=5000)
    assert c.condition.holds and not c.holds and c.gap is None and "below lower" in c.assumes[-1]


@pytest.mark.parametrize("spec", ["random-linear", "river-linear", "random-linear:discount=0.99"])
@pytest.mark.parametrize("queries", [2000, 20_000])
def test_queries_are_spent(spec, queries):
    """All but the remainder of 32 fresh pairs; what rollouts save by being given up goes to more of them."""
    problem = coreplan.make(spec)
    queries = max(queries, 6000 if problem.discount > 0.98 else 0)
    assert queries - 32 < certify(problem, None, uniform(problem), queries=queries).queries <= queries


def test_what_does_not_fit_into_memory_is_said_before_the_first_query(monkeypatch):
    problem = coreplan.make("random-linear:compiled=false")

    def step(rng, states, actions):
        raise AssertionError("queried")

    mute = dataclasses.replace(problem, model=coreplan.FunctionModel(4, problem.model.initial, step))
    monkeypatch.setattr(
        sys.modules["coreplan.judge.certificate.certificate"], "available_memory", lambda: 4e6
    )
    with pytest.raises(InputError, match=r"GB may be used here.*at least 1,000"):
        certify(mute, None, uniform(problem), queries=20_000)
    assert certify(problem, None, uniform(problem), queries=2000).queries


def test_a_theta_of_ones_own():
    problem = coreplan.make("random-linear")
    policy = near_optimal(problem)
    own = certify(problem, None, policy, theta=policy.theta, queries=20_000)
    poor = certify(problem, None, policy, theta=np.zeros(8), queries=20_000)
    assert own.exact.optimum <= own.upper < own.exact.optimum + 0.05
    assert poor.upper >= poor.exact.optimum


def test_other_reward_units_give_the_same_certificate():
    problem = coreplan.make("random-linear:compiled=false")

    def step(rng, states, actions):
        rewards, y = problem.model.step(rng, states, actions)
        return 10 * rewards - 3, y

    model = coreplan.FunctionModel(4, problem.model.initial, step)
    scaled = dataclasses.replace(problem, model=model, reward_range=(-3, 7), tabular=None)
    a, b = (certify(p, None, uniform(problem), queries=5000) for p in (problem, scaled))
    assert a.lower == pytest.approx(b.lower, abs=1e-9) and a.upper == pytest.approx(b.upper, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"confidence": 1.0}, "strictly between 0 and 1"),
        ({"confidence": "high"}, "strictly between 0 and 1"),
        ({"queries": 500}, "too few.*at least 1,000"),
        ({"queries": 0.5}, "whole number"),
        ({"theta": np.zeros(3)}, "8 finite numbers"),
        ({"policy": None}, "Plan first"),
        ({"core": "core"}, "CoreSet"),
        ({"problem": "random-linear"}, "Problem"),
    ],
)
def test_bad_wishes(changes, words):
    problem = coreplan.make("random-linear")
    wish = {"problem": problem, "core": None, "policy": uniform(problem)} | changes
    with pytest.raises(InputError, match=words):
        certify(**wish)


def test_foreign_features():
    problem, other = coreplan.make("random-linear"), coreplan.make("random-linear:instance=1")
    with pytest.raises(InputError, match="other features"):
        certify(problem, None, uniform(other))
    bare = SoftmaxPolicy(np.zeros(8), 1.0)
    with pytest.raises(InputError, match="without its features"):
        certify(problem, None, bare)


def test_a_problem_without_core():
    features = FunctionFeatures(lambda x: np.ones((len(x), 4, 8)) / 8, 4, 8, 1.0)
    problem = dataclasses.replace(coreplan.make("random-linear"), features=features, core_pairs=None)
    with pytest.raises(InputError, match="no core set"):
        certify(problem, None, uniform(problem))


# The command line.


def run(*arguments):
    return CliRunner().invoke(app, arguments, catch_exceptions=True)


def test_commands(tmp_path):
    out = str(tmp_path / "run")
    done = run("plan", "random-linear", "--budget", "3000", "--out", out, "--certify", "--json")
    assert done.exit_code == 0, done.output
    planned = json.loads(done.stdout)["certificate"]
    assert planned["lower"] <= planned["exact"]["value"] and planned["holds"]
    done = run("certify", out, "--queries", "5000", "--json")
    record = json.loads(done.stdout)
    assert done.exit_code == 0 and record["problem"] == "random-linear" and record["queries"] <= 5000
    assert record["upper"] >= record["exact"]["optimum"]
    done = run("certify", out, "--queries", "5000")
    assert done.exit_code == 0 and "exact gap" in done.stdout and "assumes" in done.stdout


def test_certify_needs_the_problem_of_ones_own(tmp_path):
    problem = dataclasses.replace(coreplan.make("random-linear"), name="mine")
    uniform(problem).save(tmp_path / "policy.npz")
    done = run("certify", str(tmp_path))
    assert isinstance(done.exception, InputError) and "--problem" in str(done.exception)
    assert isinstance(run("certify", str(tmp_path / "nothing")).exception, coreplan.FileError)


def test_certify_uses_the_core_that_was_given(tmp_path):
    """The run remembers core pairs given by hand, from its start;."""
    problem = coreplan.make("river-linear")
    own = CoreSet.of(problem)
    few = CoreSet(own.states[own.states < 9], own.actions[own.states < 9])
    coreplan.plan(problem, few, budget=2000, out=tmp_path / "few")
    coreplan.plan(problem, own, budget=2000, out=tmp_path / "own")
    assert not (tmp_path / "own" / "core.npz").exists()
    for name, holds in (("few", False), ("few/policy.npz", False), ("own", True)):
        record = json.loads(run("certify", str(tmp_path / name), "--queries", "5000", "--json").stdout)
        assert record["holds"] is holds and (record["gap"] is None) is not holds, name
    file = tmp_path / "few" / "core.npz"
    assert (CoreSet.load(file).states == few.states).all()

    def refused(words):
        done = run("certify", str(tmp_path / "few"), "--queries", "5000")
        assert isinstance(done.exception, coreplan.FileError) and words in str(done.exception), done.exception

    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    refused("damaged")
    own.save(file)
    refused("not those of the run")
    file.unlink()
    refused("not in")
    file.write_bytes(whole)
    (tmp_path / "few" / "run.json").write_text("[")
    refused("record of a run")
