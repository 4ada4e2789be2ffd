"""The bound from shared evidence: its inequalities by search, its roots, its slopes, and faults that make it miss."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.optimize import brentq

import coreplan
from coreplan import CoreSet, InputError, certify
from coreplan.judge import optimal_values
from coreplan.judge.certificate import evidence
from coreplan.judge.certificate.design import Estimate, designed
from coreplan.judge.certificate.evidence import Bets, Evidence, largest_bets
from coreplan.judge.certificate.first_half import Basis
from coreplan.judge.certificate.shared import SharedUpper, shared_bound
from coreplan.simulate import Simulator
from helpers.mutants import mutant
from helpers.policies import near_optimal, uniform


def setting(spec="random-linear", n=800, seed=0):
    """A basis, samples of its pairs, the simulator and the evidence."""
    problem = coreplan.make(spec)
    basis, simulator = (
        Basis.of(problem, CoreSet.of(problem)),
        Simulator(problem, CoreSet.of(problem), seed=seed),
    )
    samples = basis.draw(simulator, np.arange(n) % len(basis.J))
    return problem, basis, simulator, samples, Evidence(samples, basis.inverse, problem.discount)


def bets_for(e, target=3.0, doubt=0.5, seed=0):
    rng = np.random.default_rng(seed)
    ceiling, floor = 1 / (1 - e.gamma), np.zeros(e.rho + 1)
    lam = largest_bets(floor, ceiling, e.gamma) * rng.uniform(0.2, 1.0, e.rho + 1)
    return Bets(lam, np.full(e.rho + 1, doubt), floor, ceiling, target)


def test_the_tangent_lies_above_every_wealth():
    """With log M = doubt + log(e^s - 1) <= u at every s of the simplex: all on one unit, or spread by chance."""
    rng, bets = np.random.default_rng(0), bets_for(setting()[4])
    for _ in range(50):
        knot = rng.uniform(0.1, 5.0, 9)
        s = rng.dirichlet(np.full(9, 0.2)) * bets.total
        corners = np.stack([bets.wealth(knot, np.array([j])) for j in range(9)])
        mixed = s / bets.total @ corners  # u is linear in s between the corners
        with np.errstate(divide="ignore"):
            assert (bets.doubt + np.log(np.expm1(s)) <= mixed + 1e-9).all()


def test_the_product_of_wealths_has_mean_one():
    """E prod_j (eps_j + (1 - eps_j) M_j) = 1 for two units with two samples each, by enumeration."""
    values, p, lam, eps = np.array([0.0, 1.0, 3.0]), np.array([0.5, 0.3, 0.2]), (0.2, 0.3), (0.4, 0.7)
    mean, total = values @ p, 0.0
    for i in np.ndindex(3, 3, 3, 3):
        M = [
            np.prod([1 + lam[j] * (mean - values[k]) for k in pair]) for j, pair in enumerate((i[:2], i[2:]))
        ]
        total += np.prod(p[list(i)]) * np.prod([e + (1 - e) * m for e, m in zip(eps, M, strict=True)])
    assert total == pytest.approx(1.0, abs=1e-12)


def over(z, lam, x, u):
    return 2.5 * np.log1p(lam * (z - x)).sum() - u


def test_roots_are_those_of_a_bracketing_method():
    _, _, _, _, e = setting()
    bets = bets_for(e)
    x = e.outcomes(np.full(8, 5.0))[0]
    for u in (-2.0, 0.0, 3.0, 40.0):
        found = e._roots(x, bets.lam, np.full(9, u), np.full(9, 2.5), np.zeros(9))
        for j in range(9):
            mine = x[e.start[j] : e.start[j + 1]]
            low = mine.max() - 1 / bets.lam[j] * (1 - 1e-13)
            assert found[j] == pytest.approx(
                brentq(over, low, 1e6, (bets.lam[j], mine, u), xtol=1e-13), abs=1e-9
            )


@pytest.mark.parametrize("spec", ["random-linear", "river-linear:L=4", "river-swim"])
def test_the_solution_is_the_least_fixed_point(spec):
    """Policy iteration against plain iteration of F; and any number of steps stays above it."""
    _, _, _, _, e = setting(spec)
    bets = bets_for(e)
    u, q = bets.wealth(np.ones(e.rho + 1), np.array([1])), np.zeros(e.rho)
    for _ in range(600):
        q = np.maximum(
            e._roots(e.outcomes(q)[0], bets.lam, u, np.ones(e.rho + 1), np.append(q, 0.0))[:-1], 0.0
        )
    np.testing.assert_allclose(e.solve(bets, u).q, q, atol=1e-6 * q.max())
    for steps in (0, 1, 2):
        assert (e.solve(bets, u, steps=steps).q >= q - 1e-9).all()


def test_the_value_is_convex_so_that_corners_are_enough():
    """No point of the simplex of evidence has a larger value than the largest corner."""
    _, _, _, _, e = setting("river-linear:L=4", n=400)
    bets, rng = bets_for(e, target=2.0), np.random.default_rng(1)
    knot = np.ones(e.rho + 1)
    corners = [bets.wealth(knot, np.array([j])) for j in range(e.rho + 1)]
    top = max(e.solve(bets, u).value for u in corners)
    for _ in range(30):
        w = rng.dirichlet(np.full(e.rho + 1, 0.2))
        assert e.solve(bets, w @ np.array(corners)).value <= top + 1e-9


def test_slopes_are_those_of_finite_differences():
    _, _, _, _, e = setting()
    bets = bets_for(e)
    u = bets.wealth(np.ones(9), np.array([2]))
    found = e.solve(bets, u)
    slopes, h = found.slopes(), 1e-5
    for j in (0, 2, 5, 8):
        up = e.solve(bets, u + h * np.eye(9)[j]).value
        assert (up - found.value) / h == pytest.approx(slopes.kappa[j] * slopes.by_u[j], rel=2e-3, abs=1e-7)
        lam = bets.lam * np.exp(h * np.eye(9)[j])
        moved = e.solve(dataclasses.replace(bets, lam=lam), u).value
        assert (moved - found.value) / h == pytest.approx(
            slopes.kappa[j] * slopes.by_bet[j], rel=2e-3, abs=1e-7
        )


def without_floors(bets, gamma):
    """Bets that no floor helps or hides."""
    floor = np.zeros_like(bets.floor)
    return dataclasses.replace(
        bets, floor=floor, lam=np.minimum(bets.lam, largest_bets(floor, bets.ceiling, gamma))
    )


def bounds(module, runs, n=1500):
    """Bounds at 60% confidence from one design and fresh samples, and the optimum."""
    problem, basis, simulator, _, pilot = setting("river-swim", n=1200)
    table, gamma = problem.tabular(), problem.discount
    optimum = (1 - gamma) * table.nu0 @ optimal_values(table, gamma)[0]
    found = []
    design = designed(pilot, Estimate.of(pilot), n, 0.4, 15)
    for _ in range(runs):
        fresh = basis.draw(simulator, np.arange(n) % len(basis.J))
        mine = module.Evidence(fresh, basis.inverse, gamma)
        bets = module.Bets(
            *(getattr(without_floors(design.bets, gamma), f.name) for f in dataclasses.fields(Bets))
        )
        found.append(shared_bound(design, bets, mine))
    return np.array(found), optimum


def test_it_covers_and_faults_make_it_miss(tmp_path, monkeypatch):
    """40 bounds at 60%: 34 misses have probability below 1e-6; without the confidence, most of them miss."""
    found, optimum = bounds(evidence, 40)
    assert (found < optimum).sum() <= 33
    line = "u[raised] += b[raised] * self.total"
    broken = mutant(evidence, line, "u[:] = 0.0", tmp_path, monkeypatch)  # means in place of bounds
    low, _ = bounds(broken, 40)
    assert (low < optimum).sum() > (found < optimum).sum() and low.max() < found.min()


def test_a_ceiling_that_is_reached_proves_nothing():
    """Bets are fair only if V* is below the ceiling: where q passes it, the bound is 1."""
    e = setting()[4]
    estimate = Estimate.of(e)
    design = designed(e, estimate, 800, 0.05, 5)
    assert shared_bound(design, design.bets, e) < 1.0
    low = dataclasses.replace(design.bets, ceiling=float(estimate.q.max()) * 0.9)
    assert shared_bound(design, low, e) == 1.0


def test_where_the_ceiling_is_reached_a_higher_one_has_a_part_of_the_risk():
    """A pilot that is too small by chance costs width, not the bound."""
    problem, basis, simulator, samples, _ = setting("river-linear:L=4", n=4000)
    upper = SharedUpper(basis, samples, problem.discount, 0.025)
    upper.excess(8000)
    estimate = float(upper.estimate.q.max())
    low = dataclasses.replace(upper.design.bets, ceiling=1.02 * estimate)
    upper.design = dataclasses.replace(upper.design, bets=low)
    for spare, ceiling, risk in ((False, 1.02, 0.9 * 0.025), (True, 1.08, 0.1 * 0.025)):
        bets = upper.bets(8000, spare=spare)
        assert bets.ceiling == pytest.approx(ceiling * estimate) and np.exp(
            -bets.log_target
        ) == pytest.approx(risk)
        assert (bets.lam <= largest_bets(bets.floor, bets.ceiling, problem.discount)).all()
    upper.design = dataclasses.replace(upper.design, bets=dataclasses.replace(low, ceiling=1.05 * estimate))
    fresh = upper.bound(simulator, 8000)
    alone = shared_bound(upper.design, upper.bets(8000), Evidence(fresh[1], basis.inverse, problem.discount))
    assert alone == 1.0 and 0.1386 < fresh[0] < 0.3


def test_limits_fit_what_the_bound_leaves():
    """At every corner q is below the ceiling, and no floor but those of a few is in the way; on fresh samples."""
    problem, basis, simulator, samples, _ = setting("river-linear:L=4", n=8000, seed=3)
    upper = SharedUpper(basis, samples, problem.discount, 0.025)
    upper.excess(16000)
    _, fresh = upper.bound(simulator, 16000)
    e, d = Evidence(fresh, basis.inverse, problem.discount), upper.design
    found = [e.solve(d.bets, d.bets.wealth(d.knot, group)) for group in d.groups]
    assert max(f.q.max() for f in found) < d.bets.ceiling < 1.3 * upper.estimate.q.max()
    lowest = np.min([f.q for f in found], axis=0)
    assert (d.bets.floor[:-1] > 0.8 * lowest).all() and (d.bets.floor[:-1] <= lowest + 1e-9).all()


def test_samples_that_may_share_noise_are_refused():
    _, basis, _, samples, _ = setting()
    shared_noise = dataclasses.replace(samples, independent=False)
    with pytest.raises(InputError, match="independent"):
        Evidence(shared_noise, basis.inverse, 0.9)
    with pytest.raises(InputError, match="independent"):
        SharedUpper(basis, shared_noise, 0.9, 0.025)


# Without noise.


def grid(side=30, seed=1):
    """side x side cells, four moves, a goal in the corner; start anywhere. The model, its rewards and next cells."""
    X, cost = side * side, np.random.default_rng(seed).random(side * side)

    def step(states, actions, noise):
        row, column = np.divmod(states, side)
        row = np.clip(row + np.array([-1, 1, 0, 0])[actions], 0, side - 1)
        column = np.clip(column + np.array([0, 0, -1, 1])[actions], 0, side - 1)
        there = states == X - 1
        return np.where(there, 1.0, 0.3 * cost[states]), np.where(there, states, row * side + column)

    model = coreplan.NoiseModel(4, lambda rng, n: rng.integers(X, size=n), step, noise_dimension=0)
    states, actions = np.divmod(np.arange(4 * X), 4)
    return model, *step(states, actions, None)


def test_a_grid_without_noise_is_solved_exactly():
    """3,600 pairs, one query each: upper is the optimum but for the initial states' chance."""
    model, r, y = grid()
    problem = coreplan.Problem(model, coreplan.features.one_hot(900, 4), 0.9)
    V = np.zeros(900)
    for _ in range(400):
        V = (r + 0.9 * V[y]).reshape(900, 4).max(axis=1)
    policy = coreplan.SoftmaxPolicy(r + 0.9 * V[y], np.inf, problem.features)
    c = certify(problem, None, policy, queries=12_000)
    optimum = 0.1 * V.mean()
    assert c.lower <= optimum <= c.upper <= optimum + 0.004 and c.lower > optimum - 0.03
    assert c.holds and c.gap < 0.04 and any("its model says so" in a for a in c.assumes)
    with pytest.raises(InputError, match=r"3,600 core pairs.*at least 4,780"):
        certify(problem, None, policy, queries=4000)

    silent = coreplan.FunctionModel(
        4, model.initial, lambda rng, x, a: model.step_with(x, a, np.zeros((len(a), 0)))
    )
    told = certify(dataclasses.replace(problem, model=silent), None, policy, queries=12_000)
    assert told.upper < optimum + 0.004 and any("repeated queries agreed" in a for a in told.assumes)


def test_a_simulator_with_noise_is_not_taken_for_deterministic():
    problem = coreplan.make("river-swim")
    assert not any(
        "deterministic" in a for a in certify(problem, None, uniform(problem), queries=2000).assumes
    )


def test_a_core_too_large_for_memory_is_refused_with_the_number(monkeypatch):
    model, _, _ = grid()
    problem = coreplan.Problem(model, coreplan.features.one_hot(900, 4), 0.9)
    monkeypatch.setattr("coreplan.judge.certificate.limits.available_memory", lambda: 1e7)
    with pytest.raises(InputError, match=r"3,600 core pairs.*GB may be used"):
        certify(problem, None, uniform(problem), queries=50_000)


# A gap that is asked for.


def test_a_target_is_reached_and_said_beforehand():
    problem, said = coreplan.make("random-linear"), []
    c = certify(problem, None, near_optimal(problem), queries=1_000_000, target=0.2, tell=said.append)
    assert c.gap <= 0.2 and c.queries < 500_000
    assert "gap of 0.2 will take about" in said[0] and "pilot" in said[0]


def test_a_target_out_of_reach_is_refused_with_the_queries_it_would_take():
    problem = coreplan.make("random-linear")
    with pytest.raises(
        InputError, match=r"out of reach of 5,000 queries.*about [\d,]{6,} queries.*queries=[\d,]+"
    ):
        certify(problem, None, near_optimal(problem), queries=5000, target=0.01)


def test_a_target_may_take_the_whole_budget_and_no_more():
    problem = coreplan.make("river-swim")
    assert certify(problem, None, near_optimal(problem), queries=4000, target=0.9).queries <= 4000


@pytest.mark.parametrize("target", [0.0, -0.1, 1.5, "much", np.nan])
def test_bad_targets(target):
    problem = coreplan.make("random-linear")
    with pytest.raises(InputError, match="above 0 and at most 1"):
        certify(problem, None, uniform(problem), target=target)


def test_largest_bets_never_lose_more_than_the_stake():
    floor, gamma = np.array([0.0, 2.0, 0.0]), 0.9
    lam = largest_bets(floor, 5.0, gamma)
    worst = np.array([1 + gamma * 5.0, 1 + gamma * 5.0, 5.0])
    assert (1 + lam * (floor - worst) >= 1 - evidence.STAKE - 1e-12).all()
