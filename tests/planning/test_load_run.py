"""`load_run`: what a plan returned, read from its folder; folders that hold no finished run are refused."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

import coreplan
from coreplan import (
    CoreMirror,
    FileError,
    Grow,
    InputError,
    OptimisticPrimalDual,
    PlugIn,
    SampledLP,
    Status,
    plan,
)
from coreplan.planning import load_run
from helpers.cores import without
from helpers.own_planners import Sweeps
from helpers.rivers import River, own
from helpers.runs import planner, same

ARRAYS = planner(theta0=np.full(8, 0.1), lambda1=np.arange(1.0, 9.0) / 36)


def agree(loaded, made):
    """Everything that a plan says of itself, but for what only a live run has."""
    same(loaded, made)
    assert loaded.policy.scale == made.policy.scale and loaded.trace.columns == made.trace.columns
    for field in (
        "status",
        "reason",
        "seconds",
        "warmup_seconds",
        "settings",
        "evaluation",
        "certificate",
        "sentence",
    ):
        assert getattr(loaded, field) == getattr(made, field), field
    np.testing.assert_array_equal(loaded.trace.rows, made.trace.rows)
    for a, b in ((loaded.core.states, made.core.states), (loaded.core.actions, made.core.actions)):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert loaded.stored is None


@pytest.mark.parametrize(
    "chosen",
    [
        PlugIn(),
        PlugIn(epsilon="5%"),
        CoreMirror(),
        OptimisticPrimalDual(steps=20),
        SampledLP(),
        Grow(),
        planner(),
        ARRAYS,
    ],
    ids=lambda p: p.name,
)
def test_a_plan_comes_back_whole(chosen, tmp_path):
    problem = coreplan.make("random-linear")
    made = plan(
        problem,
        planner=chosen,
        budget=2_000,
        seed=3,
        out=tmp_path,
        evaluate=True,
        certify=chosen.needs_core and 3_000,
    )
    assert made.evaluation.exact and (made.certificate is not None) == chosen.needs_core
    loaded = load_run(tmp_path)
    agree(loaded, made)
    assert type(loaded.planner) is type(chosen)
    settings = {k: v for k, v in made.settings.items() if k in chosen.options()}
    assert {k: v for k, v in loaded.planner.settings().items() if k in settings} == settings
    x = problem.tabular().states
    np.testing.assert_array_equal(loaded.policy.probabilities(x), made.policy.probabilities(x))


def test_a_core_set_that_was_given_comes_back(tmp_path):
    problem = coreplan.make("river-linear")
    made = plan(problem, without(problem, 2, 7), budget=2_000, out=tmp_path, certify=3_000)
    assert made.status is Status.DOUBTFUL and made.certificate.gap is None
    loaded = load_run(tmp_path)
    agree(loaded, made)
    assert len(loaded.core) == 18 and loaded.evaluation is None


def test_a_problem_and_a_planner_of_ones_own(tmp_path):
    made = plan(own(), planner=Sweeps(), budget=240, out=tmp_path, evaluate=20)
    loaded = load_run(tmp_path, own())
    agree(loaded, made)
    assert loaded.planner is None and loaded.settings == {"most": 40}
    assert not loaded.evaluation.exact and loaded.evaluation.queries > 0
    assert (loaded.policy.act(np.arange(6), 0) == made.policy.act(np.arange(6), 0)).all()
    bare = load_run(tmp_path)  # without the problem the policy cannot act
    assert bare.policy.features is None and bare.core is None
    assert bare.policy.theta.tobytes() == made.policy.theta.tobytes() and bare.evaluation == made.evaluation


def test_a_refused_certificate_leaves_the_plan(tmp_path):
    made = plan(coreplan.make("random-linear"), budget=800, out=tmp_path, certify=5)
    assert made.status is Status.FINISHED and made.certificate is None and "too few" in made.refused
    loaded = load_run(tmp_path)
    assert loaded.certificate is None and loaded.status is Status.FINISHED


def test_a_resume_takes_away_what_was_found_about_the_policy_before(tmp_path):
    problem = coreplan.make("random-linear")
    plan(problem, budget=800, out=tmp_path, evaluate=True, certify=3_000)
    assert {"evaluation.json", "certificate.json"} <= {p.name for p in tmp_path.iterdir()}
    more = plan(problem, budget=1_600, out=tmp_path, resume=True)
    assert more.evaluation is more.certificate is None
    loaded = load_run(tmp_path)
    assert loaded.evaluation is loaded.certificate is None and loaded.queries == more.queries


def test_an_evaluation_that_fails_does_not_lose_the_plan(tmp_path):
    """The simulator breaks in the rollouts, after the last query of the plan."""
    river = River(fail_at=10**9)
    made = plan(river.problem, budget=240, seed=1)
    river.fail_at = len(river.steps) + len(river.steps) + 3
    result = plan(river.problem, budget=240, seed=1, out=tmp_path, evaluate=20)
    assert result.evaluation is None and "licence" in result.not_evaluated
    same(result, made)
    loaded = load_run(tmp_path, river.problem)
    same(loaded, made)
    assert loaded.status is Status.FINISHED and loaded.evaluation is None


@pytest.mark.parametrize("wish", [1, -3, 2.5, "all"])
def test_rollouts_that_are_none_are_refused_before_a_query(wish):
    river = River()
    with pytest.raises(InputError, match=r"plan\(evaluate=...\)` must be a whole number"):
        plan(river.problem, budget=240, evaluate=wish)
    assert river.steps == []


# Refusals.


@pytest.fixture
def folder(tmp_path):
    plan(coreplan.make("random-linear"), budget=800, out=tmp_path, evaluate=True, certify=3_000)
    return tmp_path


def test_a_folder_without_a_run(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(FileError, match=r"does not hold a run: there is no run\.json"):
            load_run(path)


@pytest.mark.parametrize("status", ["failed", "running"])
def test_a_run_that_is_not_finished(status, tmp_path):
    river = River(fail_at=3)
    with pytest.raises(coreplan.SimulatorError):
        plan(river.problem, planner=CoreMirror(), budget=240, out=tmp_path, reality=0)
    file = tmp_path / "run.json"
    record = json.loads(file.read_text())
    assert record["status"] == "failed"
    file.write_text(json.dumps({**record, "status": status}))
    with pytest.raises(FileError, match=rf"not finished \(status: {status}\)\. Resume it"):
        load_run(tmp_path, river.problem)
    plan(river.problem, planner=CoreMirror(), budget=240, out=tmp_path, resume=True)
    assert load_run(tmp_path, river.problem).queries == 240


@pytest.mark.parametrize("file", ["evaluation.json", "certificate.json"])
@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '{"value": 1}', "\xff"])
def test_damaged_judgements(file, text, folder):
    (folder / file).write_text(text, encoding="latin-1")
    with pytest.raises(FileError, match=rf"{file} cannot be read"):
        load_run(folder)
    (folder / file).unlink()
    assert getattr(load_run(folder), file.removesuffix(".json")) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "run.json").write_text("["),
        lambda folder: (folder / "run.json").write_text('{"status": "finished"}'),
        lambda folder: (folder / "policy.npz").unlink(),
        lambda folder: (folder / "policy.npz").write_bytes((folder / "policy.npz").read_bytes()[:99]),
        lambda folder: (folder / "trace.csv").unlink(),
        lambda folder: (folder / "trace.csv").write_text("queries,value\n1,2,3\n"),
        lambda folder: (folder / "trace.csv").write_text(""),
    ],
    ids=["run", "record", "no policy", "policy", "no trace", "trace", "empty trace"],
)
def test_other_damage(damage, folder):
    damage(folder)
    with pytest.raises(FileError):
        load_run(folder)


def test_an_unknown_status_or_setting_is_damage(folder):
    file = folder / "run.json"
    record = json.loads(file.read_text())
    for change in ({"status": "splendid"}, {"settings": {"noise": "pink"}}, {"queries": None}):
        file.write_text(json.dumps({**record, **change}))
        with pytest.raises(FileError, match="cannot be read"):
            load_run(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"queries": math.inf},
        {"queries": math.nan},
        {"queries": 800.0},
        {"queries": True},
        {"queries": -1},
        {"queries": 10**30},
        {"reality_queries": 10**9},
        {"initial_draws": "8"},
        {"seconds": math.nan},
        {"seconds": -1},
        {"warmup_seconds": [1]},
        {"planner": ["plug-in"]},
        {"settings": [1]},
        {"settings": "none"},
        {"status": ["finished"]},
        {"reason": 3},
        {"no_verdict": {}},
        {"problem": 3},
    ],
    ids=str,
)
def test_a_field_of_a_wrong_type_is_damage(change, folder):
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | change))
    with pytest.raises(FileError, match="cannot be read"):
        load_run(folder)


@pytest.mark.parametrize("file", ["evaluation.json", "certificate.json", "reality.json"])
def test_every_field_of_a_judgement_is_checked(file, whole):
    """Each field in turn becomes a list; where it is a number, also a text and NaN."""
    text = (whole / file).read_text()
    record = json.loads(text)
    derived = {"gap", "sub", "returns"}  # computed when they are asked for
    try:
        for name, value in record.items():
            wrong = [[[1]], "x", math.nan] if isinstance(value, (int, float)) else [[[1]], 3]
            for bad in wrong if name not in derived else ():
                (whole / file).write_text(json.dumps({**record, name: bad}))
                with pytest.raises(FileError, match=rf"{file} cannot be read"):
                    load_run(whole)
    finally:
        (whole / file).write_text(text)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with everything in it; whoever changes a file puts it back."""
    folder = tmp_path_factory.mktemp("whole")
    plan(coreplan.make("random-linear"), budget=4_000, out=folder, evaluate=True, certify=3_000)
    return folder


def test_a_policy_of_another_problem(folder):
    other = dataclasses.replace(coreplan.make("random-linear:instance=1"))
    with pytest.raises(coreplan.CoreplanError):
        load_run(folder, other)
