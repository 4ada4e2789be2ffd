"""Grow where policy iteration goes round in a cycle: the doubt, and which of the cycle's policies it takes."""

from __future__ import annotations

import numpy as np

import coreplan
from coreplan import Grow, Status
from coreplan.problem import Sparse
from coreplan.sampled import Equations, WeightedSamples, halves, lstd, resolved

# Two places, two actions, one coordinate each and the constant: action 1 goes to place 1, where action 1 pays.
GOOD, BAD = np.array([0.0, 1.0, 0.0, 1.0, 0.0]), np.array([1.0, 0.0, 1.0, 0.0, 0.0])
MIXED = np.array([1.0, 0.0, 0.0, 1.0, 0.0])


def samples(flip=lambda n: np.zeros(n, dtype=bool)):
    """400 samples of random pairs; where `flip` says so, action 0 pays instead of action 1."""
    rng = np.random.default_rng(0)
    x, a = rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    rows = np.stack([np.stack([2 * x + b, np.full(400, 4)], axis=1) for b in (0, 1)], axis=1)  # [n, A, 2]
    after = np.stack([np.stack([2 * a + b, np.full(400, 4)], axis=1) for b in (0, 1)], axis=1)
    pays = (x == 1) & (a == np.where(flip(400), 0, 1))
    phi = Sparse(rows[np.arange(400), a].astype(np.int32), np.ones((400, 2)))
    return WeightedSamples(
        phi, pays * 1.0, Sparse(after.astype(np.int32), np.ones((400, 2, 2))), np.ones(400)
    )


def test_the_policy_that_is_better_on_both_halves_is_taken():
    parts = halves(samples(), 4, 1e-4)
    assert resolved(parts, [GOOD, MIXED, BAD], 0.9) is GOOD
    assert resolved(parts, [BAD, MIXED, GOOD], 0.9) is GOOD
    torn = halves(samples(lambda n: np.arange(n) * 20 // n % 2 == 1), 4, 1e-4)  # the halves say the opposite
    assert resolved(torn, [GOOD, BAD], 0.9) is BAD and resolved(torn, [BAD, GOOD], 0.9) is GOOD


def test_iterates_are_kept_and_their_changes_told():
    found = Equations(samples(), 4, 1e-4).solve_all(0.9, np.zeros(5))
    assert found.changed < lstd.SETTLED and len(found.thetas) <= lstd.CYCLE
    assert found.theta[3] > found.theta[2] and found.theta[1] > found.theta[0]


def test_what_did_not_settle_is_doubted():
    """Unless a race of rollouts chose the policy."""
    *_, last = coreplan.steps(coreplan.make("river-linear"), Grow(rounds=2), budget=300, seed=1)
    settled = last.state._replace(leverage=0.5, gain_kept=1.0, changed=0.01)
    planner = Grow(rounds=2).resolve(coreplan.planners.Setup.of(coreplan.make("river-linear"), 300))
    assert planner.verdict(settled) is None
    said = planner.verdict(settled._replace(changed=0.59))
    assert said.status is Status.DOUBTFUL and "did not settle: its last step still changed 59%" in said.reason
    assert planner.verdict(settled._replace(changed=0.59, rivals=np.zeros((3, 41)))) is None
