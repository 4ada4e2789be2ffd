"""DesignLSPI and VWLSMDVI: what their papers promise where it applies, and their updates; then the same, broken."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan import FunctionModel, InputError, Problem, Status
from coreplan.features import dense, table_features
from coreplan.planners import VWLSMDVI, DesignLSPI, design_lspi, doubts, vwls_mdvi
from helpers.mutants import mutant
from helpers.relatives import recorded, still, subs
from helpers.runs import plan

# Planner, a linear MDP, queries, and the most sub. On seeds 1000 to 1002 the largest sub was as the comments say.
GUARANTEED = {
    "design-lspi": (design_lspi, "DesignLSPI", "random-linear", 200_000, 0.02),  # .004
    "vwls-mdvi": (vwls_mdvi, "VWLSMDVI", "river-linear", 20_000, 0.01),  # .0008
}


@pytest.mark.parametrize("name", GUARANTEED)
def test_the_promised_accuracy_is_reached(name):
    module, planner, problem, queries, most = GUARANTEED[name]
    assert max(subs(coreplan.make(problem), getattr(module, planner)(), queries)) < most


FAULTS = {
    "design-lspi": ("returns = state.returns + self", "returns = 0.0 * state.returns + self"),
    "vwls-mdvi": ("best_scores(phi, state.s)", "best_scores(phi, -state.s)"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_update_does_not_reach_it(name, tmp_path, monkeypatch):
    module, planner, problem, queries, most = GUARANTEED[name]
    broken = getattr(mutant(module, *FAULTS[name], tmp_path, monkeypatch), planner)()
    result = plan(coreplan.make(problem), planner=broken, budget=queries, seed=0)
    assert coreplan.evaluate(coreplan.make(problem), result.policy).sub > most


# Updates.


def test_rollouts_are_those_of_the_greedy_policy():
    """Where nothing is random, the last fit is the return of the policy before it, added up step by step."""
    problem, y, r = still()
    _, state, heard = recorded(problem, DesignLSPI(phases=2, length=9), 21 * 2 * 9)
    first = [a for a in heard if a.ask.core_index is None or len(a.ask.core_index)][:9]
    q = sum(0.8**t * a.rewards for t, a in enumerate(first))  # one rollout from each pair, in order
    for j in range(21):
        x, a, total = j // 3, j % 3, 0.0
        for t in range(9):
            total += 0.8**t * r[x, a]
            x = y[x, a]
            a = int(np.argmax(q[3 * x : 3 * x + 3]))
        assert state.theta[j] == pytest.approx(total, rel=1e-12)


def noisy():
    """Twelve states in a ring, three actions that go one to six steps on, and features at random: d = 4, m = 36."""
    rng = np.random.default_rng(0)
    phi, r = rng.normal(size=(12, 3, 4)), rng.random((12, 3))

    def step(rng, x, a):
        return r[x, a] * rng.random(len(x)), (x + 1 + a + rng.integers(0, 4, len(x))) % 12

    model = FunctionModel(3, lambda rng, n: rng.integers(0, 12, n), step)
    core = (np.repeat(np.arange(12), 3), np.tile(np.arange(3), 12))
    return Problem(model, table_features(phi, 4, 9.0), 0.9, core_pairs=core, name="noisy")


def test_vwls_mdvi_agrees_with_a_naive_form():
    """Both solves and the measurement written out over the answers of a run, on dependent core features."""
    problem = noisy()
    planner, state, heard = recorded(problem, VWLSMDVI(rounds=4, alpha=0.6), 900)
    gamma, core = 0.9, dense(planner.setup.core_features, 4)
    rows = [
        (j, x, f)
        for a in heard
        for j, x, f in zip(a.ask.core_index, a.rewards, dense(a.next_features, 4), strict=True)
    ]
    rho, f, kept = planner._first[0], np.ones(len(core)), 0

    def targets(n, S, before):
        nonlocal kept
        pairs = np.flatnonzero(rho)
        part, kept = rows[kept : kept + n * len(pairs)], kept + n * len(pairs)
        got = {j: [] for j in pairs}
        for j, x, phi in part:
            got[j].append(x + gamma * (max(phi @ S) - 0.6 * max(phi @ before)))
        assert {len(v) for v in got.values()} == {n}
        return got

    def solve(sizes):
        S = before = np.zeros(4)
        for n in sizes:
            got = targets(n, S, before)
            J = list(got)
            w = (rho[J] / f[J] ** 2)[:, None] * core[J]
            theta = np.linalg.lstsq(w.T @ core[J], w.T @ [np.mean(got[j]) for j in J], rcond=1e-12)[0]
            S, before = theta + 0.6 * S, S
        return S, before

    assert np.count_nonzero(rho) > 4  # else weights would not matter
    first = int(0.2 * 900) // np.count_nonzero(rho) // 4
    S, before = solve([first] * state.K)
    got = targets(int((0.3 - 0.2) * 900) // np.count_nonzero(rho), S, before)
    J = list(got)
    w = rho[J][:, None] * core[J]
    omega = np.linalg.lstsq(w.T @ core[J], w.T @ [np.var(got[j], ddof=1) for j in J], rcond=1e-12)[0]
    top = max(core @ omega)
    f = np.sqrt(np.clip(core @ omega, top / 10, top))
    np.testing.assert_allclose(state.f, f, rtol=1e-6)
    rho = state.rho
    G = core.T @ ((rho / f**2)[:, None] * core)
    assert np.einsum("mi,ij,mj->m", core, np.linalg.inv(G), core).max() <= 1.1001 * 4 * max(f) ** 2
    left = (900 - kept) // np.count_nonzero(rho)
    S, before = solve([left // 4] * (left // (left // 4)))
    np.testing.assert_allclose(state.s, S, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        state.theta, S / sum(0.6**k for k in range(left // (left // 4))), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("old", ["state.rho / state.f**2", "rho=design.rho, s=zero"])
def test_a_broken_solve_is_noticed(old, tmp_path, monkeypatch):
    new = {
        "state.rho / state.f**2": "state.rho * state.f**2",
        "rho=design.rho, s=zero": "rho=design.rho, s=state.s",
    }[old]
    broken = mutant(vwls_mdvi, old, new, tmp_path, monkeypatch)
    monkeypatch.setitem(globals(), "VWLSMDVI", broken.VWLSMDVI)
    with pytest.raises(AssertionError):
        test_vwls_mdvi_agrees_with_a_naive_form()


# Refusals and doubts.


def test_refusals_and_doubts():
    problem, _, _ = still()
    with pytest.raises(
        InputError,
        match=r"A budget of 300 queries is below 420: 2 phases of 'design-lspi', with a rollout of 10",
    ):
        plan(problem, planner=DesignLSPI(phases=2, length=10), budget=300)
    with pytest.raises(InputError, match="'vwls-mdvi' needs 8 samples of each of the 21 pairs of its design"):
        plan(problem, planner=VWLSMDVI(), budget=100)
    with pytest.raises(InputError, match=r"VWLSMDVI\(alpha=...\)` must be a number from 0 to below 1"):
        VWLSMDVI(alpha=1.0)
    planner, state, _ = recorded(problem, DesignLSPI(), 21)
    assert state.phase == 1 and planner.verdict(state) is None
    assert planner.verdict(state._replace(phase=0)) == doubts.NO_ROUND()
    assert plan(problem, planner=VWLSMDVI(rounds=1), budget=900).status is Status.DOUBTFUL
