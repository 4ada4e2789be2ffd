"""The three LP pairs: verified answers, agreement with policy iteration, errors that say what to do."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import OptimizeResult

import coreplan
from coreplan.core import CoreSet
from coreplan.problem import Tabular, all_pairs, one_hot, table_features, tabular_model
from coreplan.sampled import FORMS, SolverError, UnboundedError, verified
from coreplan.sampled import lp as sampled_lp
from coreplan.theory import PAIRS, Enumerated, lp, occupancy, optimal, solve


def random_sparse(X, A, successors, seed=0, discount=0.95):
    """A random MDP with at most `successors` next states a pair, tabular features, all pairs core."""
    rng = np.random.default_rng(seed)
    Z = X * A
    index, weight = rng.integers(0, X, size=(Z, successors)), rng.dirichlet(np.ones(successors), size=Z)
    rows = np.repeat(np.arange(Z), successors)
    P = sparse.csr_matrix((weight.ravel(), (rows, index.ravel())), shape=(Z, X))
    table = Tabular(np.arange(X), rng.random((X, A)), rng.dirichlet(np.ones(X)), P=P)
    return coreplan.Problem(
        tabular_model(table), one_hot(X, A), discount, core_pairs=all_pairs(X, A), tabular=lambda: table
    )


def best_value(e):
    return (1 - e.discount) * float(e.nu0 @ optimal(e)[0].V)


@pytest.mark.parametrize("which", PAIRS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("problem", ["river-swim", "river-swim-long", "random-linear", "sparse"])
def test_values_agree_with_policy_iteration(problem, which, form):
    e = Enumerated.of(random_sparse(150, 4, 6) if problem == "sparse" else coreplan.make(problem))
    found = solve(e, which, form)
    assert found.value == pytest.approx(best_value(e), abs=1e-6)
    assert found.error <= 5e-7 and found.primal_value == pytest.approx(found.value, abs=5e-7)
    if which == "classic":
        flow = e.E.T @ found.mu - (1 - e.discount) * e.nu0 - e.discount * (e.P.T @ found.mu)
        assert np.abs(flow).max() < 1e-6 and found.u is None and found.theta is None
    else:
        assert len(found.u) == e.Z and len(found.theta) == e.d


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("which", PAIRS)
def test_two_thousand_states(which, form):
    """2,000 states x 10 actions, 20 successors: the size at which dual simplex was seen to go wrong."""
    e = Enumerated.of(random_sparse(2000, 10, 20, seed=1))
    assert solve(e, which, form).value == pytest.approx(best_value(e), abs=1e-6)


def test_an_incomplete_core_set_is_reported():
    problem = coreplan.make("random-linear")
    whole = CoreSet.of(problem)
    part = CoreSet(whole.states[:5], whole.actions[:5])
    for form in FORMS:
        with pytest.raises(
            UnboundedError, match=r"core set is incomplete: a feature lies .* outside.*Add core pairs"
        ):
            solve(Enumerated.of(problem, part), "core", form)


def test_a_lying_solver_is_not_believed(monkeypatch):
    """Status "optimal" with a wrong point: never returned."""

    def lies(c, **arguments):
        n = len(c)
        rows = arguments["A_ub"].shape[0] if "A_ub" in arguments else arguments["A_eq"].shape[0]
        zero = OptimizeResult(marginals=np.zeros(rows))
        return OptimizeResult(x=np.zeros(n), status=0, message="optimal", ineqlin=zero, eqlin=zero)

    monkeypatch.setattr(verified, "linprog", lies)
    e = Enumerated.of(coreplan.make("river-swim"))
    for which in PAIRS:
        for form in FORMS:
            with pytest.raises(
                SolverError, match=r"No answer for the .* could be verified .*the value may be off by"
            ):
                solve(e, which, form)


def test_points_that_are_slightly_infeasible_add_up_and_are_refused(monkeypatch):
    """Every constraint is violated by less than 1e-7 and the two values agree, yet both are off by 1e-4 or more."""
    e = Enumerated.of(random_sparse(2000, 10, 20, seed=1))
    values, best = optimal(e)
    mu, V, s = occupancy(e, best), values.V, 2e-4
    value = (1 - e.discount) * float(e.nu0 @ V)

    def forged(c, **arguments):
        y, w = mu * (1 + s), V + value * s / (1 - e.discount)
        return OptimizeResult(x=w, status=0, message="", ineqlin=OptimizeResult(marginals=-y))

    monkeypatch.setattr(verified, "linprog", forged)
    with pytest.raises(SolverError, match="could be verified"):
        solve(e, "classic", "dual")


def test_features_that_cannot_represent_are_blamed():
    problem = dataclasses.replace(
        coreplan.make("river-swim"), features=table_features(np.zeros((6, 2, 3)), 3, 1.0)
    )
    for which in ("relaxed", "core"):
        with pytest.raises(UnboundedError, match="features cannot represent"):
            solve(Enumerated.of(problem), which)


def test_a_failing_setting_falls_back(monkeypatch):
    real, calls = verified.linprog, []

    def flaky(*arguments, **named):
        calls.append(named["method"])
        if len(calls) == 1:
            return OptimizeResult(x=None, status=4, message="numerical difficulties")
        return real(*arguments, **named)

    monkeypatch.setattr(verified, "linprog", flaky)
    e = Enumerated.of(coreplan.make("river-swim"))
    assert solve(e, "classic").value == pytest.approx(best_value(e), abs=1e-6)
    assert len(calls) == 2


@pytest.mark.parametrize(("which", "form"), [("dual", "dual"), ("core", "both")])
def test_bad_names(which, form):
    with pytest.raises(coreplan.InputError, match="classic, relaxed, core"):
        solve(Enumerated.of(coreplan.make("river-swim")), which, form)


def test_a_dual_point_that_violates_its_constraints_costs_what_it_may_hide():
    """min w s.t. w >= 1 has the value 1; w = .9 with the optimal y = 1 may be off by .1 in value and .1 by violation."""
    pair = verified.Pair(np.array([1.0]), sparse.csc_matrix([[1.0]]), np.array([1.0]), 1)
    assert verified.gap(pair, np.array([1.0]), np.array([1.0])) == 0.0
    assert verified.gap(pair, np.array([1.0]), np.array([0.9])) == pytest.approx(0.2)
    assert verified.gap(pair, np.array([0.9]), np.array([0.9])) == pytest.approx(0.09 + 0.1 * 1.0)


def test_one_violated_constraint_among_others_costs_as_much():
    """min w s.t. w >= 1, w >= 0: at w = .9 the second has .9 to spare, which mends nothing; a negative y costs by it."""
    pair = verified.Pair(np.array([1.0, 0.0]), sparse.csc_matrix([[1.0, 1.0]]), np.array([1.0]), 1)
    assert verified.gap(pair, np.array([1.0, 0.0]), np.array([0.9])) == pytest.approx(0.2)
    # <c, y> = 1.1; n = .1 is multiplied by 1 at least.
    assert verified.gap(pair, np.array([1.1, -0.1]), np.array([1.0])) == pytest.approx(0.1 + 0.1)
    assert verified.gap(pair, np.array([1.1, -0.1]), np.array([3.0])) == pytest.approx(1.9 + 0.1 * 3.0)


def test_the_core_lp_of_an_inexact_core_set_says_that_its_value_is_none():
    """Finite, and far off: without one core pair. With the exact set there is nothing to say."""
    problem = coreplan.make("random-linear:states=12,actions=3,d=4,discount=0.8")
    e = Enumerated.of(problem)
    assert solve(e, "core").note == "" and str(solve(e, "core")) == f"{solve(e, 'core').value:.6g}"
    shrunk = dataclasses.replace(e, Phi=inwards(np.asarray(e.Phi), e.rows))
    found, best = solve(shrunk, "core"), solve(e, "classic").value
    assert abs(found.value - best) > 0.01
    assert "NOT the optimum" in found.note and found.note in str(found) and "saddle_point" in found.note
    assert solve(shrunk, "classic").note == ""


def test_whether_a_large_core_is_exact_is_not_measured_and_said(monkeypatch):
    """With all pairs as the core there is nothing to measure, however many they are."""
    monkeypatch.setattr("coreplan.theory.lp.MOST_WEIGHTS", 10)
    problem = coreplan.make("random-linear")
    assert "was not measured" in solve(Enumerated.of(problem), "core").note
    assert solve(Enumerated.of(random_sparse(20, 2, 3)), "core").note == ""


def test_both_the_coefficients_and_the_features_may_be_too_many_to_measure_a_core(monkeypatch):
    """792 others in 8 core features are 6,336 coefficients, and 800 features have 6,400 entries; the limit is inclusive."""
    e = Enumerated.of(coreplan.make("random-linear"))
    more = dataclasses.replace(e, rows=np.arange(100))  # 70,000 coefficients
    for most, of_e, of_more in (
        (6399, False, False),
        (6400, True, False),
        (69_999, True, False),
        (70_000, True, True),
    ):
        monkeypatch.setattr("coreplan.theory.lp.MOST_WEIGHTS", most)
        assert (lp._outside(e) is not None) == of_e
        assert (lp._outside(more) is not None) == of_more
    assert lp._outside(e) == 0.0


def inwards(Phi, rows):
    """The features with the core's own moved halfway to their mean: the others lie outside of their hull."""
    Phi = Phi.copy()
    Phi[rows] = 0.5 * Phi[rows] + 0.5 * Phi[rows].mean(axis=0)
    return Phi


def test_the_relaxed_lp_blames_the_features_even_if_the_core_set_is_incomplete():
    features = np.array([[[1.0], [1.0]], [[2.0], [0.0]]])
    P = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    table = Tabular(np.arange(2), np.ones((2, 2)), np.full(2, 0.5), P=P)
    e = Enumerated.of(coreplan.Problem(
        tabular_model(table), table_features(features, 1, 2.0), 0.9, core_pairs=([0], [0]), tabular=lambda: table
    ))  # fmt: skip
    with pytest.raises(UnboundedError, match=r"features cannot represent.*saddle_point"):
        solve(e, "relaxed")


def test_the_sampled_lp_bounds_theta_on_both_sides():
    rows = sampled_lp._Rows(sparse.csr_matrix(np.ones((1, 1))), np.zeros(1, dtype=np.int64))
    pair = sampled_lp._pair(
        rows, sparse.csr_matrix((1, 1)), np.zeros(1), np.ones((1, 1)), np.ones(1), 0.9, 2.0
    )
    for theta, inside in ((2.0, True), (-2.0, True), (2.1, False), (-2.1, False)):
        w = np.array([10.0, theta, 10.0])  # V, theta, slack
        assert bool((pair.G.T @ w >= pair.c - 1e-12).all()) == inside, theta


def test_the_bounds_on_values_of_the_last_resort():
    """One value V >= -100, of which the least and the largest are asked for: within [-H, 2 H]."""
    for sign, want in ((1.0, -3.0), (-1.0, 6.0)):
        pair = verified.Pair(np.array([-100.0]), sparse.csc_matrix([[1.0]]), np.array([sign]), 1)
        _, w, *_ = verified._highs(pair, "dual", "highs", 3.0)
        np.testing.assert_allclose(w, [want])


def test_the_last_resort_bounds_values_by_the_horizon(monkeypatch):
    """Rewards are at most 1, so H = 1 / (1 - gamma) is the largest value there can be."""
    bounds = []

    def fails(*arguments, **named):
        bounds.append(named["bounds"][0])
        return OptimizeResult(x=None, status=4, message="numerical difficulties")

    monkeypatch.setattr(verified, "linprog", fails)
    e = Enumerated.of(coreplan.make("river-swim"))
    with pytest.raises(SolverError, match="with bounds on V: numerical difficulties"):
        solve(e, "classic", "dual")
    H = 1 / (1 - e.discount)
    assert set(bounds) == {(None, None), (-H, 2 * H)}
