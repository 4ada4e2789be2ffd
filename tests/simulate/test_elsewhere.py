"""Workers: the same bits whoever simulates, whatever happens to a worker on the way; and every loss counted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import coreplan
from coreplan import ExecutorError, InputError, SimulatorError
from coreplan.executors import built, given, processes
from coreplan.planners import PLANNERS
from coreplan.simulate import using
from coreplan.simulate.elsewhere import task
from helpers.executors import Here, breaking, eager, walk

BUDGET = 600
# The others are covered by `check_planner`, on problems that have what they need.
FROM_SAMPLES = [
    n for n, p in PLANNERS.items() if not p.needs_box and not p.needs_table and p.core_of != "all"
]


def outcome(executor=None, planner="plug-in", problem=None, **more):
    result = coreplan.plan(
        problem or walk(), planner=planner, budget=BUDGET, executor=executor, **{"reality": 0, **more}
    )
    return result.policy.theta.tobytes(), result.queries, result.initial_draws, result


def bits(*arguments, **more):
    return outcome(*arguments, **more)[:3]


@pytest.fixture(autouse=True)
def no_models_left():
    task._held.clear()


@pytest.mark.parametrize("name", FROM_SAMPLES)
def test_every_planner_gets_the_same_bits_from_threads(name):
    with ThreadPoolExecutor(3) as threads:
        assert bits(eager(threads, 3), name) == bits(None, name)


@pytest.mark.parametrize("block", [1, 3, 64])
def test_the_bits_do_not_depend_on_blocks_being_shared_out(block):
    problem = walk(block)
    assert bits(eager(Here(), 2), problem=problem) == bits(problem=problem)


def test_judges_get_the_same_answers():
    problem = walk()
    policy = coreplan.plan(problem, budget=BUDGET).policy

    def judged(executor):
        return (
            coreplan.evaluate(problem, policy, rollouts=20, executor=executor),
            coreplan.certify(problem, None, policy, queries=3000, executor=executor),
            str(coreplan.check(problem, queries=1000, executor=executor)),
            coreplan.compare_policies(problem, policy, 0, queries=2000, executor=executor),
        )

    assert judged(eager(Here(), 2)) == judged(None)


@pytest.mark.parametrize("breaks", [{0}, {1}, {5}, {2, 3}, set(range(3, 60, 7))])
def test_a_worker_that_dies_changes_nothing_but_what_was_lost(breaks):
    engine = breaking(breaks)
    got = outcome(engine)
    assert got[:3] == bits()
    assert got[3].lost_queries > 0 and len(engine.log) > max(breaks)


class Deadly(Here):
    """Dies of every task with the core pair of this number."""

    pair = 7

    def submit(self, function, *arguments):
        if any(self.pair in call.pairs for chain in arguments[2] for call in chain.calls):
            self.breaks.add(len(self.log))
        return super().submit(function, *arguments)


def test_a_pair_that_ends_every_worker_is_named_and_the_answers_before_are_kept(tmp_path):
    problem, engine = walk(block=1), breaking(())
    core = coreplan.CoreSet.of(problem)
    engine._open = lambda: Deadly((), engine.log)
    pair = f"state {core.states[Deadly.pair]} and action {core.actions[Deadly.pair]}"
    with pytest.raises(ExecutorError, match=f"ended its worker 4 times on {pair}"):
        outcome(engine, problem=problem, out=tmp_path / "run")
    again = outcome(problem=problem, out=tmp_path / "run", resume=True)
    assert again[:3] == bits(problem=problem)


def flaky(times, error=OSError):
    """The walk, whose simulator raises at its first steps from place 3."""
    problem = walk()
    step, left = problem.model._step, {"calls": times}

    def sometimes(rng, x, a):
        if left["calls"] and x == 3:
            left["calls"] -= 1
            raise error("the licence server did not answer")
        return step(rng, x, a)

    problem.model._step = sometimes
    return problem


def test_a_transient_exception_is_simulated_again_with_the_same_noise():
    with ThreadPoolExecutor(1) as thread:  # which has one copy of the simulator
        got = outcome(eager(thread), problem=flaky(3))
    assert got[:3] == bits() and got[3].lost_queries == 0, "what came before the exception is kept"


def test_an_exception_that_stays_is_that_of_the_simulator():
    with (
        ThreadPoolExecutor(1) as thread,
        pytest.raises(SimulatorError, match=r"OSError: the licence server") as found,
    ):
        outcome(eager(thread, retries=1), problem=flaky(1000))
    with pytest.raises(SimulatorError) as here:
        outcome(problem=flaky(1000))
    assert str(found.value) == str(here.value)


class Unsendable(Exception):
    """Can be pickled, and not unpickled."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def test_an_exception_that_cannot_be_sent_keeps_its_name_and_text():
    def fails(text):
        raise Unsendable(text, "it did not")

    with (
        ThreadPoolExecutor(1) as thread,
        pytest.raises(SimulatorError, match="Unsendable: the licence server"),
    ):
        outcome(eager(thread, retries=0), problem=flaky(5, error=fails))


def test_a_wrong_answer_is_reported_and_not_tried_again():
    problem = walk()
    step, calls = problem.model._step, []

    def wrong(rng, x, a):
        reward, y = step(rng, x, a)
        return (7.0 if x == 3 else reward), y

    problem.model._step = wrong
    executor = Here(log=calls)
    with pytest.raises(SimulatorError, match=r"the reward 7 for state 3 and action") as found:
        outcome(eager(executor, 1), problem=problem)
    with pytest.raises(SimulatorError) as here:
        outcome(problem=problem)
    assert str(found.value) == str(here.value)


def test_a_worker_that_has_forgotten_the_model_is_sent_it_again():
    class Forgetful(Here):
        def submit(self, function, *arguments):
            task._held.clear()
            return super().submit(function, *arguments)

    executor = Forgetful()
    assert bits(eager(executor, 1)) == bits()
    parcels = [arguments[1] is not None for arguments in executor.log]
    assert parcels[:3] == [True, False, True]


def test_an_executor_that_was_shut_down_leaves_a_checkpoint(tmp_path):
    class Closing(Here):
        def submit(self, function, *arguments):
            self.closed = len(self.log) >= 6
            return super().submit(function, *arguments)

    with pytest.raises(ExecutorError, match="takes no more work"):
        outcome(eager(Closing(), 2), out=tmp_path / "run")
    assert outcome(out=tmp_path / "run", resume=True)[:3] == bits()


def test_a_foreign_executor_that_breaks_is_not_ours_to_mend(tmp_path):
    with pytest.raises(ExecutorError, match="make a new executor and resume"):
        outcome(eager(Here({4}), 2), out=tmp_path / "run")
    assert outcome(out=tmp_path / "run", resume=True)[:3] == bits()


def test_a_simulator_that_cannot_be_sent_is_refused_by_the_name_of_its_attribute():
    problem = walk()
    problem.model.licence = (n for n in range(3))
    with pytest.raises(InputError, match=r"its attribute 'licence'.*cannot be pickled.*executors\.built"):
        outcome(eager(Here(), 2), problem=problem)


def test_a_simulator_that_is_built_by_each_worker():
    def make():
        model = walk().model
        model.licence = (n for n in range(3))
        return model

    problem = coreplan.Problem(built(make), coreplan.features.one_hot(6, 2), 0.9, name="walk")
    assert bits(eager(Here(), 2), problem=problem) == bits()


def test_a_simulator_that_keeps_its_states_is_refused():
    problem = coreplan.from_gymnasium(
        "CartPole-v1",
        coreplan.features.polynomial([-1] * 4, [1] * 4, 1, 2),
        copy=True,
        reward_range=(0, 1),
    )
    with pytest.raises(InputError, match=r"keeps its states in this process.*get_state"):
        coreplan.plan(problem, planner="grow", budget=400, executor=eager(Here(), 2))


def test_quick_simulators_are_not_sent():
    engine = given(Here(), 2)
    assert engine.pays(5000, 8)  # nothing is known yet
    engine.measured(queries=100, seconds=1e-5, elapsed=5e-3, alone=True)
    with pytest.warns(coreplan.CoreplanWarning, match="Workers do not pay here: a query takes 1e-07 s"):
        assert not engine.pays(5000, 8)
    assert not engine.pays(5000, 8)  # said once
    engine.measured(queries=100, seconds=1.0, elapsed=1.1, alone=True)
    assert engine.pays(50, 8)
    assert given(Here(), 2, timeout=9.0).pays(1, 1)


def test_one_block_for_many_workers_is_said():
    engine = given(Here(), 2)
    engine.measured(queries=10, seconds=1.0, elapsed=1.1, alone=True)
    with pytest.warns(coreplan.CoreplanWarning, match="one block of noise"):
        assert engine.pays(500, 1)


@pytest.mark.filterwarnings("error")
def test_a_slow_first_call_does_not_make_a_simulator_slow():
    engine = given(Here(), 2)
    engine.measured(
        queries=200, seconds=0.02, elapsed=0.03, alone=True
    )  # a new worker, which compiles or imports
    assert engine.pays(25_600, 1)  # no word about its one block: too little is known
    engine.measured(queries=25_600, seconds=0.07, elapsed=0.08, alone=True)
    assert engine.cost < 5e-6


def test_what_was_said_of_one_thing_does_not_silence_the_other():
    engine = given(Here(), 2)
    engine.measured(queries=10, seconds=1.0, elapsed=1.1, alone=True)
    with pytest.warns(coreplan.CoreplanWarning, match="one block of noise"):
        engine.pays(500, 1)
    for _ in range(2):
        engine.measured(queries=10**9, seconds=1.0, elapsed=1.1, alone=True)
    with pytest.warns(coreplan.CoreplanWarning, match="Workers do not pay here"):
        assert not engine.pays(5000, 1)


def test_global_randomness_is_noticed_in_workers_too():
    problem = walk()
    step = problem.model._step

    def careless(rng, x, a):
        np.random.random()  # noqa: NPY002
        return step(rng, x, a)

    problem.model._step = careless
    with pytest.warns(coreplan.ReproducibilityWarning, match=r"step draws from np\.random"):
        outcome(eager(Here(), 2), problem=problem)


@pytest.mark.parametrize("wrong", ["clouds", 3, object()])
def test_what_is_no_executor_is_refused(wrong):
    with pytest.raises(InputError, match="executor"):
        outcome(wrong)


def test_settings_of_engines():
    for wrong in ({"workers": 0}, {"timeout": 0}, {"retries": -1}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            processes(**wrong)


def test_outside_of_using_this_process_simulates():
    from coreplan.simulate import engine_of

    with using(eager(Here(), 1)) as engine:
        assert engine_of() is engine
    assert engine_of() is None
