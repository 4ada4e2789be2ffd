"""Loss-weighted numbers of samples: visits, responses and predicted losses against naive formulas and differences."""

from __future__ import annotations

import numpy as np
import pytest

from coreplan.core import Frame, Lift
from coreplan.problem import Sparse
from coreplan.sampled import allocation, occupancy
from coreplan.sampled import policy_iteration as bellman
from helpers.mutants import mutant

M, GAMMA = 6, 0.9


def toy(seed=0, T=None):
    """A random sampled model with unequal numbers of samples, its lift and its solution; features may be turned by T."""
    rng = np.random.default_rng(seed)
    pair = np.repeat(np.arange(M), rng.integers(8, 20, M))
    n = len(pair)
    index = rng.permuted(np.broadcast_to(np.arange(M), (n, 3, M)), axis=-1)[:, :, :2]
    phi = Sparse(np.ascontiguousarray(index), rng.dirichlet(np.ones(2), size=(n, 3)))
    core = np.eye(M)
    if T is not None:
        dense = (phi.weight[..., None] * T[phi.index]).sum(axis=2)
        phi = Sparse(np.broadcast_to(np.arange(M), dense.shape).copy(), dense)
        core = T
    starts = Sparse(phi.index[:5], phi.weight[:5])
    sampled = bellman.SampledModel.of_rows(phi, rng.random(n), pair, M, starts, GAMMA)
    lift = Lift(Frame(core, M))
    return sampled, lift, sampled.solve(lift, sampled.equal())


TURNED = np.random.default_rng(5).standard_normal((M, M))


@pytest.mark.parametrize("T", [None, TURNED], ids=["units", "general"])
@pytest.mark.parametrize("factored", [0, 100])
def test_visits_and_responses(T, factored, monkeypatch):
    """Visits give the value and sum to the horizon; a response is what a change of one reward does to a value."""
    monkeypatch.setattr(occupancy, "FACTORED", factored)
    sampled, lift, solution = toy(1, T)
    w = sampled.equal()
    met = occupancy.visits(sampled, lift, w, solution.theta, solution.choice)
    value = sampled.value(lift, w, solution.theta, solution.choice)
    assert (1 - GAMMA) * met @ sampled.r == pytest.approx(value, abs=1e-8)
    assert met.sum() == pytest.approx(1 / (1 - GAMMA), abs=1e-6)
    f = np.random.default_rng(2).standard_normal((4, M))
    rows = f @ (np.eye(M) if lift.R is None else lift.R)
    c = occupancy.responses(sampled, lift, w, solution.choice, rows)
    for j in range(M):
        moved = sampled.with_rewards(sampled.r + 1e-3 * (np.arange(M) == j))
        change = lift.theta(moved.evaluate(lift, w, solution.choice) - solution.q)
        np.testing.assert_allclose(c[:, j], f @ change / 1e-3, atol=1e-7)


def slope_is_right(module):
    """Whether the shares are those for which the predicted loss falls equally fast by every pair's number of samples."""
    sampled, lift, solution = toy(3)
    given = module.decisions(sampled, lift, solution, shared=False)
    counts, share = sampled.counts, module.shares(given, sampled.counts)
    best = (share - module.EQUAL / M) / (1 - module.EQUAL)
    if not (np.isclose(share.sum(), 1.0) and (share >= module.EQUAL / M).all()):
        return False
    slopes = []
    for j in range(M):
        up, down = (counts + h * (np.arange(M) == j) for h in (1e-4, -1e-4))
        slopes.append((module.predicted(given, down) - module.predicted(given, up)) / 2e-4)
    wished = counts * np.sqrt(np.maximum(slopes, 0.0))  # sigma_j sqrt(W_j), up to a factor
    return np.allclose(best, wished / wished.sum(), atol=1e-4)


def test_shares_equalise_what_another_sample_gains():
    assert slope_is_right(allocation)


def test_a_tie_that_no_noise_reaches_moves_no_sample():
    """Two equal actions, exactly known, beside a decision by the noisy pairs."""
    given = allocation.Decisions(
        lead=np.array([0.1, 0.0]), weight=np.array([1.0, 1e3]), c=np.array([[1.0, 0.5, 0.0], [0.0, 0.0, 1.0]]),
        deviation=np.array([1.0, 2.0, 0.0]), shared=None,
    )  # fmt: skip
    counts = np.array([8, 8, 8])
    with np.errstate(all="raise", under="ignore"):
        share = allocation.shares(given, counts)
    assert share[2] == pytest.approx(allocation.EQUAL / 3) and share.sum() == pytest.approx(1.0)
    assert share[:2] == pytest.approx([(1 - allocation.EQUAL) / 2 + allocation.EQUAL / 3] * 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "given.weight[noisy] * norm.pdf(given.lead[noisy] / s) / s",
            "given.weight[noisy] * norm.pdf(given.lead[noisy] / s)",
        ),
        ("best = given.deviation * np.sqrt", "best = given.deviation**2 * np.sqrt"),
        ("- given.lead * norm.cdf(-z)", "+ given.lead * norm.cdf(-z)"),
        ("square = given.c**2 @ variance", "square = given.c**2 @ variance**2"),
    ],
)
def test_the_test_notices_faults(old, new, tmp_path, monkeypatch):
    assert not slope_is_right(mutant(allocation, old, new, tmp_path, monkeypatch))


def test_the_predicted_loss_is_that_of_normal_errors():
    """Against a million draws of the true lead around the estimated one; six standard errors are .0025."""
    given = allocation.Decisions(
        np.array([0.0, 0.5]),
        np.array([1.0, 2.0]),
        np.array([[1.0, -1.0], [0.5, 0.0]]),
        np.array([1.0, 2.0]),
        None,
    )
    s = allocation.spread(given, np.array([4, 16]))
    np.testing.assert_allclose(s, np.sqrt([1 / 4 + 4 / 16, 0.25 / 4]))
    lead = given.lead + s * np.random.default_rng(0).standard_normal((1_000_000, 2))
    expected = np.maximum(-lead, 0.0).mean(axis=0) @ given.weight
    assert allocation.predicted(given, np.array([4, 16])) == pytest.approx(expected, abs=0.0025)


def test_shared_noise_adds_up_as_a_double_sum():
    rng = np.random.default_rng(0)
    error, c, n = rng.standard_normal((10, M)), rng.standard_normal((3, M)), np.array([8, 8, 12, 24, 12, 8])
    error -= error.mean(axis=0)
    given = allocation.Decisions(np.zeros(3), np.ones(3), c, error.std(axis=0), error)
    C = error.T @ error / 9
    naive = [sum(k[i] * k[j] * C[i, j] / max(n[i], n[j]) for i in range(M) for j in range(M)) for k in c]
    np.testing.assert_allclose(allocation.spread(given, n), np.sqrt(naive))


@pytest.mark.parametrize("balanced", [False, True])
def test_steps_lead_to_the_shares_from_the_first_to_the_last(balanced):
    """Every prefix is near the shares where they are above what there is, sizes are balanced, and the total is kept."""
    counts, share = np.full(4, 8), np.array([0.1, 0.2, 0.3, 0.4])
    pairs, sizes = allocation.steps(counts, share, 1000, balanced)
    assert 900 < 32 + sizes.sum() <= 1000 and (balanced or 32 + sizes.sum() == 1000)
    for part in (len(pairs) // 2, len(pairs)):
        n = counts + np.bincount(pairs[:part], sizes[:part], 4)
        np.testing.assert_allclose(n / n.sum(), share, rtol=0.3)
        if balanced:
            assert all(allocation.after(int(k) - 1) == k for k in n)


def test_where_nothing_varies_or_nothing_is_decided_there_is_no_allocation():
    sampled, lift, _ = toy(4)
    still = sampled.part(np.unique(sampled.pair, return_index=True)[1].repeat(3))
    assert allocation.decisions(still, lift, still.solve(lift, still.equal()), False) is None
