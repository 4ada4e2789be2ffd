"""ALP, RLP and LRALP: the LP against the Bellman equation, and what the papers promise; then the same, broken."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import coreplan
from coreplan import InputError, Status
from coreplan.core import CoreSet
from coreplan.judge import optimal_values
from coreplan.planners import alp, rlp
from coreplan.sampled import solve_states, state_lp, state_rows
from helpers.mutants import mutant
from helpers.runs import plan

GUARANTEED = {"alp": (alp, "ALP"), "lralp": (alp, "LRALP"), "rlp": (rlp, "RLP")}  # a table: every V is linear


def subs(module, name, seeds, **settings):
    problem = coreplan.make("river-swim")
    results = [plan(problem, planner=getattr(module, name)(**settings), budget=6_000, seed=s) for s in seeds]
    assert all(r.status is Status.FINISHED for r in results)
    return [coreplan.evaluate(problem, r.policy).sub for r in results]


@pytest.mark.parametrize("name", GUARANTEED)
def test_the_promised_accuracy_is_reached(name):
    """Fixed seeds; on seeds 1000 to 1002 the largest sub was .0001."""
    assert max(subs(*GUARANTEED[name], range(3))) < 0.01


FAULTS = {
    "alp": (
        alp,
        "samples.rewards + gamma * (ahead @ found.w)",
        "samples.rewards - gamma * (ahead @ found.w)",
    ),
    "lralp": (alp, "[places.of]", "[places.of[::-1]]"),
    "rlp": (rlp, '"ahead": psi.mean(axis=1)', '"ahead": psi.mean(axis=1)[::-1]'),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_update_does_not_reach_it(name, tmp_path, monkeypatch):
    broken = mutant(*FAULTS[name], tmp_path, monkeypatch)
    problem = coreplan.make("river-swim")
    result = plan(problem, planner=getattr(broken, GUARANTEED[name][1])(), budget=6_000, seed=0)
    assert coreplan.evaluate(problem, result.policy).sub > 0.05 or result.status is not Status.FINISHED


def program(spec, every=True, solve=solve_states, **more):
    """The LP with exact expectations: its optimum, its w, and V*."""
    problem = coreplan.make(spec)
    table, d = problem.tabular(), problem.features.dimension
    psi = state_rows(problem.features(table.states), d)
    core = CoreSet.every(problem) if every else CoreSet.of(problem)
    x = core.states * table.n_actions + core.actions
    ahead = sparse.csr_matrix(table.P[x] @ psi.toarray())
    starts = sparse.csr_matrix(table.nu0[None] @ psi.toarray())
    found = solve(psi[core.states], ahead, table.r.ravel()[x], starts, problem.discount, **more)
    return found, psi @ found.w, optimal_values(table, problem.discount)[0]


@pytest.mark.parametrize("spec", ["river-swim", "river-swim-long"])
def test_where_every_value_is_linear_the_lp_finds_the_optimal_one(spec):
    found, V, best = program(spec)
    np.testing.assert_allclose(V, best, atol=1e-4)
    assert found.error < 1e-6


def test_a_broken_lp_does_not(tmp_path, monkeypatch):
    broken = mutant(
        state_lp, "discount * sparse.csr_matrix(ahead)", "sparse.csr_matrix(ahead)", tmp_path, monkeypatch
    )
    with pytest.raises((AssertionError, coreplan.CoreplanError)):
        _, V, best = program("river-swim", solve=broken.solve_states)
        np.testing.assert_allclose(V, best, atol=1e-4)


def test_sums_of_constraints_allow_more_and_so_the_value_is_smaller():
    """W' (a nonnegative matrix) times the constraints is implied by them; W = I gives them back."""
    m = 12
    W = [sparse.csr_matrix((np.ones(m), (np.arange(m) % k, np.arange(m)))) for k in (12, 6, 3, 1)]
    values = [program("river-swim", groups=w)[0].value for w in W]
    assert values[0] == pytest.approx(program("river-swim")[0].value, abs=1e-6)
    assert (np.diff(values) <= 1e-6).all() and values[-1] < values[0] - 1e-3
    assert (
        plan(coreplan.make("river-swim"), planner=alp.LRALP(groups=6), budget=1_200).status is Status.FINISHED
    )


def test_features_of_states_are_means_over_the_actions_that_are_available():
    rng = np.random.default_rng(0)
    phi = rng.random((3, 4, 5))
    phi[1, 2] = 0.0
    phi[1, 2, 0] = coreplan.features.UNAVAILABLE
    rows = state_rows(phi, 5).toarray()
    np.testing.assert_allclose(rows[[0, 2]], phi[[0, 2]].mean(axis=1))
    np.testing.assert_allclose(rows[1], phi[1, [0, 1, 3]].mean(axis=0))


def test_constraints_are_pairs_that_were_met_and_means_of_their_samples():
    """RLP on a deterministic table with one-hot features: every constraint is a row of it, whatever n is."""
    problem = coreplan.make("river-swim")
    run = coreplan.run.Run.of(problem, rlp.RLP(constraints=50, samples=3), budget=200, seed=0)
    while run.left:
        run.advance(200)
    state, table = run.loop.state, problem.tabular()
    x, a = state.here.argmax(axis=1) // 2, state.phi.argmax(axis=1) % 2
    assert run.simulator.queries == 150 and state.filled == 50
    np.testing.assert_allclose(state.here[np.arange(50), 2 * x], 0.5)
    assert (state.phi.argmax(axis=1) // 2 == x).all()
    reach = table.P.reshape(6, 2, 6)[x, a]  # [50, 6]
    assert (reach[state.ahead.reshape(50, 6, 2).sum(axis=2) > 0] > 0).all()
    np.testing.assert_allclose(state.rewards, table.r[x, a])
    np.testing.assert_allclose(state.ahead.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("planner", "spec", "budget", "words"),
    [
        (alp.ALP(), "mountain-car", 1_000, "its states cannot be enumerated"),
        (alp.ALP(), "river-swim", 11, "below 12 = 1 samples of each of the m = 12 pairs"),
        (rlp.RLP(constraints=100, samples=5), "river-swim", 400, "below 100 constraints with 5 samples"),
    ],
)
def test_what_cannot_work_is_refused(planner, spec, budget, words):
    with pytest.raises(InputError, match=words):
        plan(coreplan.make(spec), planner=planner, budget=budget)
