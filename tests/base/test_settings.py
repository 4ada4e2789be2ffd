"""Settings in every disguise become plain Python in one place; what is refused is quoted in a message for people."""

from __future__ import annotations

import dataclasses
import json
import pickle
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import coreplan
from coreplan import problem as problem_part
from coreplan.base import InputError, as_count, as_name, as_number, as_path, as_python, printable, shown
from coreplan.planners import PLANNERS, Planner
from coreplan.planners.testing import bounded_corridor
from helpers.rivers import own

ONE = {  # the number 1 in many disguises
    "int64": np.int64(1), "uint8": np.uint8(1), "0-d": np.array(1), "float": 1.0, "float16": np.float16(1),
    "longdouble": np.longdouble(1), "Fraction": Fraction(1), "Decimal": Decimal(1),
}  # fmt: skip


@pytest.mark.parametrize("one", ONE.values(), ids=ONE)
def test_one_number_in_every_disguise(one):
    count, number = as_count("f", n=one), as_number("f", x=one)
    assert (count, type(count), number, type(number)) == (1, int, 1.0, float)
    assert type(as_python(one)) in (int, float)


@pytest.mark.parametrize(
    "value",
    [True, np.bool_(True), "1", 1.5, np.nan, [1], np.array([1]), None, 1j, 2**63, 10**5000],
    ids=shown,
)
def test_what_is_no_count(value):
    with pytest.raises(InputError, match=r"`f\(n=...\)` must be a whole number") as caught:
        as_count("f", n=value)
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize(
    "name",
    [123, None, b"b", "x" * 256, "a\0b", "a\nb", "\ud800", "\x1b[31m", "\u202egnp", np.array(["a"])],
    ids=shown,
)
def test_what_is_no_name(name):
    with pytest.raises(InputError, match="in one line") as caught:
        as_name("Problem", name=name)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("path", ["", "a\0b", b"bytes", 3, ["a"]])
def test_what_is_no_path(path):
    with pytest.raises(coreplan.CoreplanError, match=r"must be a path|NUL in its name"):
        as_path("plan", out=path)


NUMPY = {
    "plug-in": {"samples": np.int64(12), "ridge": np.float32(0.5), "output": np.array(2.0), "epsilon": np.float32(0.25)},
    "grow": {"rounds": np.uint8(3), "horizon": np.float32(1.5), "ridge": np.array(0.25)},
    "refine": {"samples": np.int64(2), "hold": np.uint8(2), "rounds": np.array(3), "share": np.float32(0.5)},
    "search": {"horizon": np.float32(1.5), "rollouts": np.uint8(2), "width": np.array(0.5)},
    "core-mirror": {"beta": np.float32(0.5), "step": np.array(1)},
    "optimistic": {"steps": np.array(3), "beta": np.float32(2), "restart": np.float16(0.5), "n_initial": np.int8(4)},
    "sampled-lp": {"samples": np.int64(3), "n_initial": np.uint16(9)},
    "primal-dual": {
        "K": np.int32(4), "eta": np.float32(0.5), "beta": np.array(0.25), "alpha": np.float64(1), "D": np.int64(2)
    },
    "lspi": {"ridge": np.array(0.25)},
    "politex": {"phases": np.int8(9), "rate": np.float32(2), "random": np.array(0.5), "ridge": np.float16(0.5)},
    "alp": {"samples": np.int64(3), "n_initial": np.uint16(9)},
    "rlp": {"constraints": np.int64(30), "samples": np.array(3)},
    "lralp": {"samples": np.int64(3), "n_initial": np.uint16(9), "groups": np.uint8(5)},
    "core-stomp": {"rate": np.float32(0.5), "n_initial": np.uint8(9)},
    "confident-lspi": {"iterations": np.int8(2), "rollouts": np.array(3), "length": np.float16(2), "ridge": np.float32(0.5)},
    "tabular-smd": {"estimator": "cheng", "batch": np.int64(3), "rate": np.float32(2)},
    "constrained-smd": {"samples": np.int64(3), "steps": np.array(1000), "n_initial": np.uint8(9)},
    "fitted-q": {"ridge": np.float32(0.5), "iterations": np.uint8(20)},
    "ppq": {"version": np.str_("plain"), "rounds": np.int8(5), "phases": np.array(2), "confidence": np.float32(0.5)},
    "saddle": {"steps": np.int16(300), "accuracy": np.float32(0.5), "radius": np.array(3.0)},
    "bilinear": {"batch": np.uint8(9), "rate": np.float32(0.5), "radius": np.array(3.0)},
    "q-reps": {"phases": np.int8(9), "eta": np.float32(2), "alpha": np.array(0.5), "random": np.float16(0.5)},
    "design-lspi": {"phases": np.int8(2), "length": np.array(7)},
    "vwls-mdvi": {"alpha": np.float32(0.5), "rounds": np.int16(4)},
    "q-learning": {"speed": np.float16(0.5)},
}  # fmt: skip


@pytest.mark.parametrize("name", PLANNERS)
def test_a_run_with_numpy_settings_is_that_with_plain_ones_and_resumes(name, tmp_path):
    """Was a TypeError: np.int64 is no JSON, and a resume compares settings."""
    given = NUMPY[name]
    assert set(given) == set(PLANNERS[name].options()) - {"output", "noise", "allocation"} | set(given)
    plain = PLANNERS[name](**{key: np.asarray(value).item() for key, value in given.items()})
    planner = PLANNERS[name](**given)
    assert {type(value) for value in vars(planner).values()} <= {int, float, str, type(None)}
    assert json.dumps(planner.settings()) == json.dumps(plain.settings())
    settings = {
        "budget": np.float64(3000),
        "seed": np.uint64(2**63 + 1),
        "block": np.int64(64),
        "reality": np.float32(0.25),
    }
    problem = bounded_corridor() if PLANNERS[name].needs_box else own()
    if PLANNERS[name].core_of == "all":
        problem = coreplan.make("river-swim")
    once = coreplan.plan(problem, planner=planner, **settings, out=tmp_path, checkpoint_seconds=np.float64(9))
    same = coreplan.plan(problem, planner=plain, budget=3000, seed=2**63 + 1, block=64, reality=0.25)
    again = coreplan.plan(problem, planner=planner, resume=np.bool_(True), **settings, out=tmp_path)
    assert once.policy.theta.tobytes() == same.policy.theta.tobytes() == again.policy.theta.tobytes()
    assert once.queries == same.queries == again.queries


def test_judges_take_numpy_numbers():
    problem = own()
    policy = coreplan.plan(problem, budget=2000, reality=0).policy
    plain = coreplan.evaluate(problem, policy, rollouts=50, exact=False, confidence=0.75, seed=3)
    assert plain == coreplan.evaluate(
        problem, policy, rollouts=np.int64(50), exact=False, confidence=np.float32(0.75), seed=np.array(3)
    )
    a = coreplan.certify(
        problem, None, policy, queries=np.float64(3000), confidence=np.array(0.75), seed=np.int8(1)
    )
    assert json.dumps(a.as_dict()) == json.dumps(
        coreplan.certify(problem, None, policy, queries=3000, confidence=0.75, seed=1).as_dict()
    )
    assert coreplan.check(problem, queries=np.int64(500)) == coreplan.check(problem, queries=500)
    both = (
        coreplan.compare_policies(problem, 0, np.int64(1), queries=q, exact=False)
        for q in (np.uint16(900), 900)
    )
    assert next(both) == next(both)


def test_a_problem_takes_numpy_numbers():
    problem = dataclasses.replace(
        own(), discount=np.float32(0.5), reward_range=np.array([-1, 2]), horizon=np.int64(3)
    )
    assert problem.horizon == 3 and type(problem.horizon) is int
    assert json.dumps([problem.discount, *problem.reward_range])


def test_planners_of_your_own_get_plain_numbers():
    @dataclass(frozen=True, kw_only=True)
    class Mine(Planner):
        rate: float = 1.0

    assert type(Mine(rate=np.float32(0.5)).rate) is float


# Messages.


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no")


UNPRINTABLE = Unprintable()


def test_values_are_quoted_shortly():
    assert shown(np.arange(3.0)) == "[0.0, 1.0, 2.0]"
    assert shown(np.float64(0.5)) == "0.5"
    assert shown(np.zeros(10_000)) == "[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ...] (10,000 numbers of shape (10000,))"
    assert shown(UNPRINTABLE) == f"<Unprintable instance at {id(UNPRINTABLE):#x}>"
    for value in (
        10**5000,
        "x" * 10**6,
        list(range(10**6)),
        {"a": UNPRINTABLE},
        [[[[[[1]]]]]] * 99,
        b"\x1b" * 999,
    ):
        assert len(shown(value)) <= 160 and shown(value).isprintable()


def test_what_a_terminal_would_obey_is_written_out():
    assert printable("a\x1b[31mb\r\x07\u202ec\ud800\n") == "a\\x1b[31mb\\r\\x07\\u202ec\\ud800\n"
    assert printable(printable("\x1b")) == "\\x1b"
    assert printable("γ ≤ 1, naïve 漢字 🎉") == "γ ≤ 1, naïve 漢字 🎉"


@pytest.mark.parametrize(
    "kind", [InputError, coreplan.FileError, coreplan.SimulatorError, coreplan.CoverageWarning]
)
def test_no_message_is_longer_than_a_thousand_characters(kind):
    error = kind("The state \x1b[2J is " + "1.0, " * 5000 + "and so do this.")
    assert len(str(error)) <= 1000 and "\x1b" not in str(error)
    assert str(error).startswith("The state") and str(error).endswith("and so do this.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # so they come back from worker processes


def test_a_state_of_ten_thousand_numbers_is_shortened():
    def step(rng, states, actions):
        return np.full(len(states), 9.0), states

    model = coreplan.FunctionModel(1, lambda rng, n: np.zeros((n, 10_000)), step)
    features = coreplan.FunctionFeatures(lambda states: np.ones((len(states), 1, 1)), 1, 1, 1.0)
    pairs = (np.zeros((1, 10_000)), np.zeros(1, dtype=int))
    problem = coreplan.Problem(model, features, 0.9, core_pairs=pairs)
    with pytest.raises(
        coreplan.SimulatorError, match=r"10,000 numbers.*outside the declared range"
    ) as caught:
        coreplan.plan(problem, budget=100)
    assert len(str(caught.value)) < 600


# What hostile calls had found, one by one; `tests/attack` makes thousands of others.


class Rude:
    def __array__(self, *arguments, **more):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "call",
    [
        lambda: problem_part.rectilinear(np.array(np.nan), 2),
        lambda: problem_part.rectilinear([[0.0, 1.0]] * 10**6, 2),
        lambda: problem_part.polynomial([0.0] * 10, [1.0] * 10, 10**12, 2),
        lambda: problem_part.tile_coding([0.0], [1.0], [2**61], 2**61, 2),
        lambda: problem_part.interpolation([0.0], [1.0], [10**12], 2),
        lambda: problem_part.interpolation([-1e308], [1e308], [3], 2),
        lambda: problem_part.from_matrices(Rude(), [0.0], 0.9),
        lambda: dataclasses.replace(own(), core_pairs=[1, 2]),
        lambda: dataclasses.replace(own(), reward_range=(-1e308, 1e308)),
        lambda: dataclasses.replace(own(), reward_range=(1.0, 1.0 + 1e-15)),
        lambda: dataclasses.replace(own(), discount=10**400),
        lambda: dataclasses.replace(own(), name=123),
        lambda: coreplan.plan(own(), budget=10**400),
        lambda: coreplan.plan(own(), budget=100, seed=np.array([1, 2])),
        lambda: coreplan.plan(own(), budget=100, out="x" * 300),
        lambda: coreplan.plan(own(), budget=100, epsilon=np.array([0.1])),
        lambda: coreplan.certify(own(), None, coreplan.SoftmaxPolicy.uniform(own().features), [[1], [2, 3]]),
        lambda: coreplan.make("x" * 10**6),
    ],
)
def test_silly_arguments_are_refused(call):
    with pytest.raises(coreplan.CoreplanError) as caught:
        call()
    assert len(str(caught.value)) <= 1000 and str(caught.value).isprintable()
