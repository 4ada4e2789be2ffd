"""The run: streams, resumes to the last bit, faults that cost nothing, folders that are never half written."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import coreplan
from coreplan import FunctionModel, PrimalDual, Status, plan
from coreplan.run.trace import next_point
from coreplan.simulate import Simulator

RATES = {"K": 7, "eta": 3e-3, "beta": 0.02, "alpha": 0.3, "D": 12.0}


def planner(**changes):
    return PrimalDual(**{**RATES, **changes})


def numpy_problem(step=None, initial=None, features=None, **changes):
    """random-linear as NumPy functions, with parts replaced."""
    problem = coreplan.make("random-linear:compiled=false")
    model = FunctionModel(4, initial or problem.model.initial, step or problem.model.step)
    return dataclasses.replace(
        problem, model=model, features=features or problem.features, tabular=None, name="mine", **changes
    )


def same(a, b):
    """Two runs agree to the last bit: policy, trace (but for seconds), counters."""
    assert a.policy.theta.tobytes() == b.policy.theta.tobytes()
    assert (a.queries, a.initial_draws) == (b.queries, b.initial_draws)
    keep = [c for c in a.trace.columns if c != "seconds"]
    for column in keep:
        np.testing.assert_array_equal(a.trace[column], b.trace[column])


# What a run returns.


def test_a_run_reports_what_it_did():
    problem = coreplan.make("random-linear")
    result = plan(problem, planner=planner(output="last"), budget=80_000, seed=4)
    assert result.status is Status.FINISHED and "budget" in result.status.sentence
    assert result.queries == 80_000 and result.seconds > 0
    trace = result.trace
    assert 195 <= len(trace) <= 205
    assert trace["queries"][0] == 0 and trace["queries"][-1] == 80_000
    assert (np.diff(trace["queries"]) > 0).all() and (np.diff(trace["seconds"]) >= 0).all()
    assert trace["lambda_entropy"][0] == pytest.approx(math.log(8))
    assert (trace["theta_norm"] <= RATES["D"] * (1 + 1e-9)).all()
    assert trace["value"][-1] == pytest.approx(coreplan.evaluate(problem, result.policy).value, abs=1e-12)
    assert trace["value"][0] == pytest.approx(coreplan.evaluate(problem, result.policy).uniform, abs=1e-12)
    assert np.isfinite(trace["temporal_difference"][1:]).all()
    lines = trace.csv().splitlines()
    assert lines[0].split(",") == list(trace.columns) and len(lines) == len(trace) + 1


@pytest.mark.parametrize("budget", [8, 100, 1601, 10**6 + 3])
def test_the_trace_has_about_200_points_whatever_the_budget(budget):
    points, queries = [], 0
    while queries + 8 <= budget:
        due = next_point(queries, budget)
        assert due > queries
        queries = min(-(-due // 8) * 8, budget // 8 * 8)
        points.append(queries)
    assert len(points) <= 201
    assert budget < 2000 or len(points) >= 190


def test_same_seed_same_bits_and_other_seeds_differ():
    problem = coreplan.make("river-swim")
    a, b, c = (plan(problem, planner=planner(), budget=4000, seed=s) for s in (1, 1, 2))
    same(a, b)
    assert a.policy.theta.tobytes() != c.policy.theta.tobytes()


def test_progress_is_told():
    class Recorder:
        seen, closed = [], False

        def update(self, queries):
            self.seen.append(queries)

        def close(self):
            self.closed = True

    recorder = Recorder()
    plan(coreplan.make("river-swim"), planner=planner(), budget=4000, progress=recorder)
    assert recorder.seen[-1] == 4000 and recorder.closed
    plan(coreplan.make("river-swim"), planner=planner(), budget=4000, progress=True)  # the bar itself


def test_random_rewards_are_used_as_sampled():
    """Only the last reward of a batch enters the update: add noise to it and lambda changes."""
    base = numpy_problem()

    def noisy(rng, states, actions):
        rewards, y = base.model.step(rng, states, actions)
        return (rewards > 0.5).astype(float), y

    a, b = (
        plan(p, planner=planner(output="last"), budget=8 * 50).policy for p in (base, numpy_problem(noisy))
    )
    assert a.theta.tobytes() != b.theta.tobytes()


# Streams.


def test_blocks_of_noise_do_not_depend_on_the_loop():
    """Small blocks: compiled and NumPy runs still agree; another block size is another stream."""
    compiled, python = coreplan.make("random-linear"), coreplan.make("random-linear:compiled=false")
    a, b = (plan(p, planner=planner(), budget=4000, block=50) for p in (compiled, python))
    same(a, b)
    c = plan(compiled, planner=planner(), budget=4000, block=64)
    assert a.policy.theta.tobytes() != c.policy.theta.tobytes()


def test_an_ask_larger_than_a_block_is_cut():
    sizes = []
    base = numpy_problem()

    def step(rng, states, actions):
        sizes.append(len(states))
        return base.model.step(rng, states, actions)

    problem = numpy_problem(step)
    result = plan(problem, planner=planner(K=99), budget=300, block=40)
    assert sizes == [40, 40, 20] * 3 and result.queries == 300
    compiled = plan(coreplan.make("random-linear"), planner=planner(K=99), budget=300, block=40)
    assert compiled.policy.theta.tobytes() == result.policy.theta.tobytes()


def test_marks_return_to_the_last_bit():
    problem = coreplan.make("random-linear")
    core = coreplan.CoreSet.of(problem)
    simulator = Simulator(problem, core, seed=3, block=20)
    ask = coreplan.planners.Ask(core_index=np.arange(8), n_initial=5)
    for _ in range(4):
        simulator.answer(ask)
    mark = json.loads(json.dumps(simulator.mark()))
    first = simulator.answer(ask)
    other = Simulator(problem, core, seed=3, block=20)
    other.return_to(mark)
    second = other.answer(ask)
    np.testing.assert_array_equal(first.next_states, second.next_states)
    np.testing.assert_array_equal(first.initial_features, second.initial_features)
    assert (simulator.queries, simulator.initial_draws) == (40, 25)


# Checkpoints and resumes.


@pytest.mark.parametrize(
    "spec", ["random-linear", "river-linear:L=4,states=40", "random-linear:compiled=false"]
)
def test_a_raised_budget_goes_on_as_if_it_had_been_there(spec, tmp_path):
    problem = coreplan.make(spec)
    whole = plan(problem, planner=planner(output="random"), budget=20_000, seed=9)
    plan(problem, planner=planner(output="random"), budget=7_777, seed=9, out=tmp_path)
    again = plan(problem, planner=planner(output="random"), budget=20_000, seed=9, out=tmp_path, resume=True)
    assert again.policy.theta.tobytes() == whole.policy.theta.tobytes()
    assert (again.queries, again.initial_draws) == (whole.queries, whole.initial_draws)


class Fails:
    """A NumPy simulator that raises at given calls, once each."""

    def __init__(self, calls):
        self.base, self.calls, self.count = numpy_problem().model, set(calls), 0

    def __call__(self, rng, states, actions):
        self.count += 1
        rewards, y = self.base.step(rng, states, actions)  # consumes noise, as a real failure would
        if self.count in self.calls:
            self.calls.remove(self.count)
            raise RuntimeError("the licence server is down")
        return rewards, y


def test_faults_cost_nothing_and_resume_to_the_last_bit(tmp_path):
    whole = plan(numpy_problem(), planner=planner(), budget=8 * 400, seed=6)
    problem = numpy_problem(Fails([3, 120, 350]))
    for _ in range(3):
        with pytest.raises(coreplan.SimulatorError, match="raised RuntimeError: the licence server is down"):
            plan(problem, planner=planner(), budget=8 * 400, seed=6, out=tmp_path, resume=True)
        assert json.loads((tmp_path / "run.json").read_text())["status"] == "failed"
    same(plan(problem, planner=planner(), budget=8 * 400, seed=6, out=tmp_path, resume=True), whole)


def test_ctrl_c_stops_cleanly_and_resumes(tmp_path):
    whole = plan(numpy_problem(), planner=planner(), budget=8 * 400, seed=6)

    def step(rng, states, actions):
        if step.count == 100:
            os.kill(os.getpid(), signal.SIGINT)
        step.count += 1
        return numpy_problem().model.step(rng, states, actions)

    step.count = 0
    handler = signal.getsignal(signal.SIGINT)
    stopped = plan(numpy_problem(step), planner=planner(), budget=8 * 400, seed=6, out=tmp_path)
    assert stopped.status is Status.INTERRUPTED and stopped.queries == 8 * 101
    assert signal.getsignal(signal.SIGINT) is handler
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "interrupted"
    assert coreplan.load_policy(tmp_path, numpy_problem()).theta.tobytes() == stopped.policy.theta.tobytes()
    same(plan(numpy_problem(), planner=planner(), budget=8 * 400, seed=6, out=tmp_path, resume=True), whole)


def test_a_second_ctrl_c_abandons_the_batch(tmp_path):
    whole = plan(numpy_problem(), planner=planner(), budget=8 * 400, seed=6)

    def step(rng, states, actions):
        step.count += 1
        answer = numpy_problem().model.step(rng, states, actions)
        if step.count == 50:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return answer

    step.count = 0
    stopped = plan(numpy_problem(step), planner=planner(), budget=8 * 400, seed=6, out=tmp_path)
    assert stopped.status is Status.INTERRUPTED and stopped.queries == 8 * 49
    same(plan(numpy_problem(), planner=planner(), budget=8 * 400, seed=6, out=tmp_path, resume=True), whole)


def test_a_finished_run_is_given_back(tmp_path):
    problem = coreplan.make("river-swim")
    first = plan(problem, planner=planner(), budget=4000, out=tmp_path)
    again = plan(problem, planner=planner(), budget=4000, out=tmp_path, resume=True)
    same(first, again)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        ".lock", "checkpoint.npz", "policy.npz", "run.json", "trace.csv"
    ]  # fmt: skip
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["status"] == "finished" and record["queries"] == 4000 and record["settings"]["K"] == 7


def test_resume_in_an_empty_folder_starts(tmp_path):
    problem = coreplan.make("river-swim")
    a = plan(problem, planner=planner(), budget=4000, out=tmp_path / "a" / "b", resume=True)
    same(a, plan(problem, planner=planner(), budget=4000))


def test_a_used_folder_is_not_overwritten(tmp_path):
    problem = coreplan.make("river-swim")
    plan(problem, planner=planner(), budget=4000, out=tmp_path)
    before = (tmp_path / "policy.npz").read_bytes()
    with pytest.raises(coreplan.FileError, match="already holds a run"):
        plan(problem, planner=planner(), budget=4000, seed=1, out=tmp_path)
    assert (tmp_path / "policy.npz").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 5}, "its seed is 0, and now it is 5"),
        ({"planner": planner(eta=0.1)}, "its settings: eta is 0.003, and now it is 0.1"),
        ({"problem": coreplan.make("river-swim:discount=0.9")}, "its problem is"),
        ({"block": 100}, "its block"),
    ],
)
def test_another_run_is_not_resumed(tmp_path, changes, words):
    start = {"problem": coreplan.make("river-swim"), "planner": planner(), "budget": 4000, "out": tmp_path}
    plan(**start)
    with pytest.raises(coreplan.FileError, match=words):
        plan(**{**start, **changes}, resume=True)


def test_two_runs_into_one_folder_are_refused(tmp_path):
    """The second run starts while the first is inside its simulator."""
    inside, go_on, seen = threading.Event(), threading.Event(), []

    def step(rng, states, actions):
        inside.set()
        go_on.wait(30)
        return numpy_problem().model.step(rng, states, actions)

    thread = threading.Thread(
        target=lambda: seen.append(plan(numpy_problem(step), planner=planner(), budget=16, out=tmp_path))
    )
    thread.start()
    assert inside.wait(60)
    code = f"""
import coreplan
coreplan.plan(coreplan.make("river-swim"), planner=coreplan.PrimalDual(K=1), budget=10, out={str(tmp_path)!r}, resume=True)
"""
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    with pytest.raises(coreplan.FileError, match="Another run"):
        plan(numpy_problem(), planner=planner(), budget=16, out=tmp_path)
    go_on.set()
    thread.join()
    assert "Another run is writing" in other.stderr
    assert seen[0].queries == 16
    plan(numpy_problem(), planner=planner(), budget=32, out=tmp_path, resume=True)  # the lock is free again


@pytest.mark.parametrize("keep", [0, 30, 0.4, 0.95])
def test_a_damaged_checkpoint_is_refused_and_left_alone(tmp_path, keep):
    problem = coreplan.make("river-swim")
    plan(problem, planner=planner(), budget=4000, out=tmp_path)
    path = tmp_path / "checkpoint.npz"
    data = path.read_bytes()
    damaged = data[: int(keep * len(data)) if isinstance(keep, float) else keep]
    path.write_bytes(damaged)
    with pytest.raises(coreplan.FileError, match=r"checkpoint\.npz"):
        plan(problem, planner=planner(), budget=8000, out=tmp_path, resume=True)
    assert path.read_bytes() == damaged


def test_a_foreign_checkpoint_is_refused(tmp_path):
    problem = coreplan.make("river-swim")
    plan(problem, planner=planner(), budget=4000, out=tmp_path)
    shutil.copy(tmp_path / "policy.npz", tmp_path / "checkpoint.npz")
    with pytest.raises(coreplan.FileError, match="not a coreplan checkpoint"):
        plan(problem, planner=planner(), budget=8000, out=tmp_path, resume=True)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(coreplan.FileError, match="Cannot write into the folder"):
        plan(coreplan.make("river-swim"), planner=planner(), budget=4000, out=tmp_path / "file" / "run")


def test_a_full_disk_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    """The disk fills while the second checkpoint is written: the first stays usable."""
    problem = coreplan.make("river-swim")
    plan(problem, planner=planner(), budget=4000, out=tmp_path)
    before = (tmp_path / "checkpoint.npz").read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(coreplan.FileError, match="No space left on device"):
        plan(problem, planner=planner(), budget=8000, out=tmp_path, resume=True)
    monkeypatch.undo()
    assert (tmp_path / "checkpoint.npz").read_bytes() == before
    assert not list(tmp_path.glob("*.partial"))
    again = plan(problem, planner=planner(), budget=8000, out=tmp_path, resume=True)
    assert (
        again.policy.theta.tobytes() == plan(problem, planner=planner(), budget=8000).policy.theta.tobytes()
    )


# Simulators and features that break their word.


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
        coreplan.SimulatorError, match=r"returned the state \[nan, nan\], which is not finite"
    ):
        plan(broken, planner=planner(), budget=800)


@pytest.mark.parametrize("kind", ["reward", "state", "features"])
def test_compiled_faults_name_the_pair_and_keep_the_checkpoint(kind, tmp_path):
    """A compiled simulator that goes wrong after a while, deep in a chunk."""
    import compiled_faults

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
    import compiled_faults

    with pytest.raises(coreplan.InputError, match="Numba cannot compile") as caught:
        plan(compiled_faults.wrong_signature(), planner=planner(), budget=800)
    assert "Traceback" not in str(caught.value) and len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"budget": 0}, "budget"),
        ({"budget": 1.5}, "budget"),
        ({"seed": -1}, "seed"),
        ({"seed": "a"}, "seed"),
        ({"budget": None}, "epsilon"),
        ({"planner": "primal-dual"}, "must be a planner"),
        ({"core": (np.zeros(1), np.zeros(1))}, "must be a CoreSet"),
        ({"checkpoint_seconds": 0}, "checkpoint_seconds"),
        ({"problem": "river-swim"}, "must be a Problem"),
    ],
)
def test_bad_arguments(arguments, words):
    good = {"problem": coreplan.make("river-swim"), "planner": planner(), "budget": 800}
    with pytest.raises(coreplan.InputError, match=words):
        plan(**{**good, **arguments})


def test_a_problem_without_a_core_set():
    problem = dataclasses.replace(coreplan.make("random-linear"), core_pairs=None)
    with pytest.raises(coreplan.InputError, match="brings no core set"):
        plan(problem, planner=planner(), budget=800)


@pytest.mark.parametrize("part", ["step", "features"])
def test_kernels_that_leave_entries_unwritten(part):
    import compiled_faults

    with pytest.raises(coreplan.InputError, match=f"compiled {part}.*gave two answers"):
        plan(compiled_faults.unwritten(part), planner=planner(), budget=800)


def test_compiled_features_that_raise():
    import compiled_faults

    with pytest.raises(coreplan.FeatureError, match="raised ValueError: no such state"):
        plan(compiled_faults.raising_features(), planner=planner(), budget=800)


def test_filled_in_rates_are_kept_when_the_budget_is_raised(tmp_path):
    problem = coreplan.make("river-swim")
    first = plan(problem, planner=PrimalDual(K=7), budget=4000, out=tmp_path)
    again = plan(problem, planner=PrimalDual(K=7), budget=8000, out=tmp_path, resume=True)
    assert again.planner.eta == first.planner.eta and again.queries == 8000
    with pytest.raises(coreplan.InputError, match="8000 queries already, more than the budget of 4000"):
        plan(problem, planner=PrimalDual(K=7), budget=4000, out=tmp_path, resume=True)


@pytest.mark.parametrize(
    "chosen",
    [
        coreplan.PlugIn(epsilon="0.01%"),
        coreplan.PlugIn(noise="independent", output=30.0),
        coreplan.CoreMirror(allocation="occupancy"),
        coreplan.OptimisticPrimalDual(steps=20),
        coreplan.SampledLP(n_initial=20),
        PrimalDual(K=7, output="last"),
    ],
    ids=lambda p: f"{p.name} {p.output if p.name == 'plug-in' else ''}",
)
def test_a_resumed_run_is_the_same_run(chosen, tmp_path):
    """Only a budget is given, or nothing: planner and settings are those it was started with."""
    problem = coreplan.make("river-linear")
    first = plan(problem, planner=chosen, budget=400, seed=1, out=tmp_path)
    for given in ({}, {"planner": chosen}, {"epsilon": getattr(chosen, "epsilon", None)}):
        same(plan(problem, seed=1, out=tmp_path, resume=True, **given), first)
    raised = plan(problem, budget=2_000, seed=1, out=tmp_path, resume=True)
    assert raised.planner.settings() == first.planner.settings() and raised.planner.name == chosen.name
    rates = {
        k: first.planner.settings()[k] for k in ("K", "eta", "beta", "alpha") if chosen.name == "primal-dual"
    }
    whole = plan(problem, planner=dataclasses.replace(chosen, **rates), budget=2_000, seed=1)
    assert raised.policy.theta.tobytes() == whole.policy.theta.tobytes()
    assert raised.queries == whole.queries > first.queries


def test_a_planner_that_is_given_is_given_with_its_defaults(tmp_path):
    problem = coreplan.make("river-linear")
    plan(problem, planner=coreplan.CoreMirror(output="greedy"), budget=400, out=tmp_path)
    with pytest.raises(coreplan.FileError, match="output is 'greedy', and now it is"):
        plan(problem, planner=coreplan.CoreMirror(), out=tmp_path, resume=True)


def test_noise_that_a_small_budget_chose_is_kept(tmp_path):
    """13 queries of 12 pairs leave none to test the simulator with; 1,300 would, and the run is the same one."""
    problem = coreplan.make("river-swim")
    for budget in (13, 1_300):
        result = plan(problem, planner=coreplan.PlugIn(), budget=budget, out=tmp_path, resume=True)
        assert result.planner.settings()["noise"] == "independent"
    assert result.queries == 1_296


def test_numpy_numbers_are_numbers(tmp_path):
    rates = PrimalDual(K=np.int64(7), eta=np.float32(0.01), beta=1, alpha=np.float64(0.1), D=np.int32(5))
    result = plan(
        coreplan.make("river-swim"), planner=rates, budget=np.int64(800), block=np.int64(100), out=tmp_path
    )
    assert result.queries == 800
    assert plan(coreplan.make("river-swim"), planner=planner(K=1e2), budget=808).planner.K == 100


def test_a_crafted_checkpoint_is_refused(tmp_path):
    """A right checksum on wrong sizes or counters: nothing reaches a kernel."""
    from coreplan.base.files import read_npz, write_npz

    problem = coreplan.make("river-swim")
    plan(problem, planner=planner(), budget=4000, out=tmp_path)
    path = tmp_path / "checkpoint.npz"
    arrays, meta = read_npz(path, "coreplan checkpoint", 1)
    crafted = [
        ({**arrays, "state.theta": np.zeros(1)}, meta),
        (arrays, {**meta, "simulator": {**meta["simulator"], "queries": -5}}),
        (arrays, {**meta, "simulator": {**meta["simulator"], "block_number": 2**70}}),
        (arrays, {**meta, "planner_stream": {}}),
    ]
    for a, m in crafted:
        write_npz(path, a, m)
        with pytest.raises(coreplan.FileError, match="damaged"):
            plan(problem, planner=planner(), budget=8000, out=tmp_path, resume=True)


def test_a_forked_worker_does_not_hold_the_lock(tmp_path):
    lock = coreplan.files.FolderLock(tmp_path)
    child = os.fork()
    if child == 0:
        time.sleep(20)
        os._exit(0)
    try:
        lock.close()
        for attempt in range(50):  # the child needs a moment to come to life and let go
            try:
                coreplan.files.FolderLock(tmp_path).close()
                break
            except coreplan.FileError:
                assert attempt < 49
                time.sleep(0.1)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_compilation_is_warm_up_also_for_numpy_models():
    """The kernels are compiled on made-up answers: the simulator is not called for it."""
    calls = []
    base = numpy_problem()

    def step(rng, states, actions):
        calls.append(len(states))
        return base.model.step(rng, states, actions)

    result = plan(numpy_problem(step), planner=planner(), budget=8)
    assert calls == [8] and result.warmup_seconds > 0
