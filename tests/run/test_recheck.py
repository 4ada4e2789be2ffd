"""A resume sees whether simulator and features are still those of the start, by a handful of queries of its own."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import coreplan
from coreplan import CoreMirror, FunctionFeatures, Grow, PlugIn, PrimalDual, Problem, SampledLP
from coreplan.base import files
from coreplan.planners import make_planner
from coreplan.problem import CompiledModel, NoiseModel, ScalarModel
from helpers.runs import RATES, plan, same

RIVER = coreplan.make("river-swim")
EYE = np.eye(12).reshape(6, 2, 12)
PLANNERS = {
    "plug-in": PlugIn(samples=20),
    "sampled-lp": SampledLP(n_initial=20),
    "grow": Grow(rounds=4),
    "primal-dual": PrimalDual(**RATES),
    "core-mirror": CoreMirror(),
    "optimistic": make_planner("optimistic", {}),
}


def river(
    kind="batch", change=lambda rewards, after: (rewards, after), calls=None, features=lambda x: EYE[x]
):
    """river-swim in several forms, whose answers are changed."""

    def step(rng, states, actions):
        if calls is not None:
            calls.append(len(actions))
        return change(*RIVER.model.step(rng, states, actions))

    def one(rng, state, action):
        rewards, after = step(rng, np.array([state]), np.array([action]))
        return rewards[0], after[0]

    def by_noise(states, actions, noise):
        return change(*RIVER.model.step_with(states, actions, noise))

    initial = RIVER.model.initial
    models = {
        "batch": lambda: coreplan.FunctionModel(2, initial, step),
        "scalar": lambda: ScalarModel(2, lambda rng: int(initial(rng, 1)[0]), one),
        "noise": lambda: NoiseModel(2, initial, by_noise, RIVER.model.noise_dimension),
    }
    phi = FunctionFeatures(features, 2, 12, 1.0, name="one-hot")
    return Problem(models[kind](), phi, 0.95, core_pairs=RIVER.core_pairs)


def better(rewards, after):
    return np.minimum(rewards + 0.01, 1.0), after


def elsewhere(rewards, after):
    return rewards, np.maximum(after - 1, 0)


def stopped(problem, planner, folder, budget=240):
    return plan(problem, planner=planner, budget=budget, seed=3, out=folder)


def resumed(problem, planner, folder, budget=960):
    return plan(problem, planner=planner, budget=budget, seed=3, out=folder, resume=True)


@pytest.mark.parametrize("kind", ["batch", "scalar"])
@pytest.mark.parametrize("name", sorted(set(PLANNERS) - {"plug-in"}))
def test_a_simulator_that_changed_is_refused(name, kind, tmp_path):
    planner = PLANNERS[name]
    stopped(river(kind), planner, tmp_path)
    before = (tmp_path / "checkpoint.npz").read_bytes()
    for change in (better, elsewhere):
        with pytest.raises(coreplan.FileError, match="The simulator is not the one") as caught:
            resumed(river(kind, change), planner, tmp_path)
        said = str(caught.value)
        assert (
            "for state" in said and "and action" in said and said.count("next state") == 2 and len(said) < 600
        )
    assert (tmp_path / "checkpoint.npz").read_bytes() == before
    again = resumed(river(kind), planner, tmp_path)
    assert 0 < again.rechecked_queries <= 8
    assert json.loads((tmp_path / "run.json").read_text())["rechecked_queries"] == again.rechecked_queries
    assert "compared the simulator" in str(again)
    assert coreplan.load_run(tmp_path, river(kind)).rechecked_queries == again.rechecked_queries


@pytest.mark.parametrize("kind", ["batch", "scalar", "noise"])
def test_with_plug_in(kind, tmp_path):
    """Its run must be stopped before its samples are complete, since it asks for no more than it was told to."""
    calls = []

    def fails(rewards, after):
        calls.append(len(rewards))
        if sum(calls) > 120:
            raise RuntimeError("stop")
        return rewards, after

    with pytest.raises(coreplan.SimulatorError):
        plan(river(kind, fails), planner=PlugIn(samples=20), budget=960, seed=3, out=tmp_path, block=16)
    arguments = {"planner": PlugIn(samples=20), "budget": 960, "seed": 3, "out": tmp_path, "block": 16}
    with pytest.raises(coreplan.FileError, match="The simulator is not the one"):
        plan(river(kind, elsewhere), **arguments, resume=True)
    again = plan(river(kind), **arguments, resume=True)
    same(again, plan(river(kind), planner=PlugIn(samples=20), budget=960, seed=3, block=16))
    assert 0 < again.rechecked_queries <= 12


def test_features_that_changed_are_refused(tmp_path):
    stopped(river(), CoreMirror(), tmp_path)
    with pytest.raises(coreplan.FileError, match=r"The features are not those.*state \d and action \d"):
        resumed(river(features=lambda x: EYE[(x + 1) % 6]), CoreMirror(), tmp_path)
    resumed(river(features=lambda x: EYE[x]), CoreMirror(), tmp_path)


def test_the_compiled_loop_remembers_the_same(tmp_path):
    """The compiled run is refused with a changed kernel; the bits of one that goes on are those of an undisturbed run."""
    rates, whole = PrimalDual(**RATES), plan(RIVER, planner=PrimalDual(**RATES), budget=960, seed=3)
    plan(RIVER, planner=rates, budget=400, seed=3, out=tmp_path / "a")
    model = RIVER.model
    changed = (*model.data[:-1], np.maximum(model.data[-1] - 1, 0))  # where the steps lead
    other = CompiledModel(
        2, model.initial_kernel, model.step_kernel, changed, model.state_shape, model.state_dtype
    )
    fields = {"core_pairs": RIVER.core_pairs, "name": "river-swim"}
    with pytest.raises(coreplan.FileError, match="The simulator is not the one"):
        resumed(Problem(other, RIVER.features, RIVER.discount, **fields), rates, tmp_path / "a")
    again = resumed(RIVER, rates, tmp_path / "a")
    assert again.policy.theta.tobytes() == whole.policy.theta.tobytes() and again.rechecked_queries == 8
    arrays = {}
    for name, problem in (
        ("a", RIVER),
        ("b", Problem(river().model, RIVER.features, RIVER.discount, **fields)),
    ):
        if name == "b":
            plan(problem, planner=rates, budget=400, seed=3, out=tmp_path / name)
        arrays[name] = files.read_npz(tmp_path / name / "checkpoint.npz", "coreplan checkpoint", 2)[0]
    for name in ("states", "actions", "rewards", "next_states", "scores"):
        np.testing.assert_array_equal(arrays["a"][f"first.{name}"], arrays["b"][f"first.{name}"])


def test_a_batch_that_draws_all_of_one_kind_first(tmp_path):
    """Eight pairs alone would draw other numbers than in their batch of twelve: then the whole call is repeated."""

    def step(rng, states, actions):
        first, second = rng.random(len(states)), rng.random(len(states))
        return 0.5 * first, np.where(second < 0.5, states, (states + actions) % 6)

    def problem(step):
        model = coreplan.FunctionModel(2, RIVER.model.initial, step)
        return Problem(model, river().features, 0.95, core_pairs=RIVER.core_pairs)

    stopped(problem(step), CoreMirror(), tmp_path)
    with pytest.raises(coreplan.FileError, match="The simulator is not the one"):
        resumed(problem(lambda *batch: elsewhere(*step(*batch))), CoreMirror(), tmp_path)
    assert resumed(problem(step), CoreMirror(), tmp_path).rechecked_queries == 8 + 12


def test_a_simulator_with_noise_of_its_own_is_warned_about(tmp_path):
    """It cannot be told from a changed one by one answer, but it gives two answers in one session."""
    own = np.random.default_rng(7)

    def step(rng, states, actions):
        return own.random(len(states)), states

    model = coreplan.FunctionModel(2, RIVER.model.initial, step)
    problem = Problem(model, river().features, 0.95, core_pairs=RIVER.core_pairs)
    stopped(problem, CoreMirror(), tmp_path)
    with pytest.warns(coreplan.ReproducibilityWarning, match="two answers to the same question"):
        assert resumed(problem, CoreMirror(), tmp_path).rechecked_queries == 8 + 12 + 12


def test_rounding_of_another_machine_is_no_change(tmp_path):
    stopped(river(), CoreMirror(), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", coreplan.ReproducibilityWarning)
        resumed(river(change=lambda rewards, after: (rewards * (1 - 1e-12), after)), CoreMirror(), tmp_path)


def test_nothing_is_asked_where_nothing_is_added(tmp_path):
    """A run that is complete is not compared, nor is one without a folder."""
    stopped(river(), CoreMirror(), tmp_path)
    calls = []
    again = resumed(river(calls=calls), CoreMirror(), tmp_path, budget=240)
    assert not calls and again.rechecked_queries == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, meta: arrays.pop("first.rewards"),
        lambda arrays, meta: meta.pop("first"),
        lambda arrays, meta: meta["first"].update(stream=None),
        lambda arrays, meta: meta["first"].update(stream={"bit_generator": "Philox"}),
        lambda arrays, meta: arrays.update({"first.actions": arrays["first.actions"] * 0.5}),
        lambda arrays, meta: arrays.update({"first.states": arrays["first.states"][:3]}),
        lambda arrays, meta: arrays.update({"first.scores": np.zeros(3)}),
    ],
)
def test_damaged_first_answers_are_refused(change, tmp_path):
    stopped(river(), CoreMirror(), tmp_path)
    path = tmp_path / "checkpoint.npz"
    arrays, meta = files.read_npz(path, "coreplan checkpoint", 2)
    change(arrays, meta)
    files.write_npz(path, arrays, meta)
    with pytest.raises(coreplan.FileError, match="damaged"):
        resumed(river(), CoreMirror(), tmp_path)
