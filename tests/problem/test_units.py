"""Values in the user's own units: what `to_return_units` says, against returns computed in those units."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan.problem import from_matrices


def uniform_return(P, R, nu0, discount):
    """E sum gamma^t r_t of the uniform policy, in the units of R `[S, A]`; P is `[A, S, S]`."""
    mean, rewards = P.mean(axis=0), R.mean(axis=1)
    return nu0 @ np.linalg.solve(np.eye(len(nu0)) - discount * mean, rewards)


@pytest.mark.parametrize("low", [-70.0, 0.0, 3.0])
def test_a_value_as_a_discounted_sum_of_rewards(low):
    rng = np.random.default_rng(1)
    P, R = rng.dirichlet(np.ones(5), (2, 5)), low + 11 * rng.random((5, 2))
    problem = from_matrices(P, R, 0.93)
    value = coreplan.evaluate(problem, coreplan.SoftmaxPolicy.uniform(problem.features)).value
    want = uniform_return(P, R, np.full(5, 0.2), 0.93)
    assert problem.to_return_units(value) == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("pays", [-1.0, 1.0])
def test_after_the_end_nothing_is_paid(pays):
    """Each step pays `pays` and ends the process with probability .2: the discounted sum is pays / (1 - .9 * .8)."""
    P = np.array([[[0.8, 0.2], [0.0, 1.0]]])
    problem = from_matrices(P, np.array([pays, 123.0]), 0.9, nu0=[1.0, 0.0], terminal=[1])
    value = coreplan.evaluate(problem, coreplan.SoftmaxPolicy.uniform(problem.features)).value
    assert problem.to_return_units(value) == pytest.approx(pays / (1 - 0.9 * 0.8), rel=1e-12)
