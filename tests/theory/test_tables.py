"""A problem as matrices: sparse tables stay sparse, and what cannot be enumerated is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import sparse

import coreplan
from coreplan.core import CoreSet
from coreplan.problem import Tabular, one_hot, tabular_model
from coreplan.theory import Enumerated, occupancy, policy_values, value
from coreplan.theory.claims.instances import linear_instance
from helpers.masked import TABLE, masked_problem


def test_sparse_tables_stay_sparse():
    X = 50
    P = sparse.csr_matrix(np.roll(np.eye(X), 1, axis=1))
    table = Tabular(np.arange(X), np.linspace(0, 1, X)[:, None], np.full(X, 1 / X), P=P)
    problem = coreplan.Problem(tabular_model(table), one_hot(X, 1), 0.9, tabular=lambda: table)
    e = Enumerated.of(problem)
    assert sparse.issparse(e.P) and sparse.issparse(e.Phi) and sparse.issparse(e.E)
    mu = occupancy(e, np.ones((X, 1)))
    np.testing.assert_allclose(mu, 1 / X)  # a cycle from a uniform start stays uniform


def test_policies_are_checked_everywhere():
    e = Enumerated.of(linear_instance())
    pi = np.full((e.X, e.A), 1 / e.A)
    pi[2] = [1.4, -0.4, 0.0]
    for use in (occupancy, policy_values, value, lambda e, pi: e.M(pi)):
        with pytest.raises(coreplan.InputError, match=r"pi\(\.\|x=2\) is not a distribution"):
            use(e, pi)
    with pytest.raises(coreplan.InputError, match="has shape"):
        occupancy(e, pi[:3])


def test_a_dense_matrix_that_would_not_fit():
    e = Enumerated.of(coreplan.make("random-linear:states=30000"))
    with pytest.raises(coreplan.InputError, match="GB are written out"):
        e.P  # noqa: B018


def test_too_large_to_enumerate():
    X, A = 700_000, 3
    P = sparse.csr_matrix(
        (np.ones(X * A), np.zeros(X * A, dtype=int), np.arange(X * A + 1)), shape=(X * A, X)
    )
    table = Tabular(np.arange(X), np.zeros((X, A)), np.full(X, 1 / X), P=P)
    problem = coreplan.Problem(tabular_model(table), one_hot(X, A), 0.9, tabular=lambda: table, name="big")
    with pytest.raises(coreplan.InputError, match="2,100,000 pairs; at most 2,000,000"):
        Enumerated.of(problem)
    with pytest.raises(coreplan.InputError, match="cannot be enumerated"):
        Enumerated.of(coreplan.make("mountain-car:grid=3"))


def test_core_pairs_outside_the_table():
    problem = linear_instance()
    with pytest.raises(
        coreplan.InputError, match="Core pair 1, state 99 and action 0, is not in the problem's table"
    ):
        Enumerated.of(problem, CoreSet(np.array([0, 99]), np.array([0, 0])))
    e = Enumerated.of(problem)
    with pytest.raises(coreplan.InputError, match="Core pair 1 is number 36; pairs run from 0 to 35"):
        dataclasses.replace(e, rows=np.array([0, 36]))


def test_theory_refuses_masks():
    with pytest.raises(coreplan.InputError, match="masks actions"):
        Enumerated.of(masked_problem())
    with pytest.raises(
        coreplan.InputError, match="masks actions"
    ):  # features marked by hand, no mask declared
        marked = dataclasses.replace(masked_problem(), mask=None, tabular=lambda: TABLE)
        Enumerated.of(marked)


def test_the_softmax_of_theta_pair_by_pair():
    e, Theta = Enumerated.of(linear_instance()), np.array([3.0, -1.0, 0.5, 2.0])
    q = np.asarray(e.Phi) @ Theta
    for x in range(e.X):
        weights = [np.exp(0.7 * q[x * e.A + a]) for a in range(e.A)]
        np.testing.assert_allclose(e.softmax(Theta, 0.7)[x], np.array(weights) / sum(weights), rtol=1e-12)
        np.testing.assert_array_equal(e.softmax(Theta, np.inf)[x], np.arange(e.A) == np.argmax(weights))
    np.testing.assert_allclose(e.softmax(1e6 * Theta, 1.0), e.softmax(Theta, np.inf), atol=1e-12)
