"""What the attack found in the API, one line each: these were exceptions of NumPy's, Numba's or Python's."""

from __future__ import annotations

import json

import numpy as np
import pytest

import coreplan
from coreplan import CoreplanError, CoreSet, FeatureError, FileError, InputError, SoftmaxPolicy, problem
from coreplan.core import rollout_pool, select, uniform_pool
from coreplan.planners import make_planner, options
from helpers.attack.calls import CALLS, callable_of, policy, tiny
from helpers.attack.problems import CORE, Fault, problem_of
from helpers.attack.zoo_values import Rude

HUGE = np.broadcast_to(0.5, (10**6, 10**6))  # 8 TB, were it copied


def spoilt(name, **arguments):
    """A valid call with arguments replaced."""
    return lambda: callable_of(name)(**{**CALLS[name](), **arguments})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: CoreSet.of(3.5), "must be a Problem, got 3.5"),
        (lambda: CoreSet(*CORE).features("phi"), "must be a feature map, got 'phi'"),
        (lambda: CoreSet.distinct(np.inf, CORE[1]), "as many actions"),
        (lambda: CoreSet.distinct(CORE[0], "x"), "whole numbers"),
        (lambda: CoreSet(HUGE, CORE[1]), "as many actions"),
        (lambda: SoftmaxPolicy.uniform(None), "must be a feature map"),
        (lambda: SoftmaxPolicy(np.ones(2), np.ma.array([1.0, 2.0])), "positive, or infinity"),
        (spoilt("SoftmaxPolicy.load", features=10**400), "must be a feature map"),
        (lambda: coreplan.make({"spec": 1}), "must be a text"),
        (lambda: problem.parse_value(None), "must be a text"),
        (lambda: problem.problem_by_name(["a", "b"]), "must be a text"),
        (lambda: options(2**64), "must be a text"),
        (lambda: make_planner("grow", np.eye(3)), "must be a mapping"),
        (lambda: tiny().to_return_units("x"), "finite number"),
        (lambda: tiny().to_reward_units(10**400), "finite number"),
        (lambda: tiny().ended(None), "batch of states"),
        (lambda: problem.with_horizon("tiny", 5), "must be a Problem"),
        (spoilt("Problem", core_pairs=False), r"core_pairs=...\)` must be \(states"),
        (lambda: problem.alive("x"), "a batch of states"),
        (lambda: problem.alive(()), "come in batches"),
        (lambda: problem.at_time(..., 3), "a batch of states"),
        (lambda: problem.widened(7), "lowest, highest"),
        (lambda: problem.terminal_pairs(CORE[0], [[1], [2, 3]]), "cannot be read as one array"),
        (lambda: problem.interpolation_core(0, 1, [2], 2), "one number per coordinate"),
        (spoilt("problem.outside_box", states=open), "batch of states"),
        (spoilt("problem.Tabular", r=(1, 0)), "rewards"),
        (spoilt("problem.Tabular", P=(0.5, 0.5)), "a matrix of numbers"),
        (lambda: problem.tabular_model(int), "must be a Tabular"),
        (spoilt("problem.tabular_model", rewards="x"), "rewards"),
        (spoilt("problem.from_linear", W=10**400), "cannot be read as numbers"),
        (spoilt("problem.sklearn_features", intercept=np.ones(3)), "True or False"),
        (spoilt("problem.rectilinear", periodic=np.array(True)), "one True or False per coordinate"),
        (spoilt("CompiledFeatures", state_dtype=b"x"), "a dtype of numbers"),
        (spoilt("CompiledModel", state_shape="ab"), "a tuple of whole numbers"),
        (spoilt("plan", planner=coreplan.PrimalDual(theta0=10**400), out=None), "an array of numbers"),
        (lambda: select("pool", size=3), "must be a Pool"),
        (lambda: uniform_pool("tiny", 3), "must be a Problem"),
        (lambda: rollout_pool("tiny", None, 3), "must be a Problem"),
        (lambda: coreplan.evaluate("tiny", policy()), "must be a Problem"),
        (spoilt("evaluate", exact=np.zeros(2)), "True or False"),
        (lambda: coreplan.compare_policies(b"x", 0, 1), "must be a Problem"),
        (lambda: list(spoilt("steps", core="core")()), "must be a CoreSet"),
        (lambda: list(spoilt("steps", value=lambda: 1)()), "must be value"),
        (spoilt("from_gymnasium", copy=np.ones(2)), "True or False"),
        (spoilt("from_gymnasium", features=np.array([])), "must be a feature map"),
        (spoilt("problem.fourier", periodic=Rude()), "one True or False per coordinate"),
        (lambda: problem.at_time(HUGE, 3), "fits into memory"),
        (lambda: spoilt("Problem", tabular=int)().tabular(), "returns a Tabular, got 0"),
        (lambda: problem.problem_by_name("x" * 300 + ".py:mine"), "There is no file"),
    ],
)
def test_misuse_is_an_error_of_ours(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_a_transformer_that_raises_is_an_error_of_ours():
    with pytest.raises(FeatureError, match="raised ValueError"):
        spoilt("problem.sklearn_features", states=np.array([3]))()


@pytest.mark.parametrize(
    "name", ["n" * 300, "d/" * 3_000, "\ud800", "a\0b"], ids=["long", "deep", "half", "NUL"]
)
@pytest.mark.parametrize("call", [coreplan.load_policy, coreplan.load_run, CoreSet.load, CoreSet(*CORE).save])
def test_names_that_no_file_can_have(call, name):
    with pytest.raises(FileError, match=r"no file or folder|name of a file"):
        call(name)


class Odd(Exception):
    """An exception whose text cannot be had."""

    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize("part", ["initial", "step", "features", "mask", "ends", "baseline"])
def test_exceptions_that_cannot_be_printed(part):
    """The first five are of the run, or of the rollouts; a baseline that raises costs the verdict only."""

    def act(value, arguments):
        raise Odd

    fault = Fault(part, act)

    def mask(states):
        return fault("mask", lambda: np.ones((len(states), 2), dtype=bool), (states,))

    def ends(states):
        return fault("ends", lambda: np.zeros(len(states), dtype=bool), (states,))

    def baseline(states):
        return fault("baseline", lambda: np.zeros(len(states), dtype=int), (states,))

    try:
        given = problem_of("function", "dense", fault, mask=mask, ends=ends)
        result = coreplan.plan(given, planner="plug-in", budget=2_000, baseline=baseline)
    except CoreplanError as error:
        assert "Odd" in str(error)
    else:
        assert part in ("ends", "baseline") and "Odd" in result.no_verdict
    assert fault.struck


@pytest.mark.parametrize("changes", [{"high": -0.0}, {"value": 0.9}, {"low": -3.0}, {"high": 7.0}])
def test_an_evaluation_outside_its_interval_is_damaged(tmp_path, changes):
    coreplan.plan(tiny(), budget=60, out=tmp_path, reality=0, evaluate=10)
    file = tmp_path / "evaluation.json"
    file.write_text(
        json.dumps(json.loads(file.read_text()) | {"value": 0.5, "low": 0.4, "high": 0.6} | changes)
    )
    with pytest.raises(FileError, match=r"evaluation.json cannot be read \(the value .* lies in \[0, 1\]"):
        coreplan.load_run(tmp_path, tiny())
