"""Same bits with any number of BLAS threads; and what a run records of its machine."""

import json
import os
import subprocess
import sys
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import coreplan
from coreplan import FunctionFeatures, core
from coreplan.base import CoreplanWarning, differences, machine, one_thread, threads
from helpers.places import ROOT

SMALL = {"planner": "core-mirror", "reality": 0}


def counts():
    return [library.get_num_threads() for library in threads.libraries()]


@pytest.fixture
def two():
    """Two BLAS threads around a test, whatever the environment says."""
    with threadpool_limits(limits=2, user_api="blas"):
        if set(counts()) != {2}:
            pytest.skip("this BLAS cannot use two threads")
        yield


def test_the_bits_do_not_depend_on_the_number_of_threads():
    """Without `one_thread`, all but Algorithm 1 and the evaluation differ here between one thread and two."""
    found = []
    for number in "12":  # one after the other, so that the second need not compile
        environment = os.environ | {f"{kind}_NUM_THREADS": number for kind in ("OPENBLAS", "OMP", "MKL")}
        environment["PYTHONPATH"] = os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests")))
        command = [sys.executable, "-m", "helpers.dense"]
        found.append(
            json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
        )
    one, many = found
    assert one == many and len(one) == 11


def test_the_limit_ends_with_the_last_one_inside(two):
    with one_thread:
        assert set(counts()) == {1}
        with one_thread:
            assert set(counts()) == {1}
        assert set(counts()) == {1}
    assert set(counts()) == {2}


def test_the_limit_ends_with_an_error(two):
    with pytest.raises(ZeroDivisionError), one_thread:
        raise ZeroDivisionError
    assert set(counts()) == {2}


def test_of_two_python_threads_the_first_to_leave_takes_nothing_from_the_other(two):
    entered, leave, seen = threading.Event(), threading.Event(), []

    def other():
        with one_thread:
            entered.set()
            leave.wait(10)
            seen.extend(counts())

    with one_thread:
        worker = threading.Thread(target=other)
        worker.start()
        assert entered.wait(10)
    leave.set()
    worker.join(10)
    assert set(seen) == {1} and set(counts()) == {2}
    with one_thread:  # and so on: nothing is left behind
        assert set(counts()) == {1}
    assert set(counts()) == {2}


def seeing(seen):
    """random-linear with features that write down how many BLAS threads there are when they are called."""
    problem = coreplan.make("random-linear")
    inner = problem.features

    def features(states):
        seen.update(counts())
        return inner(states)

    return replace(
        problem, features=FunctionFeatures(features, inner.n_actions, inner.dimension, inner.radius)
    )


DOORS = {
    "plan": lambda problem, policy: coreplan.plan(problem, budget=200),
    "steps": lambda problem, policy: list(coreplan.steps(problem, coreplan.PlugIn(), budget=40)),
    "evaluate": lambda problem, policy: coreplan.evaluate(problem, policy, rollouts=2, exact=False),
    "compare_policies": lambda problem, policy: coreplan.compare_policies(
        problem, policy, policy, queries=100, exact=False
    ),
    "certify": lambda problem, policy: coreplan.certify(problem, None, policy, queries=2000),
    "check": lambda problem, policy: coreplan.check(problem, queries=400),
    "select": lambda problem, policy: core.select(core.rollout_pool(problem, None, 50), size=8),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_is_limited(door, two):
    seen = set()
    problem = seeing(seen)
    DOORS[door](problem, coreplan.SoftmaxPolicy.uniform(problem.features))
    assert seen == {1} and set(counts()) == {2}


def test_between_two_steps_the_threads_are_the_callers(two):
    for _ in coreplan.steps(coreplan.make("random-linear"), coreplan.PlugIn(), budget=40):
        assert set(counts()) == {2}


def test_a_run_records_its_machine(tmp_path):
    coreplan.plan(coreplan.make("random-linear"), budget=80, out=tmp_path / "r", **SMALL)
    record = json.loads((tmp_path / "r" / "run.json").read_text())["machine"]
    assert record == machine() and record["numpy"] == np.__version__
    assert set(record) == {
        "python", "numpy", "scipy", "numba", "llvmlite", "blas", "processor", "numpy_simd"
    }  # fmt: skip
    assert all(record[name] for name in ("python", "scipy", "numba", "llvmlite", "blas", "processor"))


def resumed(folder, change):
    """What a resume warns of after `change(record)` has been made to run.json."""
    problem = coreplan.make("random-linear")
    coreplan.plan(problem, budget=80, out=folder, **SMALL)
    record = json.loads((folder / "run.json").read_text())
    change(record)
    (folder / "run.json").write_text(json.dumps(record))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        coreplan.plan(problem, budget=160, out=folder, resume=True, **SMALL)
    return [str(w.message) for w in seen if issubclass(w.category, CoreplanWarning)]


def test_a_resume_on_another_machine_warns_once_and_goes_on(tmp_path):
    def change(record):
        record["machine"] |= {"numpy": "1.0", "blas": ["mkl 2020", "x" * 500]}

    (message,) = resumed(tmp_path / "r", change)
    assert f"numpy was 1.0, now {np.__version__}" in message and "blas was mkl 2020" in message
    assert "scipy" not in message and len(message) < 1000
    # The record is now of this machine, and another resume says nothing.
    assert json.loads((tmp_path / "r" / "run.json").read_text())["machine"] == machine()


@pytest.mark.parametrize("damage", [None, 3, "old", [], {}, {"numpy": None, "more": 1}])
def test_a_record_without_a_machine_goes_on(tmp_path, damage):
    def change(record):
        if damage is None:
            del record["machine"]
        else:
            record["machine"] = damage

    assert len(resumed(tmp_path / "r", change)) == (isinstance(damage, dict) and "numpy" in damage)


def test_the_same_machine_warns_of_nothing(tmp_path):
    assert resumed(tmp_path / "r", lambda record: None) == []
    assert differences(machine(), machine()) == []
