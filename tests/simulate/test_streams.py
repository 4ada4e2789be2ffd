"""The simulator's stream: blocks of noise, marks to return to, rewards as they were sampled."""

from __future__ import annotations

import json

import numpy as np
import pytest

import coreplan
from coreplan.simulate import Ask, Simulator
from helpers.runs import numpy_problem, plan, planner, same


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
    ask = Ask(core_index=np.arange(8), n_initial=5)
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


def test_asks_and_sweeps_keep_their_noise_apart():
    """A planner may mix them: no stream is used twice, and sweep t is the same as if nothing else had been asked."""
    problem = coreplan.make("random-linear")
    core = coreplan.CoreSet.of(problem)
    m = len(core)

    def rewards_and_states(asks, block=None):
        simulator = Simulator(problem, core, 7, block)
        return [simulator.answer(ask).next_states for ask in asks]

    sweeps = [Ask(core_index=np.arange(m), sweep=t) for t in range(3)]
    others = [Ask(core_index=np.arange(n)) for n in (3, m, 5)]
    for block in (None, m, 3):
        alone, plain = rewards_and_states(sweeps, block), rewards_and_states(others, block)
        mixed = rewards_and_states([x for pair in zip(sweeps, others, strict=True) for x in pair], block)
        for t in range(3):
            np.testing.assert_array_equal(mixed[2 * t], alone[t])
            np.testing.assert_array_equal(mixed[2 * t + 1], plain[t])
    with pytest.raises(coreplan.InputError, match="sweep 2 where 1 comes next"):
        rewards_and_states([sweeps[0], sweeps[2]])


@pytest.mark.parametrize("block", [None, 1, 5, 8, 9, 50])
def test_a_sweep_has_the_same_noise_for_every_planner(block):
    """The next states of the first five sweeps, as the simulator gave them: four planners, one noise."""
    seen = {}
    base = coreplan.make("random-linear:compiled=false")
    planners = (
        coreplan.PlugIn(noise="independent"), coreplan.SampledLP(samples=5), coreplan.CoreMirror(),
        coreplan.OptimisticPrimalDual(steps=5),
    )  # fmt: skip
    for each in planners:
        calls = seen.setdefault(each.name, [])

        def step(rng, x, a, calls=calls):
            answer = base.model.step(rng, x, a)
            calls.append(answer[1])
            return answer

        model = coreplan.FunctionModel(4, base.model.initial, step)
        problem = coreplan.Problem(model, base.features, 0.9, core_pairs=base.core_pairs)
        plan(problem, planner=each, budget=40, seed=3, block=block)
    first = [np.concatenate(calls)[:40] for calls in seen.values()]
    for other in first[1:]:
        np.testing.assert_array_equal(other, first[0])
