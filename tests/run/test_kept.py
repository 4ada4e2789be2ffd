"""What was answered before a fault inside an ask is kept, pair by pair or call by call, and never asked again."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import signal

import numpy as np
import pytest

import coreplan
from coreplan import CoreMirror, FunctionFeatures, Grow, PlugIn, PrimalDual, Problem, SampledLP
from coreplan.base import files
from coreplan.planners import make_planner
from coreplan.problem import NoiseModel, ScalarModel
from coreplan.simulate import Ask, Simulator
from helpers.own_planners import Bandit
from helpers.runs import RATES, plan, same

RIVER = coreplan.make("river-swim")
EYE = np.eye(12).reshape(6, 2, 12)
PLANNERS = {
    "plug-in": PlugIn(),
    "sampled-lp": SampledLP(n_initial=20),
    "grow": Grow(rounds=4),
    "primal-dual": PrimalDual(**RATES | {"K": 20}),
    "core-mirror": CoreMirror(),
    "optimistic": make_planner("optimistic", {}),
    "bandit": Bandit(batch=12),
}
BUDGET = 480


class Counted:
    """river-swim in NumPy, state by state, or as a function of its noise: counts pairs, and fails at one of them, once."""

    def __init__(self, kind="batch", fail_at=-1, fault="raise", **changes):
        self.kind, self.fail_at, self.fault, self.answered, self.changes = kind, fail_at, fault, 0, changes

    @property
    def problem(self):
        if self.kind == "scalar":
            model = ScalarModel(2, lambda rng: int(RIVER.model.initial(rng, 1)[0]), self.one)
        elif self.kind == "noise":
            model = NoiseModel(2, RIVER.model.initial, self.by_noise, RIVER.model.noise_dimension)
        else:
            model = coreplan.FunctionModel(2, RIVER.model.initial, self.step)
        features = FunctionFeatures(self.features, 2, 12, 1.0, name="one-hot")
        return Problem(model, features, 0.95, core_pairs=RIVER.core_pairs, **self.changes)

    def step(self, rng, states, actions):
        return self._counted(RIVER.model.step(rng, states, actions), len(actions))

    def by_noise(self, states, actions, noise):
        return self._counted(RIVER.model.step_with(states, actions, noise), len(actions))

    def one(self, rng, state, action):
        rewards, after = self._counted(RIVER.model.step(rng, np.array([state]), np.array([action])), 1)
        return rewards[0], after[0]

    def _counted(self, answer, n):
        if 0 <= self.fail_at < self.answered + n:
            self.fail_at = -1
            if self.fault == "reward":
                self.answered += n
                return answer[0] + 3.0, answer[1]
            if self.fault == "Ctrl-C":
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
            if self.fault == "features":
                self.answered += n
                return answer[0], np.full_like(answer[1], 6)
            raise RuntimeError("the licence server is down")
        self.answered += n
        return answer

    def features(self, states):
        return EYE[states]


@functools.cache
def whole(name, kind, block):
    river = Counted(kind)
    result = plan(river.problem, planner=PLANNERS[name], budget=BUDGET, seed=3, block=block)
    assert river.answered == result.queries
    return result


def record(folder):
    return json.loads((folder / "run.json").read_text())


def interrupted(name, kind, block, fail_at, folder, fault="raise"):
    """A run that fails, and its record; then the resumed run, which must agree with one that never failed."""
    river = Counted(kind, fail_at, fault)
    arguments = {"planner": PLANNERS[name], "budget": BUDGET, "seed": 3, "block": block, "out": folder}
    if fault == "Ctrl-C":
        plan(river.problem, **arguments)
    else:
        with pytest.raises(coreplan.CoreplanError):
            plan(river.problem, **arguments)
    found = record(folder)
    again = plan(river.problem, **arguments, resume=True)
    same(again, whole(name, kind, block))
    return river, found, again


@pytest.mark.parametrize("fail_at", [40, 217])
@pytest.mark.parametrize("block", [5, 16])
@pytest.mark.parametrize("name", sorted(PLANNERS))
def test_calls_before_a_fault_are_never_made_again(name, block, fail_at, tmp_path):
    """Blocks of 5 cut sweeps over the 12 core pairs into pieces; those of 16 hold one sweep, and half an ask."""
    river, found, again = interrupted(name, "batch", block, fail_at, tmp_path)
    assert found["queries"] > 0
    assert river.answered == again.queries + again.rechecked_queries
    assert found["lost_queries"] == again.lost_queries == 0


@pytest.mark.parametrize("fault", ["raise", "reward", "Ctrl-C"])
@pytest.mark.parametrize("block", [5, 64])
@pytest.mark.parametrize("name", sorted(PLANNERS))
def test_pair_by_pair_every_answer_before_the_faulty_one_is_kept(name, block, fault, tmp_path):
    river, found, again = interrupted(name, "scalar", block, 217, tmp_path, fault)
    assert found["queries"] == 217
    assert river.answered == again.queries + again.lost_queries + again.rechecked_queries
    assert again.lost_queries == (1 if fault == "reward" else 0), "the refused one"


@pytest.mark.parametrize("block", [5, 16])
def test_answers_to_noise_of_the_planners_own(block, tmp_path):
    river, found, again = interrupted("plug-in", "noise", block, 217, tmp_path)
    assert found["queries"] > 217 - block - 1
    assert river.answered == again.queries + again.rechecked_queries


def test_asks_that_are_no_sweeps(tmp_path, monkeypatch):
    """With more core pairs than an ask may have, PlugIn asks for parts of a sweep."""
    for module in ("plug_in.planner", "sampled_lp"):
        monkeypatch.setattr(f"coreplan.planners.{module}.BATCH", 10)
    whole.cache_clear()
    for name in ("plug-in", "sampled-lp"):
        for block in (4, 64):
            river, _, again = interrupted(name, "scalar", block, 217, tmp_path / f"{name}{block}")
            assert river.answered == again.queries + again.rechecked_queries
    whole.cache_clear()


def test_a_call_whose_answers_are_refused_is_counted_as_lost(tmp_path):
    river, found, again = interrupted("plug-in", "batch", 16, 100, tmp_path, "reward")
    assert found["lost_queries"] == 12, "one call: a sweep over the core pairs"
    assert river.answered == again.queries + again.lost_queries + again.rechecked_queries


def test_where_features_fail_the_calls_before_are_kept(tmp_path):
    """The call whose state has no features is not: the simulator may be at fault, and would be mended in vain."""
    river, found, again = interrupted("plug-in", "batch", 5, 100, tmp_path, "features")
    assert 90 < found["queries"] <= 100 and found["lost_queries"] >= 1
    assert river.answered == again.queries + again.lost_queries + again.rechecked_queries


def test_a_run_that_fails_again_and_again(tmp_path):
    """Every session but the last answers thirty pairs of its own, after eight by which it compares the simulator."""
    river = Counted("scalar")
    arguments = {"planner": PLANNERS["core-mirror"], "budget": BUDGET, "seed": 3, "out": tmp_path}
    for session in range(BUDGET // 30 - 1):
        river.fail_at = river.answered + 30 + (8 if session else 0)
        with pytest.raises(coreplan.SimulatorError):
            plan(river.problem, **arguments, resume=session > 0)
        assert record(tmp_path)["queries"] == 30 * (session + 1)
    again = plan(river.problem, **arguments, resume=True)
    same(again, whole("core-mirror", "scalar", None))
    assert (
        again.rechecked_queries == 8 * (BUDGET // 30 - 1)
        and river.answered == BUDGET + again.rechecked_queries
    )


def test_kept_rewards_are_mapped_to_a_wider_range(tmp_path):
    """A reward outside its range is met; with a wider one the run goes on, and nothing is asked again."""
    arguments = {"planner": PlugIn(), "budget": BUDGET, "seed": 3, "out": tmp_path}
    river = Counted("scalar", 100, "reward")
    with pytest.raises(coreplan.SimulatorError, match="outside the declared range"):
        plan(river.problem, **arguments)
    river.changes = {"reward_range": (0.0, 4.0)}
    again = plan(river.problem, **arguments, resume=True)
    assert river.answered == again.queries + again.rechecked_queries + 1
    fresh = plan(Counted("scalar", **river.changes).problem, planner=PlugIn(), budget=BUDGET, seed=3)
    np.testing.assert_allclose(again.policy.theta, fresh.policy.theta, rtol=1e-12)


def failed(folder):
    with pytest.raises(coreplan.SimulatorError):
        plan(Counted("scalar", 217).problem, planner=PlugIn(), budget=BUDGET, seed=3, out=folder)


def changed(folder, change):
    """Write the checkpoint again, with its arrays and its meta data changed."""
    path = folder / "checkpoint.npz"
    arrays, meta = files.read_npz(path, "coreplan checkpoint", 2)
    change(arrays, meta)
    files.write_npz(path, arrays, meta)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, meta: arrays.pop("kept.rewards"),
        lambda arrays, meta: meta.pop("kept"),
        lambda arrays, meta: arrays.update({"kept.rewards": arrays["kept.rewards"] + 2.0}),
        lambda arrays, meta: arrays.update({"kept.rewards": arrays["kept.rewards"][1:]}),
        lambda arrays, meta: arrays.update({"kept.next_states": arrays["kept.next_states"] * np.nan}),
        lambda arrays, meta: meta["kept"].update(stream={"bit_generator": "MT19937"}),
        lambda arrays, meta: meta["kept"].update(stream=3),
        lambda arrays, meta: meta["kept"].update(repeated=-1),
    ],
)
def test_damaged_kept_answers_are_refused(change, tmp_path):
    failed(tmp_path)
    changed(tmp_path, change)
    with pytest.raises(coreplan.FileError, match="damaged"):
        plan(Counted("scalar").problem, planner=PlugIn(), budget=BUDGET, seed=3, out=tmp_path, resume=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, meta: meta["kept"].update(asked="0" * 16),
        lambda arrays, meta: arrays.update(
            {"kept.next_states": np.zeros((len(arrays["kept.rewards"]), 2), int)}
        ),
    ],
)
def test_answers_to_another_ask_are_counted_as_lost(change, tmp_path):
    failed(tmp_path)
    changed(tmp_path, change)
    held = record(tmp_path)["queries"]
    again = plan(
        Counted("scalar").problem, planner=PlugIn(), budget=BUDGET, seed=3, out=tmp_path, resume=True
    )
    same(again, whole("plug-in", "scalar", None))
    assert 0 < again.lost_queries <= held and f"{again.lost_queries} more were paid and lost" in str(again)


def test_an_ask_may_be_tried_again_at_once():
    """The door keeps answers without a folder too."""
    river = Counted("scalar", 7)
    core = coreplan.CoreSet.of(river.problem)
    ask = Ask(core_index=np.arange(12), n_initial=3)
    simulator, undisturbed = Simulator(river.problem, core), Simulator(Counted("scalar").problem, core)
    mark = simulator.mark()
    with pytest.raises(coreplan.SimulatorError):
        simulator.answer(ask)
    simulator.return_to(mark)
    assert (simulator.queries, simulator.held, simulator.lost) == (0, 7, 0)
    for _ in range(2):
        one, two = simulator.answer(ask), undisturbed.answer(ask)
        for name in ("rewards", "next_states", "initial_states", "next_features"):
            assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
    assert simulator.held == 0 and simulator.mark() == undisturbed.mark()


def test_states_that_no_file_can_hold_are_not_kept():
    def step(rng, states, actions):
        return np.zeros(len(states)), states

    base = Counted().problem
    letters = np.array(list("abcdefghijkl"))
    features = FunctionFeatures(
        lambda x: np.eye(12)[:, None].repeat(2, 1)[np.searchsorted(letters, x)], 2, 12, 1.0
    )
    calls = []

    def second(rng, states, actions):
        calls.append(len(states))
        if len(calls) == 2:
            raise RuntimeError("no")
        return step(rng, states, actions)

    problem = dataclasses.replace(
        base, model=coreplan.FunctionModel(2, lambda rng, n: letters[:n], second), features=features,
        core_pairs=(letters, np.zeros(12, dtype=int)),
    )  # fmt: skip
    simulator = Simulator(problem, coreplan.CoreSet.of(problem), block=6)
    mark = simulator.mark()
    with pytest.raises(coreplan.SimulatorError):
        simulator.answer(Ask(core_index=np.arange(12)))
    simulator.return_to(mark)
    assert simulator.held == 0 and simulator.lost == 6
