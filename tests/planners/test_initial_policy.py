"""`PrimalDual(pi1=...)`: where Algorithm 1 starts."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan import InputError, SoftmaxPolicy
from coreplan.planners import PrimalDual
from coreplan.theory import Enumerated, compact, conditional_entropy, optimal, value
from helpers.runs import plan

RATES = {"K": 7, "eta": 3e-3, "beta": 0.02, "alpha": 0.3, "D": 12.0}


def run(problem, budget=80, **settings):
    return plan(problem, planner=PrimalDual(**{**RATES, **settings}), budget=budget, seed=3)


def test_a_uniform_start_changes_no_bit():
    problem = coreplan.make("random-linear")
    given = SoftmaxPolicy.uniform(problem.features)
    a, b, c = run(problem), run(problem, pi1=given), run(problem, pi1=np.zeros(8))
    assert a.policy.theta.tobytes() == b.policy.theta.tobytes() == c.policy.theta.tobytes()


@pytest.mark.parametrize("spec", ["random-linear", "river-swim", "random-linear:compiled=false"])
def test_before_any_update_the_policy_is_pi_1(spec):
    """With a beta that moves nothing; compiled and from Python, dense and sparse; whatever the scale of pi_1."""
    problem = coreplan.make(spec)
    theta = np.random.default_rng(0).normal(size=problem.features.dimension)
    pi1 = SoftmaxPolicy(theta, 3.0, problem.features)
    states = coreplan.CoreSet.of(problem).states
    found = run(problem, pi1=pi1, beta=1e-9, output="last").policy
    np.testing.assert_allclose(found.probabilities(states), pi1.probabilities(states), atol=1e-6)
    moved = run(problem, pi1=pi1, beta=1.0, output="last").policy
    assert np.abs(moved.probabilities(states) - pi1.probabilities(states)).max() > 1e-3


def test_a_good_start_helps():
    """Started near an optimal policy, a short run ends near it; from the uniform one it does not."""
    problem = coreplan.make("random-linear")
    e = Enumerated.of(problem)
    values, star = optimal(e)
    theta = np.linalg.lstsq(np.asarray(e.Phi), values.Q, rcond=None)[0]
    pi1 = SoftmaxPolicy(theta, 200.0, problem.features)
    assert conditional_entropy(e, star, pi1.probabilities(e.table.states)) < 0.3 < np.log(e.A)
    policies = [run(problem, pi1=p).policy.probabilities(e.table.states) for p in (pi1, None)]
    near, far = (value(e, star) - value(e, pi) for pi in policies)
    assert near < 0.2 * far


def test_it_is_resumed_to_the_last_bit(tmp_path):
    problem, w = coreplan.make("random-linear"), np.arange(8.0)

    def go(budget, w, **more):
        return coreplan.plan(
            problem, planner=PrimalDual(**RATES, pi1=w), budget=budget, seed=1, reality=0, **more
        )

    whole, out = go(1600, w), tmp_path / "run"
    go(800, w, out=out)
    assert whole.policy.theta.tobytes() == go(1600, w, out=out, resume=True).policy.theta.tobytes()
    with pytest.raises(coreplan.FileError, match="pi1"):
        go(3200, w + 1.0, out=out, resume=True)


def test_near_pi_1_is_not_near_uniform():
    """The doubt that a policy has hardly left the uniform one is none where it starts elsewhere."""
    problem = coreplan.make("random-linear")
    tiny = {"beta": 1e-6, "eta": 1e-6, "alpha": 1e-6}
    assert "of the way" in run(problem, **tiny).reason
    assert "of the way" not in run(problem, pi1=0.01 * np.arange(8.0), **tiny).reason


@pytest.mark.parametrize(
    ("pi1", "words"),
    [
        (np.zeros(7), "features, of dimension 8"),
        (np.full((12, 3), 1 / 3), "theory.compact"),
        (np.full(8, np.nan), "finite"),
        ("uniform", "array of numbers"),
        (SoftmaxPolicy(np.ones(8), np.inf), "infinite"),
        (SoftmaxPolicy.uniform(coreplan.make("random-linear:instance=3").features), "other features"),
    ],
    ids=["short", "table", "nan", "text", "greedy", "other features"],
)
def test_bad_starts(pi1, words):
    with pytest.raises(InputError, match=words):
        run(coreplan.make("random-linear"), pi1=pi1)


def test_a_table_becomes_a_vector_where_the_features_can_say_it():
    problem = coreplan.make("river-swim")
    pi = np.random.default_rng(0).dirichlet(np.ones(2), size=6)
    policy = compact(problem, pi)
    np.testing.assert_allclose(policy.probabilities(Enumerated.of(problem).table.states), pi, atol=1e-9)
    assert run(problem, pi1=policy).policy.theta.shape == (12,)


@pytest.mark.parametrize(
    ("spec", "pi", "words"),
    [
        ("river-swim", np.eye(2)[[0, 1, 0, 1, 0, 1]], r"probability 0.*infinite"),
        ("river-swim", np.full((6, 2), 0.4), "distribution|sum"),
        ("river-swim", np.full((5, 2), 0.5), "6"),
        ("river-swim", "left", "distribution"),
        ("random-linear", None, "off by"),
        ("mountain-car", np.ones((1, 1)), "cannot be enumerated"),
    ],
    ids=["zeros", "no distribution", "shape", "text", "inexpressible", "too large"],
)
def test_tables_that_do_not_work(spec, pi, words):
    problem = coreplan.make(spec)
    if pi is None:
        pi = np.random.default_rng(0).dirichlet(np.ones(4), size=200)
    with pytest.raises(InputError, match=words):
        compact(problem, pi)
