"""What a planner asks next, sent before the last answers are back: the same bits, nothing asked twice, nothing lost."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np
import pytest

import coreplan
from coreplan import PlugIn, SampledLP
from coreplan.base import planner_stream
from coreplan.planners import CoreMirror, QLearning
from coreplan.run import Run
from coreplan.simulate import read_log
from coreplan.simulate.elsewhere.batch import Batch
from helpers.executors import Here, eager, walk

M = 12  # core pairs of the walk


@pytest.fixture
def small(monkeypatch):
    """Planners that ask for few pairs at a time."""
    for name in ("sampled_lp", "plug_in.planner", "q_learning"):
        monkeypatch.setattr(f"coreplan.planners.{name}.BATCH", 5 * M)


PLANNERS = [
    CoreMirror(),
    SampledLP(),
    QLearning(),
    PlugIn(samples=50),
    PlugIn(noise="independent"),
    PlugIn(epsilon="5%"),
]


def outcome(planner, executor=None, **more):
    found = coreplan.plan(
        walk(), planner=planner, budget=50 * M, executor=executor, **{"reality": 0, "block": 4, **more}
    )
    return (found.policy.theta.tobytes(), found.queries, found.initial_draws), found


@pytest.fixture
def early(monkeypatch):
    """The batches of which something was sent early."""
    seen, method = [], Batch.send_early

    def spy(self, room):
        method(self, room)
        if self.early and self not in seen:
            seen.append(self)

    monkeypatch.setattr(Batch, "send_early", spy)
    return seen


@pytest.mark.parametrize("planner", PLANNERS, ids=str)
def test_the_same_bits_and_nothing_lost(planner, small, early):
    got, found = outcome(planner, eager(Here(), 2))
    assert got == outcome(planner)[0] and found.lost_queries == 0
    assert len(early) > 1


class Waits(Here):
    """A task's answer comes when three tasks have been sent after it: a worker is idle where nothing is left to send."""

    def __init__(self):
        super().__init__()
        self.held, self.idle = [], 0

    def submit(self, function, *arguments):
        self.held.append((Future(), super().submit(function, *arguments)))
        ours = self.held[-1][0]
        while len(self.held) > 3:
            self.release()
        return ours

    def release(self):
        ours, theirs = self.held.pop(0)
        ours.set_result(theirs.result())


def test_workers_are_not_idle_at_the_end_of_an_ask(monkeypatch):
    executor, wait = Waits(), Batch._wait

    def waits(self):
        if self.landed.empty():  # nobody has anything to do but what is held back
            executor.idle += 1
            executor.release()
        wait(self)

    monkeypatch.setattr(Batch, "_wait", waits)
    got, found = outcome(CoreMirror(), eager(executor, 2))
    assert got == outcome(CoreMirror())[0] and found.lost_queries == 0
    tasks = len(executor.log)
    with_early, executor.idle = executor.idle, 0
    monkeypatch.setattr(CoreMirror, "following", lambda self, state, ask: None)
    assert outcome(CoreMirror(), eager(executor, 2))[0] == got
    assert with_early < executor.idle, f"of {tasks} tasks"


@pytest.mark.parametrize("planner", PLANNERS, ids=str)
def test_what_is_said_to_follow_is_what_follows(planner, small):
    """Whatever the answers are: they are those of five seeds."""
    told = 0
    for seed in range(5):
        run = Run.of(walk(), planner, budget=50 * M, seed=seed)
        said = None
        while run.left:
            state, here = run.loop.state, run.planner
            ask = here.ask(state, planner_stream(1))
            if said is not None:
                assert ask.sweep == said.sweep and np.array_equal(ask.core_index, said.core_index)
                told += 1
            said = here.following(state, ask)
            run.advance(run.simulator.queries + 1)
        assert said is None or said.size > run.budget - run.simulator.queries
    assert told > 0


def test_a_planner_that_is_wrong_about_what_follows_pays_for_it_and_gets_the_same_bits(monkeypatch):
    def two_sweeps(self, state, ask):
        return ask._replace(sweep=ask.sweep + 1, core_index=np.tile(ask.core_index, 2))

    monkeypatch.setattr(CoreMirror, "following", two_sweeps)
    got, found = outcome(CoreMirror(), eager(Here(), 2))
    assert got == outcome(CoreMirror())[0] and found.lost_queries > 0


def test_a_block_that_goes_on_in_the_next_ask_is_not_sent_early(early):
    """Where a block holds several sweeps, where its stream stands depends on answers that are still to come."""
    got, found = outcome(CoreMirror(), eager(Here(), 2), block=3 * M)
    assert got == outcome(CoreMirror(), block=3 * M)[0] and found.lost_queries == 0
    assert 0 < len(early) < 20, "only the first sweep of a block"


def test_what_was_sent_early_and_is_never_asked_is_counted_and_is_in_the_log(tmp_path):
    for log in (None, tmp_path / "q.log"):
        _, found = outcome(CoreMirror(), eager(Here(), 2), seconds=1e-9, log=log)
        assert found.queries == M
        assert (found.lost_queries > 0) == (log is None)
    assert read_log(log).queries > M
    again, found = outcome(CoreMirror(), log=log)
    assert again == outcome(CoreMirror())[0] and found.logged_queries > M


@pytest.mark.parametrize("breaks", [{4}, {5, 6}, set(range(2, 90, 5))])
def test_workers_that_die_with_what_was_sent_early(breaks, small):
    from helpers.executors import breaking

    got, found = outcome(CoreMirror(), breaking(breaks))
    assert got == outcome(CoreMirror())[0] and found.lost_queries > 0
