"""`compare`: what its rows hold, that no run is lost or made twice, and that the grid goes on whatever a planner does."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any, NamedTuple

import numpy as np
import pytest

import coreplan
from coreplan import FileError, InputError, PlugIn, compare, evaluate, plan
from coreplan.bench import RESULTS_FILE, Results
from coreplan.bench.comparing import comparison, one, pool, tuning
from coreplan.bench.comparing.grid import grid_of, planners_of
from coreplan.core import Lift
from coreplan.features import best_scores
from coreplan.planners import PLANNERS, Planner, ReadOut, make_planner
from coreplan.simulate import Ask

RIVER, HERE = "river-swim", {"executor": "serial", "budgets": 240}


class State(NamedTuple):
    q: Any  # [m]
    sweeps: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Backups(Planner):
    """Value iteration through the core set with a constant step."""

    step: float = 0.5

    def init(self, rng):
        return State(np.zeros(self.setup.m), 0)

    def ask(self, state, rng):
        return Ask(core_index=np.arange(self.setup.m), sweep=state.sweeps)

    def tell(self, state, answers, rng):
        target = answers.rewards + self.setup.discount * best_scores(answers.next_features, self.theta(state))
        return State(state.q + self.step * (target - state.q), state.sweeps + 1)

    def policy(self, state):
        return ReadOut(self.theta(state), 10.0)

    def theta(self, state):
        return Lift(self.setup.frame).theta(state.q)


class Slow(Backups):
    """A sweep takes a while."""

    def tell(self, state, answers, rng):
        time.sleep(0.03)
        return super().tell(state, answers, rng)


class Busy(Backups):
    """A sweep computes for a while."""

    def tell(self, state, answers, rng):
        end = time.process_time() + 0.01
        while time.process_time() < end:
            pass
        return super().tell(state, answers, rng)


class Faulty(Backups):
    def tell(self, state, answers, rng):
        raise ZeroDivisionError("my own\nfault")


class Deadly(Backups):
    """Ends the process that it is in, as the system does when memory runs out."""

    def tell(self, state, answers, rng):
        os._exit(3)


def only(found):
    (row,) = found
    return row


def test_a_row_is_a_plan_without_rollouts_and_its_exact_value():
    row = only(compare("random-linear", "core-mirror", budgets=100, seeds=[4], executor="serial"))
    problem = coreplan.make("random-linear")
    result = plan(problem, planner="core-mirror", budget=100, seed=4, reality=0)
    judged = evaluate(problem, result.policy)
    assert (row.problem, row.planner, row.seed, row.budget) == ("random-linear", "core-mirror", 4, 100)
    assert (row.value, row.gap, row.sub) == pytest.approx((judged.value, judged.gap, judged.sub))
    assert (row.queries, row.status, row.settings) == (result.queries, result.status.value, result.settings)
    assert row.version == coreplan.__version__ and row.memory > 10 and row.seconds > 0


def test_a_policy_whose_value_nobody_knows_is_judged_by_rollouts():
    problem = dataclasses.replace(coreplan.make(RIVER), tabular=None)
    row = only(compare(problem, "plug-in", seeds=1, rollouts=20, **HERE))
    assert row.sub is None and row.gap is None and 0 <= row.low <= row.value <= row.high <= 1


def test_refusals_and_faults_are_rows_and_the_grid_goes_on():
    found = compare(RIVER, ["refine", Faulty(), "plug-in"], seeds=2, **HERE)
    assert [row.status for row in found] == ["refused"] * 2 + ["failed"] * 2 + ["finished"] * 2
    refused, _, failed, _, good, _ = found
    assert refused.reason.startswith("Refine makes its own features") and refused.value is None
    assert "ZeroDivisionError: my own" in failed.reason and "\n" not in failed.reason
    assert failed.loss == 1.0 and refused.loss is None  # the uniform policy is there without planning
    assert good.sub == pytest.approx(0, abs=1e-9)
    assert "Refine makes its own features" in str(found)


def test_a_run_over_its_time_is_a_row_with_that_status_and_the_policy_so_far():
    row = only(compare(RIVER, Slow(), seeds=1, seconds=0.1, budgets=10_000, executor="serial"))
    assert row.status == "time is up" and 12 <= row.queries < 10_000 and row.value is not None


def test_a_limit_in_processor_time_counts_what_a_run_computes_and_not_what_it_waits_for():
    """80 sweeps wait for more than two seconds, and compute for a few milliseconds: below the limit of one second."""
    waits = only(
        compare(RIVER, Slow(), seeds=1, seconds=1.0, clock="processor", budgets=960, executor="serial")
    )
    assert waits.queries == 960 and waits.status != "time is up"
    busy = only(
        compare(RIVER, Busy(), seeds=1, seconds=0.1, clock="processor", budgets=9_600, executor="serial")
    )
    assert busy.status == "time is up" and busy.queries < 9_600


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"planners": "plugin"}, "no planner 'plugin'. Did you mean 'plug-in'"),
        ({"planners": "plug-in:x=1"}, "no setting 'x'"),
        ({"planners": "plug-in:x"}, "not of the form"),
        ({"planners": "default:x=1"}, "takes no settings"),
        ({"planners": PlugIn}, "must be a list"),
        ({"planners": ["plug-in", "plug-in"]}, "'plug-in' twice"),
        ({"planners": []}, "is empty"),
        ({"problems": "rivr-swim"}, "Did you mean 'river-swim'"),
        ({"problems": 3}, "must be a list"),
        ({"budgets": 0}, "at least 1, got 0"),
        ({"budgets": []}, "is empty"),
        ({"budgets": [100, "many"]}, "whole number"),
        ({"seeds": 0}, "at least 1"),
        ({"seeds": [1, 1]}, "different seeds"),
        ({"seeds": [2_000_000]}, "below 1,000,000"),
        ({"seeds": 900_000, "budgets": [1, 2]}, "at most 1,000,000"),
        ({"seconds": -1}, "positive"),
        ({"clock": "sun"}, "must be one of wall, processor"),
        ({"tune": -1}, "at least 0"),
        ({"jobs": 2}, "one run at a time"),
        ({"executor": "nobody"}, "no executor 'nobody'"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_runs(given, says, monkeypatch):
    monkeypatch.setattr(one, "plan", None)
    with pytest.raises(InputError, match=says):
        compare(**{"problems": RIVER, "planners": "plug-in", "seeds": 1, **HERE, **given})


def test_planners_of_the_command_line():
    assert planners_of("plug-in, primal-dual:K=5,eta=1e-4,grow") == [
        "plug-in",
        "primal-dual:K=5,eta=1e-4",
        "grow",
    ]


# The folder.


def made(monkeypatch):
    """The seeds and budgets of runs that are really made."""
    runs, plan_ = [], one.plan
    monkeypatch.setattr(one, "plan", lambda *a, **k: runs.append((k["seed"], k["budget"])) or plan_(*a, **k))
    return runs


def test_a_comparison_goes_on_where_it_stopped(tmp_path, monkeypatch):
    runs = made(monkeypatch)

    def stop(*a, **k):
        if len(runs) == 3:
            raise KeyboardInterrupt
        return judged(*a, **k)

    judged = one.judged
    monkeypatch.setattr(one, "judged", stop)
    given = {"problems": RIVER, "planners": "plug-in", "seeds": 5, "out": tmp_path, **HERE}
    with pytest.raises(KeyboardInterrupt):
        compare(**given)
    assert len(Results.load(tmp_path)) == 2
    with open(tmp_path / RESULTS_FILE, "a") as file:
        file.write("river-swim,plug-in,defau")  # killed in the middle of a line
    monkeypatch.setattr(one, "judged", judged)
    again = compare(**given)
    assert [row.seed for row in again] == [0, 1, 2, 3, 4] and len(runs) == 3 + 3
    assert list(Results.load(tmp_path)) == list(again)
    wider = compare(**given | {"budgets": [240, 480]})
    assert len(wider) == 10 and len(runs) == 6 + 5
    assert [row for row in wider if row.budget == 240] == list(again)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda text: text.replace(",1\n", ",2\n"), "rows of format 2"),
        (lambda text: text.replace(coreplan.__version__, "0.0.1"), "rows of coreplan 0.0.1"),
        (lambda text: text.replace("sub,", "sup,"), "not a table of format 1"),
        (lambda text: text.replace("finished,,", "finished,"), "is damaged"),
        (lambda text: text.replace(",240,240,", ",240,x,"), "is damaged"),
        (lambda text: "precious\n", "not a table"),
    ],
)
def test_rows_of_another_kind_are_not_mixed_with_new_ones(damage, says, tmp_path):
    given = {"problems": RIVER, "planners": "core-mirror", "out": tmp_path, **HERE}
    compare(**given, seeds=1)
    path = tmp_path / RESULTS_FILE
    path.write_text(damaged := damage(path.read_text()))
    with pytest.raises(FileError, match=says):
        compare(**given, seeds=2)
    assert path.read_text() == damaged


def test_rows_made_under_other_conditions_are_not_mixed(tmp_path):
    given = {"problems": RIVER, "planners": "plug-in", "seeds": 1, "out": tmp_path, **HERE}
    compare(**given)
    with pytest.raises(FileError, match="made with seconds = None, and not 5"):
        compare(**given, seconds=5)
    (tmp_path / "compare.json").unlink()
    with pytest.raises(FileError, match=r"no compare.json, which says how they were made"):
        compare(**given)


# Tuning.


def test_every_planner_gets_as_many_configurations_chosen_blindly_on_other_seeds(monkeypatch, tmp_path):
    """On a problem where a setting decides: a step of 1e-6 leaves values at zero, and larger ones find the optimum."""
    monkeypatch.setattr(Backups, "tunable", {"step": (1e-3, 1.0)}, raising=False)
    runs, blind = made(monkeypatch), []
    run = one._run
    monkeypatch.setattr(
        one, "_run", lambda task, hard: blind.append((task.row.seed, task.blind)) or run(task, hard)
    )
    given = {
        "planners": [Backups(step=1e-6), "sampled-lp"],
        "seeds": 2,
        "tune": 6,
        "rollouts": 50,
        **HERE,
    }
    found = compare(RIVER, out=tmp_path, **given)
    trials = [seed for seed, _ in runs if seed >= 1_000_000]
    assert len(trials) == 6 * len(tuning.SEEDS)  # the LP has nothing to tune
    assert all(hidden == (seed >= 1_000_000) for seed, hidden in blind)
    by = {(row.planner.partition(":")[0], row.tuning) for row in found}
    assert by == {
        ("backups", "default"),
        ("backups", "best of 6"),
        ("sampled-lp", "default"),
    }
    default, tuned = ([row.value for row in found if row.tuning == t] for t in ("default", "best of 6"))
    assert np.mean(tuned) > np.mean(default[:2]) + 0.01
    before = len(runs)
    compare(RIVER, out=tmp_path, **given)
    assert len(runs) == before


def test_where_no_configuration_gives_a_policy_there_is_a_row_that_says_so(monkeypatch):
    monkeypatch.setattr(Faulty, "tunable", {"step": (0.1, 1.0)}, raising=False)
    found = compare(RIVER, Faulty(), seeds=1, tune=2, **HERE)
    assert [row.status for row in found] == ["failed", "failed"]
    assert "None of its configurations gave a policy" in found.rows[1].reason


# Workers.


class Dying:
    """An executor whose worker dies of some tasks, and takes all that is on its way with it."""

    def __init__(self, deadly):
        self.deadly, self.flying, self.tried = deadly, [], []

    def submit(self, function, task, main):
        from concurrent.futures import Future

        self.tried.append(task)
        future = Future()
        self.flying.append((task, future))
        if len(self.flying) == 2 or task in self.deadly or self.tried.count(task) > 1:
            self.land()
        return future

    def land(self):
        from concurrent.futures import BrokenExecutor

        dead = any(task in self.deadly for task, _ in self.flying)  # and all that was on its way with it
        for task, future in self.flying:
            if dead:
                future.set_exception(BrokenExecutor("a worker died"))
            else:
                future.set_result(task.row.ended("finished", ""))
        self.flying.clear()

    def shutdown(self, wait):
        pass


def test_the_task_that_kills_workers_is_found_and_all_others_are_answered():
    from coreplan.simulate import Engine

    tasks = [
        one.Task(
            one.Row(problem="p", planner="q", tuning="default", seed=s, budget=1), "p", "q", {}, None, 10
        )
        for s in range(6)
    ]
    executor = Dying([tasks[3]])
    engine = Engine("dying", lambda: executor, workers=2, ours=True)
    rows = {row.seed: row.status for row in pool.finished(tasks, engine)}
    assert rows == {s: "failed" if s == 3 else "finished" for s in range(6)}


def test_the_only_task_over_its_time_is_the_one_to_blame(monkeypatch):
    tasks = [one.Task(one.Row("p", "q", "default", s, 1), "p", "q", {}, 1.0, 10) for s in range(3)]
    flights = pool._Flights([], None)
    (row,) = flights._blamed([(tasks[0], 3.0), (tasks[1], one.hard_limit(1.0) + 1), (tasks[2], 0.1)])
    assert (row.seed, row.status) == (1, "time is up") and "did not stop by itself" in row.reason
    assert [task.row.seed for task in flights.waiting] == [0, 2] and not flights.suspects


@pytest.mark.long
def test_processes_give_the_same_table_and_survive_a_crash():
    planners = ["plug-in", Deadly(), "core-mirror"]
    found = compare(RIVER, planners, seeds=2, budgets=240, jobs=2)
    assert [row.status for row in found] == ["finished"] * 2 + ["failed"] * 2 + ["finished"] * 2
    assert "Its process died" in found.rows[2].reason
    here = compare(RIVER, ["plug-in", "core-mirror"], seeds=2, **HERE)
    values = [(row.planner, row.seed, row.value) for row in found if row.value is not None]
    assert values == [(row.planner, row.seed, row.value) for row in here]


def test_what_cannot_be_made_by_anybody_is_said_in_a_sentence(monkeypatch):
    monkeypatch.setattr(comparison, "require_size", lambda runs: None)
    assert "executor='serial'" in str(
        pool._not_sent(one.Task(one.Row("p", "q", "d", 0, 1), "p", "q", {}, None, 9), TypeError("no"))
    )


@pytest.mark.parametrize("name", PLANNERS)
def test_every_configuration_that_can_be_drawn_is_one_that_the_planner_takes(name):
    (entrant,) = grid_of(RIVER, name, 1, 1).entrants
    found = tuning.configurations(entrant, 50)
    assert found == tuning.configurations(entrant, 50)
    assert len(found) == (50 if PLANNERS[name].tunable else 0)
    for one_ in found:
        make_planner(one_.planner, one_.settings)
    for setting, ends in PLANNERS[name].tunable.items() if found else ():
        for value in ends:
            make_planner(name, {setting: value})
