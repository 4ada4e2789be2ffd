"""Exact tables: bad ones are refused, and optima and values respect what is available."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

import coreplan
from coreplan.judge import optimal_values, value_function
from coreplan.problem import Tabular
from helpers.masked import ALLOWED, TABLE, A, S, masked_problem


def test_a_row_that_is_no_distribution():
    P = np.array([[1.0, 0.0], [0.5, 0.4]])
    with pytest.raises(coreplan.InputError, match=r"P\(\.\|x=1, a=0\) sums to 0.9"):
        coreplan.problem.Tabular(np.arange(2), np.zeros((2, 1)), np.array([1.0, 0.0]), P=P)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"P": np.array([[0.5, 0.5], [np.nan, 1.0]])}, "not finite"),
        ({"P": np.array([[1.5, -0.5], [0.0, 1.0]])}, r"P\(\.\|x=0, a=0\) has a negative probability"),
        ({"P": np.eye(2)[:1]}, "must have shape"),
        ({"nu0": np.array([1.0, 1.0])}, "nu0 must be a distribution"),
        ({"r": np.array([[5.0], [0.0]])}, r"r\(x=0, a=0\) is 5"),
        ({"r": np.array([[0.0], [np.nan]])}, r"r\(x=1, a=0\) is nan"),
    ],
)
def test_bad_tables(changes, words):
    good = {"states": np.arange(2), "r": np.zeros((2, 1)), "nu0": np.array([1.0, 0.0]), "P": np.eye(2)}
    with pytest.raises(coreplan.InputError, match=words):
        Tabular(**{**good, **changes})


# Masks.


def brute_force(table, discount, allowed):
    """The best stationary policy, all of them tried: `[S]`."""
    best = np.full(S, -np.inf)
    for choice in itertools.product(*(np.flatnonzero(row) for row in allowed)):
        best = np.maximum(best, value_function(table, np.eye(A)[list(choice)], discount))
    return best


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_the_optimum_respects_the_mask(form):
    P, r = np.array(TABLE.P), TABLE.r.copy()
    P[~ALLOWED.ravel()], r[~ALLOWED] = np.nan, np.inf  # ignored, whatever it is
    table = Tabular(TABLE.states, r, TABLE.nu0, P=form(P), available=ALLOWED)
    V, Q = optimal_values(table, 0.9)
    np.testing.assert_allclose(V, brute_force(table, 0.9, ALLOWED), atol=1e-10)
    assert (Q[~ALLOWED] == -np.inf).all() and np.isfinite(Q[ALLOWED]).all()
    free = optimal_values(TABLE, 0.9)[0]
    assert (free > V).all()
    with pytest.raises(coreplan.InputError, match=r"pi\(a=0\|x=0\) is 0.25, but action 0 is unavailable"):
        value_function(table, np.full((S, A), 0.25), 0.9)


def test_factors_may_be_masked():
    factors = (sparse.identity(S * A, format="csr"), np.array(TABLE.P))
    one = Tabular(TABLE.states, TABLE.r, TABLE.nu0, factors=factors, available=ALLOWED)
    two = Tabular(TABLE.states, TABLE.r, TABLE.nu0, P=TABLE.P, available=ALLOWED)
    np.testing.assert_allclose(optimal_values(one, 0.9)[0], optimal_values(two, 0.9)[0], atol=1e-10)


def test_an_evaluation_knows_the_mask():
    problem = masked_problem()
    judged = coreplan.evaluate(problem, coreplan.SoftmaxPolicy.uniform(problem.features))
    table = Tabular(TABLE.states, TABLE.r, TABLE.nu0, P=TABLE.P, available=ALLOWED)
    assert judged.optimum == pytest.approx(0.1 * TABLE.nu0 @ brute_force(table, 0.9, ALLOWED))
    assert judged.value == judged.uniform < judged.optimum
