"""Whether features lie inside the core's hull does not depend on the units of any column, nor on those of the states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coreplan
from coreplan import CoreSet, FunctionFeatures, FunctionModel, Problem
from coreplan.core import Frame, HullWatch, hull_errors, is_inside
from coreplan.features import as_sparse

AXES = {"simplex": [1, 1, 1], "axes": [2, 0.3, 7], "signed axes": [2, -4, 1]}
KINDS = (*AXES, "independent", "dependent", "polynomials")


def core_and_rows(kind, rng):
    """A core `[m, 5]`, and rows of which some lie in its hull, some outside, and some on columns that the core lacks."""
    if kind in AXES:
        core = np.diag([*AXES[kind], 0, 0])[:3]
    elif kind == "polynomials":
        core = rng.uniform(-1, 1, 9)[:, None] ** np.arange(5)
    else:
        core = rng.normal(size=(3 if kind == "independent" else 9, 5))
    core = np.asarray(core, dtype=float)
    inside = rng.dirichlet(np.ones(len(core)), 4) @ core
    outside = 1.2 * inside - 0.2 * inside.mean(axis=0)
    return core, {
        "inside": inside,
        "outside": outside,
        "short": 0.7 * inside,
        "off": inside + 0.1 * np.eye(5)[4],
    }


def far(core, rows, sparse=False):
    wrap = as_sparse if sparse else (lambda x: x)
    watch = HullWatch(Frame(wrap(core), 5), 0.5)
    watch.look(wrap(rows[:, None]))
    return watch


@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from(KINDS), sparse=st.booleans(), seed=st.integers(0, 10**6), powers=st.lists(
    st.floats(-9, 9), min_size=5, max_size=5))  # fmt: skip
def test_columns_may_be_multiplied(kind, sparse, seed, powers):
    """All that is measured stays what it was, and every feature that is inside stays inside."""
    core, rows = core_and_rows(kind, np.random.default_rng(seed))
    units = 10.0 ** np.array(powers)
    wrap = as_sparse if sparse else (lambda x: x)
    for name, phi in rows.items():
        before, after = Frame(wrap(core), 5), Frame(wrap(core * units), 5)
        here, there = hull_errors(before, wrap(phi)), hull_errors(after, wrap(phi * units))
        np.testing.assert_allclose(here, there, atol=3e-6)
        assert [is_inside(e) for e in here] == [is_inside(e) for e in there]
        if name == "inside":
            assert is_inside(here.max())
        one, other = far(core, phi, sparse), far(core * units, phi * units, sparse)
        assert one.far == pytest.approx(other.far, abs=2e-6, rel=1e-5)
        assert bool(one.finding) == bool(other.finding) and (name != "inside" or not one.finding)
        np.testing.assert_allclose(
            before.outside_span(wrap(phi)), after.outside_span(wrap(phi * units)), atol=1e-6
        )


def test_a_gap_is_not_rounding_in_any_unit():
    """Position in metres and speed in light years per second: the core has no pair that moves."""
    core, row = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]), np.array([[1.0, 0.5, 1e-16]])
    assert hull_errors(Frame(core, 3), row)[0] == pytest.approx(1.0)
    watch = HullWatch(Frame(core, 3), 0.9)
    watch.look(row[:, None])
    assert watch.far == 1.0


def test_rounding_among_weights_is_no_gap():
    """An interpolated feature may give a node beside the state a weight of one rounding error; that is no gap."""
    core, row = np.eye(4)[:2], np.array([[0.3, 0.7, 4e-16, 0.0]])
    assert is_inside(hull_errors(Frame(core, 4), row)[0])
    for wrap in (as_sparse, np.asarray):
        watch = HullWatch(Frame(wrap(core), 4), 0.9)
        watch.look(wrap(row[:, None]))
        assert watch.far < 1e-12


def walk(phi, x, missing):
    """Four positions of which the last is not in the core if it is `missing`; phi `[n, d]` of states that are x `[4]`."""

    def step(rng, s, a):
        here = np.searchsorted(x, s)
        there = np.clip(here + np.where(rng.random(len(s)) < 0.5, 1, -1) * (1 + a), 0, 3)
        return np.where(here == 3, 1.0, 0.0), x[there]

    d = phi(x[:1]).shape[-1]
    features = FunctionFeatures(lambda s: np.repeat(phi(np.asarray(s))[:, None], 2, axis=1), 2, d, 1e30)
    kept = np.repeat(x[: 4 - missing], 2)
    core = CoreSet(kept, np.tile([0, 1], 4 - missing))
    model = FunctionModel(2, lambda rng, n: np.full(n, x[0]), step)
    return Problem(model, features, 0.5, core_pairs=(core.states, core.actions))


def lights(problem):
    report = coreplan.check(problem, queries=2000, seed=1)
    return {name: report[name].light for name in ("rank", "condition", "hull error", "next states", "reach")}


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("shift", [0.0, 50.0])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
def test_check_says_the_same_when_states_are_shifted_or_scaled(missing, shift, scale):
    """Polynomials of the state itself, 1, x and x^2: another unit mixes and stretches the columns."""
    x = np.array([0.0, 1.0, 2.0, 3.0])
    plain = lights(walk(lambda s: s[:, None] ** np.arange(3), x, missing))
    moved = lights(walk(lambda s: s[:, None] ** np.arange(3), scale * (x + shift), missing))
    plain.pop("condition"), moved.pop("condition")  # far from the origin, 1, x and x^2 are nearly dependent
    assert plain == moved
    assert plain["next states"] == ("red" if missing else "green")


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("units", [[1e-9, 1.0, 1e6, 1.0], [1.0, 1.0, 1.0, 1e-9]])
def test_check_says_the_same_when_columns_are_multiplied(missing, units):
    def plain(s):
        return np.eye(4)[np.asarray(s).astype(int)]

    x = np.arange(4.0)
    assert lights(walk(plain, x, missing)) == lights(walk(lambda s: plain(s) * units, x, missing))
