"""Certificates without a core set: the lower bound alone, still valid, and every reader copes with it."""

from __future__ import annotations

import dataclasses
import json
import sys

import numpy as np
import pytest
from scipy.stats import binom

import coreplan
from coreplan import Certificate, CoreSet, InputError, certify, load_run, plan
from coreplan.judge.certificate import alone, lower
from coreplan.planning.judged import certified
from coreplan.simulate import Simulator
from helpers.mutants import mutant
from helpers.policies import near_optimal, uniform

CERTIFICATE = "coreplan.judge.certificate.rounds"


def without_core(spec):
    """A problem without its core set, and the policy near its optimum."""
    problem = coreplan.make(spec)
    bare = dataclasses.replace(problem, core_pairs=None)
    assert bare.core_pairs is None
    return bare, near_optimal(problem)


def bounds(spec, runs):
    """Lower bounds at 90%, and the exact value."""
    problem, policy = without_core(spec)
    blind = dataclasses.replace(problem, tabular=None)
    lows = [
        certify(blind, None, policy, queries=1500, confidence=0.9, seed=seed).lower for seed in range(runs)
    ]
    return np.array(lows), coreplan.evaluate(problem, policy).value


@pytest.mark.parametrize("spec", ["random-linear", "river-linear"])
def test_the_lower_bound_stays_below_the_value(spec):
    """300 bounds at 90%: 58 misses or more have probability below 1e-6 if each misses with at most 10%."""
    lows, value = bounds(spec, 300)
    assert binom.sf(57, 300, 0.1) < 1e-6
    assert (lows > value).sum() <= 57
    assert np.median(lows) > {"random-linear": 0.95, "river-linear": 0.25}[spec] * value


def test_a_forgotten_discount_is_noticed(tmp_path, monkeypatch):
    """Fault: the fitted values are not discounted, so they count twice. Bounds exceed the value."""
    broken = mutant(lower, "rewards + gamma * V_next", "rewards + V_next", tmp_path, monkeypatch)
    monkeypatch.setattr(sys.modules[CERTIFICATE], "lower_bound", broken.lower_bound)
    lows, value = bounds("random-linear", 60)
    assert (lows > value).sum() > 57


def test_a_useless_fit_only_widens_it(monkeypatch):
    """V = 0 is valid, and the rollouts that are fitted on pay: the bound from a constant is nearer."""
    problem, policy = without_core("random-linear")
    good = certify(problem, None, policy, queries=20_000)
    monkeypatch.setattr(
        sys.modules[CERTIFICATE],
        "fit_on_rollouts",
        lambda simulator, policy, *_: alone.PolicyValues(policy, np.zeros(8), 1e-9),
    )
    poor = certify(problem, None, policy, queries=20_000)
    assert poor.lower < good.lower - 0.02 and good.lower <= good.exact.value


def test_it_says_what_is_missing_and_is_read_as_it_was_written():
    problem, policy = without_core("random-linear")
    c = certify(problem, None, policy, queries=5000)
    assert c.upper is c.gap is c.holds is c.condition is None
    assert 4500 < c.queries <= 5000 and c.lower <= c.exact.value
    assert "at least" in c.sentence and "no core set" in c.sentence and "select" in c.sentence
    record = json.loads(json.dumps(c.as_dict(), allow_nan=False))
    assert record["upper"] is record["gap"] is None and Certificate.from_dict(record) == c
    assert certify(problem, None, policy, queries=5000).lower == c.lower  # same seed, same bits


def test_a_core_set_that_is_too_large_leaves_the_lower_bound(monkeypatch):
    problem = coreplan.make("hard-linear")  # whose core features are no unit vectors
    core = coreplan.CoreSet.of(problem)
    monkeypatch.setattr(sys.modules["coreplan.judge.certificate.limits"], "LARGEST", len(core) - 1)
    c = certify(problem, None, uniform(problem), queries=2000)
    assert c.upper is None and c.lower <= c.exact.value and f"{len(core)} core pairs" in c.sentence
    assert coreplan.judge.least_queries(problem, core) == 1000


def test_a_plan_without_core_set_keeps_its_lower_bound(tmp_path):
    """Where no core set was used, `certified` leaves the lower bound, with 50,000 queries, and a run's folder reads it."""
    problem, _ = without_core("random-linear")
    made = plan(problem, CoreSet.of(coreplan.make("random-linear")), budget=800, out=tmp_path, certify=3000)
    assert made.certificate.upper is not None  # the core set that was given
    c = certified(problem, None, made.policy)
    assert c.upper is None and 45_000 < c.queries <= 50_000
    (tmp_path / "certificate.json").write_text(json.dumps(c.as_dict()))
    assert load_run(tmp_path, problem).certificate == c


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"queries": 500}, "discount 0.9 needs at least 1,000"), ({"theta": np.zeros(8)}, "Leave it out")],
)
def test_bad_wishes(changes, words):
    problem, policy = without_core("random-linear")
    with pytest.raises(InputError, match=words):
        certify(problem, None, policy, **changes)


def test_values_are_fitted_only_where_samples_are_many_and_features_few(monkeypatch):
    """Ten transitions per feature are enough; one fewer, or too many features, leave a constant: the mean reward's."""
    problem, policy = without_core("random-linear")

    def fitted():
        return alone.fit_on_rollouts(Simulator(problem, seed=1), policy, 400, np.random.default_rng(2))

    def seen(phi, *_):
        counted.append(len(phi))
        return np.zeros((len(phi), 8))

    assert np.abs(fitted().theta).max() > 0.1
    counted = []
    monkeypatch.setattr(alone, "_means", lambda problem, policy, states: seen(states))
    fitted()
    for per_feature, of_features in ((counted[0] // 8, True), (counted[0] // 8 + 1, False)):
        monkeypatch.setattr(alone, "_PER_FEATURE", per_feature)
        counted.clear()
        values = fitted()
        assert bool(counted) == of_features
    assert (
        values.theta.tolist() == [0.0] * 8 and values.level == pytest.approx(values.high) and values.level > 1
    )
    monkeypatch.setattr(alone, "_PER_FEATURE", 1)
    for largest, of_features in ((8, True), (7, False)):
        monkeypatch.setattr(alone, "_LARGEST", largest)
        counted.clear()
        fitted()
        assert bool(counted) == of_features
