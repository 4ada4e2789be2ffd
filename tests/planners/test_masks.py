"""Planning under a mask: PrimalDual in both loops and against the naive one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan.planners.primal_dual import kernels as primal_dual_kernels
from coreplan.planners.primal_dual import planner as primal_dual
from coreplan.problem import from_pairs, one_hot, tabular_model
from coreplan.theory.naive import algorithm_1
from helpers.masked import ALLOWED, TABLE, A, S, mask, masked_problem
from helpers.mutants import mutant
from helpers.runs import plan

RATES = {"K": 9, "eta": 1e-3, "beta": 0.1, "alpha": 0.05, "D": 20.0}


def both(budget):
    """One problem with one coordinate a pair: masked by a function (NumPy loop) and by marks in a table (compiled)."""
    s, a = np.nonzero(ALLOWED)
    compiled = from_pairs(TABLE.r[s, a], TABLE.P[s * A + a], 0.9, s, a)
    number = np.where(ALLOWED, np.cumsum(ALLOWED).reshape(S, A) - 1, 0)[:, :, None]
    plain = coreplan.FunctionFeatures(
        lambda x: (number[x], np.ones((len(x), A, 1))), A, int(ALLOWED.sum()), 1.0, nonzeros=1
    )
    python = coreplan.Problem(
        compiled.model, plain, 0.9, compiled.reward_range, core_pairs=compiled.core_pairs, mask=mask
    )
    assert compiled.compiled and not python.compiled
    planner = coreplan.PrimalDual(**RATES, output="last")
    return [plan(p, planner=planner, budget=budget, seed=3) for p in (compiled, python)]


def test_both_loops_give_the_same_bits_under_a_mask():
    compiled, python = both(3_000)
    assert np.isfinite(compiled.policy.theta).all() and compiled.policy.theta.any()
    np.testing.assert_array_equal(compiled.policy.theta, python.policy.theta)
    assert (compiled.policy.probabilities(np.arange(S))[~ALLOWED] == 0).all()


@pytest.mark.parametrize("kind", ["dense", "sparse", "compiled"])
def test_every_iterate_equals_the_naive_loop_under_a_mask(kind):
    s, a = np.nonzero(ALLOWED)
    problem = (
        masked_problem(kind)
        if kind != "compiled"
        else from_pairs(TABLE.r[s, a], TABLE.P[s * A + a], 0.9, s, a)
    )
    want = algorithm_1(problem, T=40, **RATES, seed=3)
    planner = coreplan.PrimalDual(**RATES, output="last")
    got = plan(problem, planner=planner, budget=40 * 10, seed=3).policy.theta
    np.testing.assert_allclose(got, np.sum(want.thetas, axis=0), rtol=1e-9, atol=1e-9)


def test_the_naive_loop_notices_a_mask_that_is_dropped():
    """A policy over all actions, though the core set is the masked one, comes out elsewhere."""
    masked = masked_problem("dense")
    free = dataclasses.replace(masked, features=masked.features.features, mask=None, tabular=None)
    thetas = [np.sum(algorithm_1(p, T=40, **RATES, seed=3).thetas, axis=0) for p in (masked, free)]
    assert np.abs(thetas[0] - thetas[1]).max() > 1e-3


def test_a_value_that_weighs_forbidden_actions_is_noticed(tmp_path, monkeypatch):
    broken = mutant(primal_dual_kernels, "if p[a] > 0.0:", "if True:", tmp_path, monkeypatch)
    monkeypatch.setattr(primal_dual, "kernels", broken)
    assert not np.isfinite(both(100)[1].trace["temporal_difference"][-1])  # 0 times minus infinity


def test_planning_under_a_mask_closes_most_of_the_gap():
    problem = masked_problem()
    planner = coreplan.PrimalDual(K=20, eta=1e-3, beta=0.1, alpha=0.05, output="greedy")
    result = plan(problem, planner=planner, budget=100_000)
    assert coreplan.evaluate(problem, result.policy).sub < 0.3


def test_one_available_action_everywhere_leaves_no_choice():
    """Then every policy is the same one, and the temporal differences still see finite numbers."""
    only = np.arange(S) % A
    problem = coreplan.Problem(
        tabular_model(TABLE), one_hot(S, A), 0.9, tabular=lambda: TABLE,
        mask=lambda x: np.arange(A) == only[x][:, None],
    )  # fmt: skip
    result = plan(problem, planner=coreplan.PrimalDual(**RATES), budget=2_000)
    judged = coreplan.evaluate(problem, result.policy)
    assert judged.gap == pytest.approx(0.0, abs=1e-12) and np.isfinite(result.policy.theta).all()
    assert len(problem.core_pairs[1]) == S
