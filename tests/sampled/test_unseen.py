"""What a pair may hide: how often it must be asked, in closed form on a door, and which pairs are asked for it."""

from __future__ import annotations

import numpy as np
import pytest

from coreplan.core import Frame, Lift
from coreplan.problem import Sparse
from coreplan.sampled import policy_iteration as bellman
from coreplan.sampled import unseen

GAMMA = 0.9
# Pairs: outside, stay (pays .2); outside, push (pays nothing so far); inside (pays 1). The first two stay outside.
REWARDS, ACTIONS = np.array([0.2, 0.0, 1.0]), np.array([[0, 1], [0, 1], [2, 2]])


def door(n):
    """The sampled model of n samples per pair of a door that has never opened, with its lift and solution."""
    phi = Sparse(np.tile(ACTIONS[:, :, None], (n, 1, 1)), np.ones((3 * n, 2, 1)))
    starts = Sparse(ACTIONS[:1, :, None], np.ones((1, 2, 1)))
    rewards = np.tile(REWARDS, n)
    sampled = bellman.SampledModel.of_rows(phi, rewards, np.arange(3 * n) % 3, 3, starts, GAMMA)
    lift = Lift(Frame(np.eye(3), 3))
    return sampled, lift, sampled.solve(lift, sampled.equal())


@pytest.mark.parametrize("n", [10, 40, 100])
def test_what_may_be_hidden_in_closed_form(n):
    """We stay, worth .2 x 10. An optimist pushes: q = (1 - p) .9 q + p 10, if that is more than staying with luck."""
    sampled, lift, solution = door(n)
    ours, his = unseen.needed(sampled, lift, solution, 0.01, np.array([False, True, False]))
    # 10 visits of a pair worth 2: a fall of probability 1.5/n loses .1 x 10 x 2 x 1.5/n of normalised value.
    np.testing.assert_allclose(ours, [1.5 * 0.1 * 10 * 2 / 0.01, 0.0, 0.0], atol=1e-9)
    p = 1.5 / n
    pushed = p * 10 / (1 - 0.9 * (1 - p))
    if 0.1 * (pushed - 2) <= 0.01:
        assert (his == 0.0).all()
        return
    visits = 1 / (1 - 0.9 * (1 - p))  # until it opens
    np.testing.assert_allclose(his, [0.0, 1.5 * 0.1 * visits * (10 - 1.8) / 0.01, 0.0], rtol=1e-6)


def test_the_pairs_that_vary_share_their_queries():
    """Steady pairs up to 192; those that vary 56, and more where others of them need less, 56 on average at most."""
    steady = np.array([True, True, False, False, False, False])
    ours = np.array([1000.0, 100.0, 1000.0, 1000.0, 0.0, 0.0])
    his, counts = np.array([0.0, 150.0, 0.0, 0.0, 500.0, 0.0]), np.full(6, 8)
    goals = unseen.goals(ours, his, counts, steady)
    assert goals.tolist() == [192, 150, 80, 80, 56, 8]
    assert unseen.goals(np.full(6, 1e9), his, counts, ~steady | True).tolist() == [192] * 6
    assert (unseen.goals(np.full(6, np.inf), his, counts, steady & False) == 56).all()
    assert unseen.goals(ours, his, np.full(6, 300), steady).tolist() == [300] * 6


def test_where_noise_is_shared_the_pairs_that_vary_stay_equal():
    """If 56 on average do not suffice; where they do, as with independent noise."""
    steady = np.array([True, False, False, False])
    ours, his, counts = np.array([1000.0, 1000.0, 30.0, 60.0]), np.zeros(4), np.array([8, 8, 8, 16])
    assert unseen.goals(ours, his, counts, steady, shared=True).tolist() == [192, 56, 56, 56]
    assert unseen.goals(ours, his, counts, steady, shared=False).tolist() == [192, 78, 30, 60]
    more = np.array([8, 80, 8, 80])
    assert unseen.goals(ours, his, more, steady, shared=True).tolist() == [192, 80, 56, 80]
    little = np.array([1000.0, 100.0, 8.0, 60.0])
    assert unseen.goals(little, his, counts, steady, shared=True).tolist() == [192, 100, 8, 60]
