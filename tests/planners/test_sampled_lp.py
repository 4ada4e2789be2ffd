"""SampledLP: the LP on samples against value iteration on them, doubts, limits, and a solver that is not believed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import OptimizeResult, linprog

import coreplan
from coreplan import OptimisticPrimalDual, SampledLP, Status
from coreplan.core import Frame
from coreplan.planners import CoreSetup, sampled_lp
from coreplan.problem import one_hot, tabular_model
from coreplan.sampled import SolverError, Stored, lp, verified
from coreplan.simulate import Simulator
from helpers.cores import without
from helpers.masked import ALLOWED, TABLE, A, S, mask
from helpers.mutants import mutant
from helpers.runs import plan
from helpers.stored_samples import fixed_point, sampled, sub

SPECS = ["random-linear", "river-linear", "river-linear:L=15,discount=0.99"]


def a_trap():
    """Two states, two actions, unit features. From the start, 0, an optimal policy never goes to 1."""
    following, phi = [0, 1, 1, 1], np.eye(4).reshape(2, 2, 4)
    return Stored(Frame(np.eye(4), 4), np.array([1.0, 0.0, 0.2, 0.1]), phi[following], phi[:1], 0.5)


def difference(module, spec, n=30):
    """Between theta of the sampled LP and the fixed point of value iteration on the same samples."""
    stored = a_trap() if spec == "trap" else sampled(coreplan.make(spec), n, seed=0)
    d = 4 if spec == "trap" else coreplan.make(spec).features.dimension
    found = module.solve_sampled(stored)
    return np.abs(found.theta - fixed_point(stored, d)).max()


@pytest.mark.parametrize("spec", [*SPECS, "trap"])
def test_it_equals_value_iteration_on_the_samples(spec):
    assert difference(lp, spec) < 1e-4


def unkind(c, A_ub, b_ub, **more):
    """linprog, but of all optimal points the one with the largest entries: HiGHS happens to give the smallest."""
    found = linprog(c, A_ub=A_ub, b_ub=b_ub, **more)
    if found.x is not None:
        rows, limits = sparse.vstack([A_ub, c[None]]), np.append(b_ub, found.fun + 1e-9)
        found.x = linprog(-np.ones(len(c)), A_ub=rows, b_ub=limits, **more).x
    return found


def test_whichever_optimal_point_the_solver_gives(monkeypatch):
    monkeypatch.setattr(verified, "linprog", unkind)
    assert difference(lp, "trap") < 1e-4


FAULTS = {
    "the LP's own theta": ("theta = frame.coordinates.solve(q)", "theta = found.w[N : N + d]"),
    "V where nobody starts": ("SPREAD = 0.5", "SPREAD = 0.0"),
    "discount dropped": ("[-gamma * P,", "[-P,"),
    "means of other pairs": ("np.repeat(np.arange(m), n), which", "np.tile(np.arange(m), n), which"),
    "slack too cheap": ("PRICE = 2.0", "PRICE = 0.01"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_value_iteration_notices(fault, tmp_path, monkeypatch):
    module = mutant(lp, *FAULTS[fault], tmp_path, monkeypatch)
    kind = difference(module, "river-linear")
    monkeypatch.setattr(verified, "linprog", unkind)
    assert max(kind, difference(module, "trap")) > 1e-3


def test_as_a_planner():
    """n samples of each pair in one ask; the samples can be handed on."""
    problem = coreplan.make("random-linear")
    result = plan(problem, planner=SampledLP(), budget=805, seed=0)
    assert result.queries == 800 and result.initial_draws == 100 and result.status is Status.FINISHED
    assert coreplan.evaluate(problem, result.policy).sub < 0.01
    best = fixed_point(result.stored, 8)
    np.testing.assert_allclose(result.policy.theta, best, atol=1e-4)
    found = OptimisticPrimalDual().on(result.stored)
    assert abs(sub(problem, found.theta, found.scale) - sub(problem, best)) < 1e-3
    assert result.trace["slack"][-1] < 1e-6 and result.trace["bound"][-1] < 1e-6


def test_masks_are_respected():
    pairs = tuple(x.astype(np.int64) for x in np.nonzero(ALLOWED))
    problem = coreplan.Problem(
        tabular_model(TABLE), one_hot(S, A), 0.9, core_pairs=pairs, tabular=lambda: TABLE, mask=mask
    )
    result = plan(problem, planner=SampledLP(), budget=len(pairs[0]) * 50, seed=0)
    assert (result.policy.probabilities(np.arange(S))[~ALLOWED] == 0).all()
    assert result.status is Status.FINISHED
    np.testing.assert_allclose(result.policy.theta, fixed_point(result.stored, S * A), atol=1e-4)


@pytest.mark.parametrize("spec", SPECS[:2])
def test_an_incomplete_core_is_no_success(spec):
    problem = coreplan.make(spec)
    result = plan(problem, without(problem, 0, 3), SampledLP(samples=20), budget=1000, seed=0)
    assert result.status is Status.DOUBTFUL and "Add core pairs" in result.reason


def test_slack_or_bounds_in_use_are_told():
    """Two pairs whose next features are 1.04 times the core's: at discount 0.99 values grow without end."""
    phi = 1.04 * np.repeat(np.eye(2)[:, None], 1, axis=1)  # [2, A = 1, 2]
    stored = Stored(Frame(np.eye(2), 2), np.array([0.3, 0.7]), phi, phi, 0.99)
    _, verdict = SampledLP().on(stored)
    assert verdict.status is Status.DOUBTFUL and "only by its slack" in verdict.reason
    right, verdict = SampledLP().on(replace(stored, samples=phi / 1.04, initial_features=phi / 1.04))
    assert verdict is None
    np.testing.assert_allclose(right.theta, stored.rewards / 0.01, rtol=1e-6)  # r + gamma theta = theta


def lies(c, **arguments):
    zero = OptimizeResult(marginals=np.zeros(arguments["A_ub"].shape[0]))
    return OptimizeResult(x=np.zeros(len(c)), status=0, message="optimal", ineqlin=zero)


def test_a_lying_solver_is_not_believed(monkeypatch):
    monkeypatch.setattr(verified, "linprog", lies)
    stored = sampled(coreplan.make("random-linear"), 2, 0)
    with pytest.raises(SolverError, match="No answer for the sampled LP could be verified"):
        SampledLP().on(stored)


def test_samples_outlive_a_solver_that_fails(tmp_path, monkeypatch):
    """They are paid for: none is asked for again, and a later solve is that of a run whose solver never failed."""
    problem = coreplan.make("random-linear")
    with monkeypatch.context() as patched:
        patched.setattr(verified, "linprog", lies)
        for resume in (False, True):
            failed = plan(problem, planner=SampledLP(), budget=160, seed=2, out=tmp_path, resume=resume)
            assert failed.status is Status.DIVERGED and "LP on 20 samples" in failed.reason
            assert failed.queries == 160 and failed.stored.next_features.shape == (160, 4, 8)
            assert (failed.policy.probabilities(np.arange(3)) == 0.25).all()
    mended = plan(problem, budget=240, seed=2, out=tmp_path, resume=True)
    whole = plan(problem, planner=SampledLP(), budget=240, seed=2)
    assert mended.status is Status.FINISHED and mended.queries == 240
    assert mended.policy.theta.tobytes() == whole.policy.theta.tobytes()


@pytest.mark.parametrize("spec", ["random-linear:compiled=false", "river-linear"])
def test_a_raised_budget_extends_the_samples(spec, tmp_path, monkeypatch):
    """What is there stays, pair for pair; until the next solve the last one counts."""
    monkeypatch.setattr(sampled_lp, "BATCH", 64)
    problem = coreplan.make(spec)
    core, rng = coreplan.CoreSet.of(problem), np.random.default_rng(0)
    m = len(core)

    def weights(stored):
        phi = stored.next_features
        return (phi.weight if spec == "river-linear" else phi).reshape(m, -1)

    run = {"seed": 1, "block": 128}
    first = plan(problem, planner=SampledLP(), budget=10 * m, out=tmp_path, **run)
    again = plan(problem, budget=25 * m, out=tmp_path, resume=True, **run)
    assert (first.queries, again.queries, again.initial_draws) == (10 * m, 25 * m, 100)
    old, new = weights(first.stored), weights(again.stored)
    assert new.shape[1] * 10 == old.shape[1] * 25 and (new[:, : old.shape[1]] == old).all()
    np.testing.assert_allclose(
        again.policy.theta, fixed_point(again.stored, problem.features.dimension), atol=1e-4
    )

    if spec == "river-linear":  # compiled, one row after the other: blocks of noise end where they would have
        whole = plan(problem, planner=SampledLP(), budget=25 * m, **run)
        assert again.policy.theta.tobytes() == whole.policy.theta.tobytes()

    simulator = Simulator(problem, core, *run.values())
    planner = SampledLP().resolve(CoreSetup.with_core(problem, core, 10 * m))
    state = planner.init(rng)
    while planner.size(state):
        state = planner.tell(state, simulator.answer(planner.ask(state, rng)), rng)
    assert state.theta.tobytes() == first.policy.theta.tobytes()
    more = SampledLP().resolve(CoreSetup.with_core(problem, core, 25 * m))
    ask = more.ask(state, rng)
    assert (ask.core_index == np.arange(10 * m, 10 * m + len(ask.core_index)) % m).all() and not ask.n_initial
    state = more.tell(state, simulator.answer(ask), rng)
    more.check(state)
    assert more.size(state) and more.policy(state).theta.tobytes() == first.policy.theta.tobytes()
    assert (weights(more.stored(state)) == old).all() and more.verdict(state) is None
    with pytest.raises(ValueError, match="fit together"):
        more.check(state._replace(solved=25))


def test_a_lower_budget_is_no_damage(tmp_path):
    problem = coreplan.make("random-linear")
    plan(problem, planner=SampledLP(), budget=80, out=tmp_path)
    with pytest.raises(coreplan.InputError, match="has made 80 queries already"):
        plan(problem, budget=40, out=tmp_path, resume=True)


def test_resuming_asks_for_nothing_again(tmp_path):
    problem = coreplan.make("river-linear:L=4,states=40")
    first = plan(problem, planner=SampledLP(samples=10), budget=80, seed=3, out=tmp_path)
    again = plan(problem, planner=SampledLP(samples=10), budget=500, seed=3, out=tmp_path, resume=True)
    assert again.queries == first.queries == 80
    assert again.policy.theta.tobytes() == first.policy.theta.tobytes()
    assert again.stored.next_features.weight.tobytes() == first.stored.next_features.weight.tobytes()


def test_errors():
    problem = coreplan.make("random-linear")
    too_large = r"LP of 1,000,400 constraints.*Set `samples` to 3112, or the budget to 24,896, or use"
    with pytest.raises(coreplan.InputError, match=too_large):
        plan(problem, planner=SampledLP(), budget=250_000)
    stored = sampled(problem, 10, 0)
    many = replace(stored, samples=np.broadcast_to(stored.next_features[:1], (250_000, 4, 8)))
    with pytest.raises(coreplan.InputError, match=too_large):
        SampledLP().on(many)
    with pytest.raises(coreplan.InputError, match="Lower `n_initial`, take fewer core pairs"):
        plan(problem, planner=SampledLP(n_initial=25_000), budget=80)  # one sample would be too many
    with pytest.raises(coreplan.InputError, match="budget of 7 queries is below 8"):
        plan(problem, planner=SampledLP(), budget=7)
    with pytest.raises(coreplan.InputError, match="budget of 100 queries is below 160"):
        plan(problem, planner=SampledLP(samples=20), budget=100)
    with pytest.raises(coreplan.InputError, match="samples"):
        SampledLP(samples=0)


def test_a_damaged_state_is_refused(monkeypatch):
    monkeypatch.setattr(sampled_lp, "BATCH", 30)
    problem = coreplan.make("river-linear:L=4,states=40")
    core, rng = coreplan.CoreSet.of(problem), np.random.default_rng(0)
    planner = SampledLP(samples=10).resolve(CoreSetup.with_core(problem, core, 80))
    simulator, state = Simulator(problem, core, 0), planner.init(rng)
    planner.check(state)
    for _ in range(2):  # 48 of 80 rows: asks are whole sweeps over 8 pairs
        state = planner.tell(state, simulator.answer(planner.ask(state, rng)), rng)
        planner.check(state)
    assert state.filled == 48 and planner.policy(state).scale == 1.0 and planner.stored(state) is None
    assert "No LP was solved" in planner.verdict(state).reason
    for damage in (
        {"rewards": state.rewards[:-1]},
        {"rewards": state.rewards.astype(np.float32)},
        {"filled": 81},
        {"next_index": state.next_index + 8},
        {"next_index": state.next_index[:0]},
        {"next_weight": state.next_weight[:, :2]},
        {"initial_weight": state.initial_weight[:0]},
    ):
        with pytest.raises(ValueError):
            planner.check(state._replace(**damage))


def test_states_are_merged_where_features_and_mask_are_equal_and_nowhere_else():
    """The same entries may stand at another action, in another column, or behind another mask: these are other states."""
    one, other = [1.0, 0.0], [0.0, 1.0]
    states = [
        [one, [0, 0]],
        [[0, 0], one],
        [one, [0, 0]],
        [other, [0, 0]],
        [[0, 0], [0, 0]],
        [[0, 0], one],
        [one, [0, 0]],
    ]
    allowed = np.array([[True, True]] * 6 + [[True, False]])
    rows, which = lp._distinct(sparse.csr_matrix(np.reshape(states, (14, 2))), allowed)
    assert which.tolist() == [0, 1, 0, 2, 3, 1, 4]
    assert rows.state.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    want = [one, [0, 0], [0, 0], one, other, [0, 0], [0, 0], [0, 0], one]
    np.testing.assert_array_equal(rows.features.toarray(), want)
