"""The query log: the same bits and counts with and without it, and nothing that is in it is paid for again."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

import coreplan
from coreplan import FileError, InputError, SimulatorError
from coreplan.planners import PLANNERS, CoreMirror, PlugIn, SampledLP
from coreplan.simulate import Simulator, logging_to
from coreplan.simulate.elsewhere import task
from coreplan.simulate.log.records import Bad, scanned
from helpers.executors import Here, breaking, eager, walk
from helpers.paid import BUDGET, Paid, outcome, records_of
from helpers.runs import numpy_problem

# The others are covered by `check_planner`, on problems that have what they need.
FROM_SAMPLES = [
    n for n, p in PLANNERS.items() if not p.needs_box and not p.needs_table and p.core_of != "all"
]


@pytest.fixture(autouse=True)
def no_models_left():
    task._held.clear()


@pytest.mark.parametrize("kind", ["scalar", "batches", "noise"])
@pytest.mark.parametrize("name", FROM_SAMPLES)
def test_every_planner_gets_the_same_bits_and_pays_once(name, kind, tmp_path):
    plain, paid, _ = outcome(Paid(kind), name)
    first, again = tmp_path / "first.log", tmp_path / "second.log"
    with_log = outcome(Paid(kind), name, log=first)
    assert with_log[0] == plain and with_log[1] + with_log[2] == paid
    assert outcome(Paid(kind), name, log=first) == (plain, 0, paid)
    with_workers = outcome(Paid(kind), name, log=again, executor=eager(Here(), 2))
    assert with_workers[0] == plain
    assert outcome(Paid(kind), name, log=again) == (plain, 0, paid)
    assert outcome(Paid(kind), name, log=first, executor=eager(Here(), 2))[1:] == (0, paid)


def answers(path):
    """Every question in a log, as bytes; a list, so that one that is there twice is noticed."""
    from coreplan.simulate.log.answers import Asked, Body, place_of, query_of
    from coreplan.simulate.log.records import body_at

    found = []
    with open(path, "rb") as file:
        for record in scanned(file.fileno(), os.path.getsize(path), 0):
            assert not isinstance(record, Bad)
            if record.kind == 0:
                continue
            body = Body(body_at(file.fileno(), record.offset)[1])
            if not body.each:
                found.append((body.place, body.pairs))
                continue
            for i in range(body.n):
                place = body.place if i == 0 else place_of(body.after(i - 1), query_of(body.place) + i)
                found.append(
                    Asked.of(place, body.parts["states"][i : i + 1], body.parts["actions"][i : i + 1])[:2]
                )
    return found


@pytest.mark.parametrize("breaks", [{0}, {5}, set(range(3, 60, 7))])
def test_workers_that_die_leave_every_answer_once(breaks, tmp_path):
    path = tmp_path / "q.log"
    whole, paid, _ = outcome(Paid())
    assert outcome(Paid(), executor=breaking(breaks), log=path)[0] == whole
    found = answers(path)
    assert len(found) == len(set(found)) == paid
    assert outcome(Paid(), log=path) == (whole, 0, paid)


@pytest.mark.parametrize("executor", [None, "workers"])
def test_after_a_fault_only_what_was_not_answered_is_paid(executor, tmp_path):
    """The simulator fails at its 100th pair, and the run has no folder: the log is all that is left of it."""
    whole, paid, _ = outcome(Paid())
    faulty = Paid()
    step = faulty.problem.model._step

    def fails(rng, x, a):
        if faulty.queries == 100:
            raise OSError("the licence server did not answer")
        return step(rng, x, a)

    faulty.problem.model._step = fails
    engine = None if executor is None else eager(Here(), 1, retries=0)
    with pytest.raises(SimulatorError, match="licence server"):
        outcome(faulty, log=tmp_path / "q.log", executor=engine)
    with pytest.warns(coreplan.ReproducibilityWarning, match="code is not what it was"):
        same, rest, known = outcome(Paid(), log=tmp_path / "q.log")
    assert same == whole and rest + known == paid
    if executor is None:
        assert known == 100
    else:  # each task has its copy of the simulator, which never sees a hundred
        assert known > 0


def test_planners_that_sweep_share_their_answers(tmp_path):
    log, m = tmp_path / "q.log", 12
    more = {"budget": 20 * m, "reality": 0}
    assert outcome(Paid(), PlugIn(noise="independent", samples=20), log=log, **more)[1] == 20 * m
    for planner in (SampledLP(n_initial=10), CoreMirror()):
        alone = outcome(Paid(), planner, **more)[0]
        same, paid, known = outcome(Paid(), planner, log=log, **more)
        assert same == alone and (paid, known) == (0, 20 * m), planner.name
    drawn = outcome(Paid(), "primal-dual", log=log, **more)
    assert drawn[2] == 0 and drawn[1] > 0, "pairs that are drawn are asked with other noise than sweeps"


def test_a_certificate_never_sees_the_samples_of_a_planner(tmp_path):
    log, paid = tmp_path / "q.log", Paid()
    found = coreplan.plan(paid.problem, budget=BUDGET, log=log, reality=0)
    before = paid.queries
    certificate = coreplan.certify(paid.problem, None, found, queries=2000, log=log)
    assert paid.queries - before == certificate.queries, "nothing of it was in the log"
    for judge in (
        lambda: coreplan.certify(paid.problem, None, found, queries=2000, log=log),
        lambda: coreplan.evaluate(paid.problem, found, rollouts=20, log=log),
        lambda: coreplan.check(paid.problem, queries=1000, log=log),
        lambda: coreplan.compare_policies(paid.problem, found, 0, queries=1000, log=log),
    ):
        judge()
        before = paid.queries
        judge()
        assert paid.queries == before
    assert coreplan.certify(paid.problem, None, found, queries=2000) == certificate


@pytest.mark.parametrize("cut", [1, 20, 23, 24, 25, 150, 400])
def test_half_a_record_at_the_end_is_dropped(cut, tmp_path):
    log = tmp_path / "q.log"
    whole, paid, _ = outcome(Paid(), log=log)
    records = records_of(log)
    end = records[30].offset + min(cut, 24 + records[30].length - 1)
    os.truncate(log, end)
    same, rest, known = outcome(Paid(), log=log)
    assert same == whole and known == 29 * 4 and rest == paid - known
    assert outcome(Paid(), log=log) == (whole, 0, paid)


@pytest.mark.parametrize("size", [0, 10, 100])
def test_a_log_of_which_only_the_beginning_was_begun(size, tmp_path):
    log = tmp_path / "q.log"
    whole, paid, _ = outcome(Paid(), log=log)
    os.truncate(log, size)
    assert outcome(Paid(), log=log) == (whole, paid, 0)


def test_damage_is_reported_and_costs_what_it_hit(tmp_path):
    log = tmp_path / "q.log"
    whole, paid, _ = outcome(Paid(), log=log)
    data = bytearray(log.read_bytes())
    records = records_of(log)
    data[records[10].offset + 60] ^= 1  # the body of one record of four pairs
    data[records[20].offset + 9] ^= 1  # the length that the frame of another tells
    log.write_bytes(data)
    with pytest.warns(coreplan.CoreplanWarning, match=r"is damaged: [\d,]+ of [\d,]+ bytes"):
        assert outcome(Paid(), log=log) == (whole, 8, paid - 8)
    assert log.read_bytes()[: len(data)] == bytes(data), "nothing is overwritten"
    with pytest.warns(coreplan.CoreplanWarning, match="damaged"):
        assert outcome(Paid(), log=log) == (whole, 0, paid)


def test_what_is_no_log_is_refused_and_left_as_it_is(tmp_path):
    paid = Paid()
    for content in (b"x", b"precious" * 100, b"\x89cpq" * 30, bytes(1000)):
        path = tmp_path / "mine"
        path.write_bytes(content)
        with pytest.raises(FileError, match="no query log"):
            outcome(paid, log=path)
        assert path.read_bytes() == content
    for path in (tmp_path, "/dev/null", tmp_path / "no" / "folder", "a\0b", ""):
        with pytest.raises((FileError, InputError)):
            outcome(paid, log=path)
    assert paid.queries == 0


def test_the_log_of_another_problem_seed_or_version_is_refused(tmp_path):
    log, paid = tmp_path / "q.log", Paid()
    outcome(paid, log=log)
    paid.queries = 0
    with pytest.raises(FileError, match="its seed is 0, and here it is 1"):
        outcome(paid, log=log, seed=1)
    with pytest.raises(FileError, match="its problem is walk, and here it is mine"):
        coreplan.plan(numpy_problem(), budget=BUDGET, log=log)
    with pytest.raises(FileError, match="its model is ScalarModel, and here it is FunctionModel"):
        outcome(Paid("batches"), log=log)
    with pytest.raises(InputError, match="whole number as seed"):
        coreplan.evaluate(paid.problem, 0, seed=np.random.default_rng(0), log=log)
    data = log.read_bytes()
    import zlib

    from coreplan.simulate.log.records import framed

    end = records_of(log)[1].offset
    later = b"".join(framed(0, data[24:end].replace(b'"version": 1', b'"version": 2')))
    log.write_bytes(later + data[end:])
    with pytest.raises(FileError, match="version 2 of the format"):
        outcome(paid, log=log)
    assert paid.queries == 0 and zlib.crc32(log.read_bytes()) == zlib.crc32(later + data[end:])


def test_two_runs_cannot_write_into_one_log(tmp_path):
    problem = walk()
    with (
        logging_to(tmp_path / "q.log", problem, 0),
        pytest.raises(FileError, match="Another run is writing into the log"),
    ):
        coreplan.plan(problem, budget=BUDGET, log=tmp_path / "q.log")
    assert not (tmp_path / "q.log").exists(), "a log in which nothing was written is not left behind"


def test_wrong_answers_are_not_kept(tmp_path):
    paid = Paid()
    step = paid.problem.model._step
    paid.problem.model._step = lambda rng, x, a: (7.0, x) if paid.queries == 50 else step(rng, x, a)
    for _ in range(2):
        with pytest.raises(SimulatorError, match="reward 7"):
            outcome(paid, log=tmp_path / "q.log")
    assert len(answers(tmp_path / "q.log")) == 50


def test_a_wider_reward_range_takes_the_same_answers(tmp_path):
    import dataclasses

    wide = Paid()
    wide.problem = dataclasses.replace(wide.problem, reward_range=(-1.0, 3.0))
    outcome(Paid(), log=tmp_path / "q.log")
    same, paid, known = outcome(wide, log=tmp_path / "q.log")
    assert (paid, known) == (0, 540)
    assert same == outcome(wide)[0]


def test_a_compiled_problem_with_a_log_runs_the_python_loop_with_the_same_bits(tmp_path):
    problem = coreplan.make("river-linear")
    for name in ("primal-dual",):
        plain = coreplan.plan(problem, planner=name, budget=2000)
        logged = coreplan.plan(problem, planner=name, budget=2000, log=tmp_path / "q.log")
        assert (
            plain.policy.theta.tobytes() == logged.policy.theta.tobytes() and plain.queries == logged.queries
        )
    again = coreplan.plan(problem, planner=name, budget=2000, log=tmp_path / "q.log")
    assert again.logged_queries == again.queries


def test_an_environment_that_keeps_its_states_is_refused(tmp_path):
    problem = coreplan.from_gymnasium(
        "CartPole-v1", coreplan.features.polynomial([-1] * 4, [1] * 4, 1, 2), copy=True, reward_range=(0, 1)
    )
    with pytest.raises(InputError, match="keeps its states in this process, so a log"):
        coreplan.plan(problem, planner="grow", budget=400, log=tmp_path / "q.log")


def test_a_resume_with_a_log_asks_nothing_again(tmp_path):
    """A copy of the folder as it was in the middle stands for a process that was killed then."""
    log, out, killed = tmp_path / "q.log", tmp_path / "run", tmp_path / "killed"
    paid = Paid()
    whole, all_of_it, _ = outcome(Paid())
    step = paid.problem.model._step

    def copies(rng, x, a):
        if paid.queries == 300:
            shutil.copytree(out, killed)
        return step(rng, x, a)

    paid.problem.model._step = copies
    outcome(paid, log=log, out=out, checkpoint_seconds=1e-6)
    with pytest.warns(coreplan.ReproducibilityWarning):  # this simulator makes no copies
        same, rest, known = outcome(Paid(), log=log, out=killed, resume=True)
    assert same == whole and rest == 0 and 0 < known < all_of_it


def test_the_simulator_takes_from_the_log_in_the_middle_of_a_batch(tmp_path):
    """With pairs one at a time, what follows a pair that is new may be known: it is not asked."""
    paid = Paid()
    actions = np.array([1, 0, 1, 1])
    with logging_to(tmp_path / "q.log", paid.problem, 0):
        Simulator(paid.problem).step(np.array([2, 3, 4, 1]), actions)
        before = paid.queries
        # Pair 1 is another one; action 0 draws nothing, so that the stream stands as before at the pairs behind it.
        Simulator(paid.problem).step(np.array([2, 1, 4, 1]), actions)
    assert paid.queries - before == 1


def test_a_block_of_more_pairs_than_a_record_holds(tmp_path, monkeypatch):
    """A record's keys are numbered in so many bits of its place; a block may have more pairs."""
    monkeypatch.setattr("coreplan.simulate.log.querylog._SHIFT", 3)
    for module in ("querylog", "recorded"):
        monkeypatch.setattr(f"coreplan.simulate.log.{module}.MANY", 8)
    paid = Paid()
    paid.problem.model.block = 60
    whole = outcome(paid)
    for executor in (None, eager(Here(), 2)):
        path = tmp_path / f"{executor is None}.log"
        paid = Paid()
        paid.problem.model.block = 60
        assert outcome(paid, log=path, executor=executor)[0] == whole[0]
        assert len(answers(path)) == len(set(answers(path))) == whole[1]
        paid = Paid()
        paid.problem.model.block = 60
        assert outcome(paid, log=path) == (whole[0], 0, whole[1])
