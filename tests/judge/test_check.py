"""`check`: measured assumptions against exact ones, and its verdicts."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import coreplan
from coreplan import CoreSet, check
from coreplan.judge.assumptions import AMBER, GREEN, GREY, RED
from coreplan.theory import Enumerated


@pytest.mark.parametrize(
    ("spec", "residual"), [("river-linear", GREY), ("random-linear", GREEN), ("river-swim", GREEN)]
)
def test_exact_cores_are_green(spec, residual):
    """On river-linear 5% of the range are to be gained, and 40,000 queries cannot tell a residual that would cost it."""
    problem = coreplan.make(spec)
    report = check(problem, queries=40_000)
    assert report.queries <= 40_000
    for name in ("R", "rank", "condition", "hull error", "next states", "reach", "D", "repeatable"):
        assert report[name].light == GREEN, report[name]
    assert report["Bellman residual"].light == residual and report["reality"].light in (GREEN, GREY)
    assert report["Bellman residual"].value < 0.05 and report["hull error"].value < 1e-12
    again = check(problem, queries=40_000)
    assert again.as_dict() == report.as_dict()  # same seed, same bits


def exact_residual(problem):
    """The same quantity by enumeration: exact plug-in fixed point, its Bellman residual, what is not linear of it."""
    e, gamma, table = Enumerated.of(problem), problem.discount, problem.tabular()
    core, number = CoreSet.of(problem), {tuple(s): x for x, s in enumerate(table.states)}
    rows = [number[tuple(s)] * e.A + a for s, a in zip(core.states, core.actions, strict=True)]
    P, r, Phi = table.P, table.r.ravel(), e.Phi.toarray()
    theta = np.zeros(e.d)
    for _ in range(1000):
        theta = r[rows] + gamma * P[rows] @ (Phi @ theta).reshape(-1, e.A).max(axis=1)
    Q = (Phi @ theta).reshape(-1, e.A)
    delta = r + gamma * P @ Q.max(axis=1) - Q.ravel()
    mu = np.zeros(len(delta))
    for pi in (np.full(Q.shape, 1 / e.A), np.eye(e.A)[Q.argmax(axis=1)]):
        M = np.einsum("xa,xay->xy", pi, P.reshape(e.X, e.A, e.X))
        visits = (1 - gamma) * np.linalg.solve(np.eye(e.X) - gamma * M.T, table.nu0)
        mu += (visits[:, None] * pi).ravel() / 2
    root = np.sqrt(mu)
    rest = (
        root * delta
        - root[:, None] * Phi @ np.linalg.lstsq(root[:, None] * Phi, root * delta, rcond=1e-10)[0]
    )
    return math.sqrt(rest @ rest)


def test_the_residual_is_the_exact_one_without_its_noise():
    """On a coarse grid the residual is far from zero, and a single sample's noise ten times as large. 10,000 pairs: the mean
    of the products has a relative standard error of a few percent, its root half of that; 15% leave room for the tail
    that rollouts are cut at (up to 0.1 in total variation), and the seed is fixed."""
    problem = coreplan.make("inventory:grid=2")
    exact = exact_residual(problem)
    row = check(problem, queries=80_000, seed=1)["Bellman residual"]
    assert exact > 0.02 and row.light in (AMBER, RED)
    assert row.value == pytest.approx(exact, rel=0.15)


def test_a_core_without_its_ends_is_red():
    problem = coreplan.make("river-linear")
    core = CoreSet.of(problem)
    report = check(problem, CoreSet(core.states[:-4], core.actions[:-4]), queries=40_000)
    assert report.worst == RED
    assert report["reach"].light == RED and "Add core pairs" in report["reach"].verdict
    assert report["hull error"].light in (AMBER, RED) and report["rank"].light == AMBER


def test_a_dense_core_in_general_position():
    """Core features that are no unit vectors go the general way: rank, condition and span by singular values."""
    problem = coreplan.make("hard-linear")
    report = check(problem, queries=20_000)
    Phi = CoreSet.of(problem).features(problem.features)
    s = np.linalg.svd(Phi / np.abs(Phi).max(axis=0), compute_uv=False)
    assert report["rank"].value == 4 and report["condition"].value == pytest.approx(s[0] / s[3])
    assert report["hull error"].light == GREEN and report["reach"].light == GREEN


def test_no_core_set_is_said_with_the_cure():
    report = check(coreplan.make("inventory:features=quadratic"), queries=2000)
    assert report["core set"].light == RED and "grow" in report["core set"].verdict
    json.dumps(report.as_dict(), allow_nan=False)


def test_few_queries_are_said():
    report = check(coreplan.make("inventory"), queries=500)
    for name in ("Bellman residual", "reality", "D"):
        assert report[name].light == GREY and "1764" in report[name].verdict and report[name].needed == 1764


@pytest.mark.parametrize("call", [lambda: check(3), lambda: check(coreplan.make("river-swim"), queries=5)])
def test_bad_input(call):
    with pytest.raises(coreplan.InputError):
        call()


def test_bounds_without_features_lead_to_refine():
    found = check(coreplan.make("mountain-car:features=none"), queries=1_000)["core set"]
    assert found.light == GREY and "`refine`" in found.verdict and "grow" not in found.verdict
