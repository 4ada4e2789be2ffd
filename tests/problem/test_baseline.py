"""A problem's own baseline: a rule that plans are compared with, with clocks, ends and copies."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import FunctionModel, InputError, Problem
from coreplan.problem import ZOO, one_hot, with_horizon

NAMED = {
    "queue-network": "serve the longest",
    "queue-network-cut": "serve the longest",
    "inventory": "order up to a level",
    "perishable-inventory": "base-stock at 16",
    "mountain-car": "push with the velocity",
    "cart-pole": "push where it falls",
    "pendulum": "energy, then hold",
    "acrobot": "push with the second link",
    "navigation": "round the corners",
    "masses": "LQR, rounded",
}


def test_the_problems_that_have_one():
    found = {name: coreplan.make(name).baseline for name in ZOO}
    assert {name: rule.name for name, rule in found.items() if rule} == NAMED


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("horizon", [None, 5])
def test_rules_act_wherever_a_walk_leads(name, horizon):
    """Also after the end, and with a clock, of which a rule sees nothing."""
    problem = coreplan.make(name) if horizon is None else with_horizon(coreplan.make(name), horizon, nodes=2)
    rng = np.random.default_rng(0)
    x = problem.model.initial(rng, 30)
    for _ in range(8):
        a = problem.baseline.rule(x)
        assert a.shape == (30,) and a.dtype == np.int64 and a.min() >= 0 and a.max() < problem.n_actions
        if horizon is not None and not problem.ended(x).any():
            np.testing.assert_array_equal(a, coreplan.make(name).baseline.rule(x[:, :-2]))
        _, x = problem.model.step(rng, x, a)


def test_exact_values_of_rules():
    """On tables; the figures of the docstrings."""
    for name, value in (("queue-network-cut", 0.86388), ("inventory", 0.64787)):
        problem = coreplan.make(name)
        assert coreplan.evaluate(problem, problem.baseline.rule).value == pytest.approx(value, abs=1e-5)


def test_serving_the_longest():
    x = np.array([[3, 1, 2, 5], [5, 4, 2, 3], [1, 1, 1, 1]])
    rule = coreplan.make("queue-network").baseline.rule
    assert rule(x).tolist() == [3, 0, 3]  # servers take queues (4, 3), (1, 2), and on ties (4, 3)


def own(baseline=None, pays=(0.2, 0.5)):
    """Two actions; action a pays `pays[a]`, and noise."""

    def step(rng, states, actions):
        return np.asarray(pays)[actions] + 0.01 * rng.random(len(states)), rng.integers(0, 3, len(states))

    model = FunctionModel(2, lambda rng, n: np.zeros(n, dtype=np.int64), step)
    return Problem(model, one_hot(3, 2), 0.9, baseline=baseline)


def always(action):
    return lambda states: np.full(len(states), action)


@pytest.mark.parametrize(
    "baseline", [3, "x", ("a", "b"), (1, always(0)), ("a", always(0), 2), ("", always(0))]
)
def test_what_is_none_is_refused(baseline):
    with pytest.raises(InputError, match="baseline"):
        own(baseline)


def test_copies_keep_it():
    problem = own(("never", always(0)))
    again = dataclasses.replace(problem, name="again")
    assert again.baseline is problem.baseline and again.baseline.name == "never"
    assert own(always(0)).baseline.name == "rule"
    timed = with_horizon(problem, 7)
    assert dataclasses.replace(timed, name="x").baseline is timed.baseline
    longer = with_horizon(timed, 9)
    assert longer.baseline.rule(longer.model.initial(np.random.default_rng(0), 4)).tolist() == [0] * 4


def test_a_rule_that_cannot_act_is_refused_before_the_first_query():
    for rule in (always(2), lambda states: np.zeros(1, dtype=int), lambda states: 1 / 0):
        with pytest.raises(InputError, match="baseline"):
            coreplan.plan(own(rule), budget=2_000)


# In a plan.


def test_a_plan_compares_with_it_where_rollouts_have_room():
    problem = own(("never", always(0)))
    result = coreplan.plan(problem, budget=40_000)
    assert result.reality.own_baseline == result.baseline_name == "never"
    assert result.reality.lead.value == pytest.approx(0.3, abs=0.01) and result.queries <= 40_000
    assert "baseline  never: 0.20" in str(result) and result.status is coreplan.Status.FINISHED
    given = coreplan.plan(problem, budget=40_000, baseline=always(1))
    assert given.baseline_name == given.reality.own_baseline == "" and given.baseline.value > 0.4


def test_where_queries_are_few_the_verdict_comes_first():
    """Not a query more, and not one rollout of the policy less, than without a baseline."""
    with_one, without = coreplan.plan(own(always(0)), budget=4_000), coreplan.plan(own(), budget=4_000)
    assert with_one.earned == without.earned and with_one.queries == without.queries
    assert with_one.baseline is None and without.baseline is None
    seen = coreplan.plan(own(always(0)), budget=4_000, evaluate=50)
    assert seen.earned == without.earned and seen.baseline.value == pytest.approx(0.205, abs=0.01)
    assert "baseline  rule: 0.20" in str(seen)


@pytest.mark.parametrize("pays", [(0.2, 0.5), (0.48, 0.5)])
def test_a_baseline_that_is_as_good_raises_no_doubt(pays):
    result = coreplan.plan(own(("always", always(1)), pays), budget=40_000)
    assert result.reality.lead.value == 0.0
    assert result.status is coreplan.Status.FINISHED and "baseline" not in result.reason


def test_a_baseline_that_is_much_better_does(tmp_path):
    """Features that are the same for both actions: no policy of theirs can do what the baseline does."""
    problem = dataclasses.replace(
        own(("always 1", always(1))),
        features=coreplan.FunctionFeatures(lambda x: np.ones((len(x), 2, 1)), 2, 1, 1.0),
    )
    result = coreplan.plan(problem, planner="grow", budget=40_000, out=tmp_path / "run", evaluate=20)
    assert result.status is coreplan.Status.DOUBTFUL
    assert result.baseline_name == "always 1" and result.reality.lead.high < 0
    again = coreplan.load_run(tmp_path / "run", problem)
    assert again.baseline_name == "always 1" and again.compared == result.compared
    assert again.baseline == result.baseline and again.reality.own_baseline == "always 1"


def test_little_less_than_the_baseline_is_no_doubt():
    """A problem's own baseline is a yardstick: to earn a little less is said in the table, not held against the policy."""
    from coreplan.planners import with_reality

    result = coreplan.plan(own(("never", always(0))), budget=40_000)
    seen = result.reality
    scale = seen.gain.value
    for lead, doubtful in ((-0.05 * scale, False), (-0.2 * scale, True)):
        interval = type(seen.lead)(lead, lead - 1e-6, lead + 1e-6)
        verdict = with_reality(None, dataclasses.replace(seen, lead=interval), 0.0)
        assert (verdict is not None) == doubtful
        given = with_reality(None, dataclasses.replace(seen, lead=interval, own_baseline=""), 0.0)
        assert given.status is coreplan.Status.DOUBTFUL  # one that was asked for is taken at its word
