"""`coreplan certify`: after a plan, on a folder, with the core set that was given."""

from __future__ import annotations

import dataclasses
import json

from typer.testing import CliRunner

import coreplan
from coreplan import CoreSet, InputError
from coreplan.cli import app
from helpers.policies import uniform


def run(*arguments):
    return CliRunner().invoke(app, arguments, catch_exceptions=True)


def test_commands(tmp_path):
    out = str(tmp_path / "run")
    done = run("plan", "random-linear", "--budget", "3000", "--out", out, "--certify", "--json")
    assert done.exit_code == 0, done.output
    planned = json.loads(done.stdout)["certificate"]
    assert planned["lower"] <= planned["exact"]["value"] and planned["holds"]
    done = run("certify", out, "--queries", "5000", "--json")
    record = json.loads(done.stdout)
    assert done.exit_code == 0 and record["problem"] == "random-linear" and record["queries"] <= 5000
    assert record["upper"] >= record["exact"]["optimum"]
    done = run("certify", out, "--queries", "5000")
    assert done.exit_code == 0 and "exact gap" in done.stdout and "assumes" in done.stdout


def test_a_policy_without_core_set_has_its_lower_bound(tmp_path):
    """A policy's file remembers no core pairs, and quadratic features bring none."""
    problem = coreplan.make("inventory:features=quadratic")
    dataclasses.replace(uniform(problem), problem_name=problem.name).save(tmp_path / "policy.npz")
    done = run("certify", str(tmp_path), "--queries", "5000", "--json")
    record = json.loads(done.stdout)
    assert done.exit_code == 0 and record["upper"] is record["holds"] is record["gap"] is None
    assert 0.0 < record["lower"] <= record["exact"]["value"]
    done = run("certify", str(tmp_path), "--queries", "5000")
    assert done.exit_code == 0 and "not known" in done.stdout and "no core set" in done.stdout


def test_certify_needs_the_problem_of_ones_own(tmp_path):
    problem = dataclasses.replace(coreplan.make("random-linear"), name="mine")
    uniform(problem).save(tmp_path / "policy.npz")
    done = run("certify", str(tmp_path))
    assert isinstance(done.exception, InputError) and "--problem" in str(done.exception)
    assert isinstance(run("certify", str(tmp_path / "nothing")).exception, coreplan.FileError)


def test_certify_uses_the_core_that_was_given(tmp_path):
    """The run remembers core pairs given by hand, from its start;."""
    problem = coreplan.make("river-linear")
    own = CoreSet.of(problem)
    few = CoreSet(own.states[own.states < 9], own.actions[own.states < 9])
    coreplan.plan(problem, few, budget=2000, out=tmp_path / "few")
    coreplan.plan(problem, own, budget=2000, out=tmp_path / "own")
    assert not (tmp_path / "own" / "core.npz").exists()
    for name, holds in (("few", False), ("few/policy.npz", False), ("own", True)):
        record = json.loads(run("certify", str(tmp_path / name), "--queries", "5000", "--json").stdout)
        assert record["holds"] is holds and (record["gap"] is None) is not holds, name
    file = tmp_path / "few" / "core.npz"
    assert (CoreSet.load(file).states == few.states).all()

    def refused(words):
        done = run("certify", str(tmp_path / "few"), "--queries", "5000")
        assert isinstance(done.exception, coreplan.FileError) and words in str(done.exception), done.exception

    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    refused("damaged")
    own.save(file)
    refused("not those of the run")
    file.unlink()
    refused("not in")
    file.write_bytes(whole)
    (tmp_path / "few" / "run.json").write_text("[")
    refused("record of a run")
