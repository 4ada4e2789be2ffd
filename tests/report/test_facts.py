"""What a report reads from a run's folder: all of it, or what is there and what is missing."""

import json
import math
import re

import numpy as np
import pytest

import coreplan
from coreplan import FileError
from coreplan.judge import Report
from coreplan.planners import PLANNERS
from coreplan.report import Sample, draw_sample, facts_of, measure
from coreplan.report.explorer import FITTED
from coreplan.run import CHECK_FILE, RUN_FILE, SAMPLE_FILE, TRACE_FILE
from helpers.places import ROOT
from helpers.runs import numpy_problem


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with everything in its folder, and its plan."""
    folder = tmp_path_factory.mktemp("runs") / "river"
    problem = coreplan.make("river-linear")
    found = coreplan.plan(problem, budget=4_000, out=folder, evaluate=True, certify=20_000)
    measure(folder, problem, found.policy, found.core, queries=3_000)
    return folder, found


def copied(run, tmp_path):
    for file in run[0].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_everything_in_a_folder_is_found(run):
    folder, plan = run
    facts = facts_of(folder)
    assert facts.missing == [] and facts.title == "river-linear" and facts.planner == "plug-in"
    assert facts.evaluation == plan.evaluation and facts.certificate == plan.certificate
    assert np.array_equal(facts.policy.theta, plan.policy.theta)
    assert np.array_equal(facts.trace.rows, plan.trace.rows, equal_nan=True)
    assert len(facts.core) == len(plan.core) and facts.whole("queries") == plan.queries
    assert facts.check is not None and facts.sample.of(plan.policy)


@pytest.mark.parametrize("name", ["policy.npz", "trace.csv", "evaluation.json", "certificate.json", "reality.json",
                                  "run.json", CHECK_FILE, SAMPLE_FILE])  # fmt: skip
@pytest.mark.parametrize("damage", [b"", b"{]", b"[1, 2]", b'{"queries": "many"}', b"\xff\xfe"])
def test_a_damaged_file_is_named_and_the_rest_is_read(run, tmp_path, name, damage):
    folder = copied(run, tmp_path)
    (folder / name).write_bytes(damage)
    facts = facts_of(folder)
    told = " ".join(facts.missing)
    if name != RUN_FILE or damage != b'{"queries": "many"}':  # which is a record, of a run without anything
        assert name in told or name.removesuffix(".json") in told, told
    if name != TRACE_FILE:
        assert len(facts.trace) == len(run[1].trace)


def test_an_unfinished_run_has_what_there_is(tmp_path):
    (tmp_path / RUN_FILE).write_text(
        json.dumps({"status": "running", "problem": "river-linear", "queries": 12})
    )
    facts = facts_of(tmp_path)
    assert facts.policy is None and facts.trace is None and facts.whole("queries") == 12
    assert any("policy.npz" in text for text in facts.missing)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(FileError, match="does not hold a run"):
        facts_of(tmp_path)


def test_a_sample_of_another_policy_is_not_shown(run, tmp_path):
    folder = copied(run, tmp_path)
    record = json.loads((folder / SAMPLE_FILE).read_text())
    (folder / SAMPLE_FILE).write_text(json.dumps(record | {"policy": "0" * 16}))
    facts = facts_of(folder)
    assert facts.sample is None and "earlier policy" in " ".join(facts.missing)


def test_a_problem_of_ones_own_is_given(tmp_path):
    problem = numpy_problem()
    coreplan.plan(problem, budget=4_000, out=tmp_path, reality=0)
    assert facts_of(tmp_path).problem is None
    assert facts_of(tmp_path, problem).policy.features is problem.features


@pytest.mark.parametrize(
    ("planner", "budget"), [("primal-dual", 2_000), ("core-mirror", 2_000), ("optimistic", 2_000)]
)
def test_weights_are_those_of_the_planners_last_state(tmp_path, planner, budget):
    problem = coreplan.make("random-linear")
    coreplan.plan(problem, planner=planner, budget=budget, out=tmp_path, reality=0)
    weights = facts_of(tmp_path).weights
    assert weights.shape == (8,) and weights.min() >= 0.0 and math.isclose(weights.sum(), 1.0, abs_tol=1e-9)
    if planner == "primal-dual":  # what the trace says of the same lambda
        entropy = facts_of(tmp_path).trace["lambda_entropy"][-1]
        assert -np.sum(weights * np.log(weights)) == pytest.approx(entropy, abs=1e-9)


def test_planners_without_weights_have_none(run):
    assert facts_of(run[0]).weights is None


def test_a_sample_follows_the_policy():
    """On a problem without noise, whose next state and reward are known."""
    problem = coreplan.make("mountain-car")
    policy = coreplan.SoftmaxPolicy.uniform(problem.features)
    sample = draw_sample(problem, policy, queries=100, seed=3)
    assert sample.queries <= 100 and len(sample.trajectories) == 2
    for trajectory in sample.trajectories:
        states, actions = np.array(trajectory.states), np.array(trajectory.actions)
        rewards, y = problem.model.step(np.random.default_rng(0), states[:-1], actions)
        assert np.allclose(y, states[1:], atol=1e-6) and np.allclose(rewards, trajectory.rewards)
    assert Sample.from_dict(json.loads(json.dumps(sample.as_dict()))) == sample
    assert draw_sample(problem, policy, queries=100, seed=3) == sample


def test_a_report_of_checks_comes_back_from_its_file():
    found = coreplan.check(coreplan.make("river-swim"), queries=300)
    assert Report.from_dict(json.loads(json.dumps(found.as_dict()))).as_dict() == found.as_dict()


def test_measuring_costs_what_it_says(tmp_path):
    problem = coreplan.make("river-swim")
    found = coreplan.plan(problem, budget=600, out=tmp_path)
    assert 0 < measure(tmp_path, problem, found.policy, queries=500) <= 500
    assert measure(tmp_path, problem, found.policy, queries=0) == 0


def test_the_planners_whose_scores_are_called_q_values_are_those_that_the_documentation_lists():
    page = (ROOT / "docs" / "report.md").read_text()
    (listed,) = re.findall(r"the page calls it so: with (.*?)\.\s", page, flags=re.S)
    assert PLANNERS.keys() >= FITTED and set(re.findall(r"`([\w-]+)`", listed)) == FITTED
