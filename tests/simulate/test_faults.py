"""Simulators and features that break their word, in NumPy and deep inside a compiled chunk."""

from __future__ import annotations

import dataclasses
import json
import sys

import numpy as np
import pytest

import coreplan
from coreplan import FunctionModel, plan
from helpers import compiled_faults
from helpers.runs import numpy_problem, planner, same


def bad_step(change):
    def step(rng, states, actions):
        return change(*numpy_problem().model.step(rng, states, actions))

    return step


def with_value(array, at, value):
    array = np.array(array, dtype=float)
    array[at] = value
    return array


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r, y: (with_value(r, 2, np.nan), y), "the reward nan for state"),
        (lambda r, y: (with_value(r, 2, np.inf), y), "the reward inf for state"),
        (lambda r, y: (with_value(r, 2, 1.5), y), "the reward 1.5 for state"),
        (lambda r, y: (with_value(r, 2, -0.01), y), "outside the declared range [0, 1]"),
        (lambda r, y: (r[:-1], y), "8 real rewards"),
        (lambda r, y: (r[:, None], y), "shape (8, 1)"),
        (lambda r, y: (r.astype(str), y), "8 real rewards"),
        (lambda r, y: (r + 0j, y), "8 real rewards"),
        (lambda r, y: (r, y[:-1]), "must return 8 states in an array of shape (8,)"),
        (lambda r, y: (r, y[:, None]), "got shape (8, 1)"),
        (lambda r, y: (r, y + 0.5), "dtype int64, got float64"),
        (lambda r, y: (r, y + 10_000), "raised IndexError"),
        (lambda r, y: r, "must return (rewards, next_states)"),
        (lambda r, y: None, "got NoneType"),
        (lambda r, y: ([[1.0, 2.0], [3.0]], y), "cannot be read as one array"),
        (lambda r, y: (r, [[1], [2, 3]]), "cannot be read as one array"),
        (lambda r, y: sys.exit(), "raised SystemExit"),
    ],
)
def test_bad_simulators(change, words, tmp_path):
    with pytest.raises(coreplan.CoreplanError) as caught:
        plan(numpy_problem(bad_step(change)), planner=planner(), budget=800, out=tmp_path)
    assert words in str(caught.value)
    # The folder stays usable: mended, the run goes on from it.
    mended = plan(numpy_problem(), planner=planner(), budget=800, out=tmp_path, resume=True)
    same(mended, plan(numpy_problem(), planner=planner(), budget=800))


def test_bad_initial_states():
    with pytest.raises(coreplan.SimulatorError, match="initial must return 7 states"):
        plan(numpy_problem(initial=lambda rng, n: np.zeros(n + 1, dtype=int)), planner=planner(), budget=800)


def test_not_finite_states():
    problem = coreplan.make("mountain-car:grid=3")
    model = FunctionModel(3, problem.model.initial, lambda rng, x, a: (np.full(len(x), -1.0), x * np.nan))
    broken = dataclasses.replace(problem, model=model)
    with pytest.raises(
        coreplan.SimulatorError,
        match=r"returned the state \(position: nan, velocity: nan\), which is not finite",
    ):
        plan(broken, planner=planner(), budget=800)


@pytest.mark.parametrize("kind", ["reward", "state", "features"])
def test_compiled_faults_name_the_pair_and_keep_the_checkpoint(kind, tmp_path):
    """A compiled simulator that goes wrong after a while, deep in a chunk."""
    problem = compiled_faults.problem(kind)
    words = {
        "reward": "the reward 7 for state",
        "state": "not finite",
        "features": "above the declared radius",
    }[kind]
    with pytest.raises(coreplan.CoreplanError, match=words):
        plan(problem, planner=planner(), budget=50_000, block=400, out=tmp_path)
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["status"] == "failed" and record["queries"] > 0
    assert record["queries"] % 400 != 0, "the asks of the chunk before the faulty one are kept"
    assert record["lost_queries"] >= 8 and record["lost_queries"] % 8 == 0, (
        "the faulty ask, and those repeated"
    )
    mended = plan(
        compiled_faults.problem("none"),
        planner=planner(),
        budget=50_000,
        block=400,
        out=tmp_path,
        resume=True,
    )
    same(mended, plan(compiled_faults.problem("none"), planner=planner(), budget=50_000, block=400))


def test_kernels_with_the_wrong_arguments():
    with pytest.raises(coreplan.InputError, match="Numba cannot compile") as caught:
        plan(compiled_faults.wrong_signature(), planner=planner(), budget=800)
    assert "Traceback" not in str(caught.value) and len(str(caught.value)) < 700


@pytest.mark.parametrize("part", ["step", "features"])
def test_kernels_that_leave_entries_unwritten(part):
    with pytest.raises(coreplan.InputError, match=f"compiled {part}.*gave two answers"):
        plan(compiled_faults.unwritten(part), planner=planner(), budget=800)


def test_compiled_features_that_raise():
    with pytest.raises(coreplan.FeatureError, match="raised ValueError: no such state"):
        plan(compiled_faults.raising_features(), planner=planner(), budget=800)
