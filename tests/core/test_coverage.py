"""The watch over the core's hull: features outside it are measured, and make every planner's result doubtful."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import CoreSet, FunctionFeatures, FunctionModel, Problem, Status
from coreplan.core import Frame, HullWatch, convex_coefficients, coverage, hull_distances
from coreplan.core.coverage import COST
from coreplan.features import UNAVAILABLE
from coreplan.planners import DOUBTS, PLANNERS, Verdict, with_watch
from coreplan.problem import Sparse
from coreplan.run import PythonLoop, stepping
from helpers.cores import without
from helpers.runs import plan

RATES = {"primal-dual": {"K": 9, "eta": 0.01, "beta": 0.01, "alpha": 0.01}}
# Others complete the core set by pairs of their own, or need a table.
WITH_CORE = sorted(
    n for n, p in PLANNERS.items() if p.needs_core and p.core_of == "core" and not p.needs_table
)


def planner(name):
    return PLANNERS[name](**RATES.get(name, {}))


def verdict(watch):
    return with_watch(None, watch)


def seen(core, rows, discount=0.9):
    """What a watch makes of rows `[n, d]`, all of one action."""
    watch = HullWatch(Frame(core, core.shape[1]), discount)
    watch.look(rows[:, None])
    return watch


# Distances.


@pytest.mark.parametrize(
    ("row", "mass"),
    [
        ([0.2, 0.8, 0], 0.0),
        ([0, 0, 0], 1.0),
        ([0.5, 0.4, 0.1], 0.1),
        ([1.5, -0.5, 0], 0.5),
        ([0.3, 0.3, 0], 0.4),
        ([2, 0, 0], 1),
    ],
)
def test_unit_vectors_in_closed_form(row, mass):
    """The mass of coefficients that is off the core, negative, or missing to 1; dense, sparse and with scaled axes."""
    core, row = np.eye(3)[:2], np.array(row, dtype=float)
    assert seen(core, row[None]).far == pytest.approx(mass, abs=1e-15)
    assert seen(core * [2, -4, 1], row[None] * [2, -4, 1]).far == pytest.approx(mass, abs=1e-15)
    sparse = HullWatch(Frame(Sparse(np.array([[0], [1]]), np.ones((2, 1))), 3), 0.9)
    sparse.look(Sparse(np.array([[[0, 1, 2]]]), row[None, None]))
    assert sparse.far == pytest.approx(mass, abs=1e-15)
    twice = HullWatch(Frame(core, 3), 0.9)  # entries of one coordinate add up
    twice.look(
        Sparse(np.array([[[0, 1, 2, 0, 1]]]), np.append(row, [0.0, 0.0])[None, None] + [0, 3.0, 0, 0, -3.0])
    )
    assert twice.far == pytest.approx(mass, abs=1e-14)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_do_not_matter(scale):
    """Neither of all features, nor of one column, nor a change of coordinates: dense cores, on axes and not."""
    rng = np.random.default_rng(0)
    core = np.vstack([np.eye(3)[:2], [[0.5, 0.5, 0]]])
    good, bad = np.array([[0.2, 0.8, 0]]), np.array([[0.2, 0.7, 0.1]])
    column = np.diag([1.0, 1.0, 1.0, 1e5]) @ np.vstack(
        [np.eye(3), np.ones((1, 3))]
    )  # a large constant beside
    for kept in ([0, 1], [0, 1, 2]):
        for T in (np.eye(3) * scale, scale * rng.normal(size=(3, 3)), column.T):
            assert verdict(seen(core[kept] @ T, good @ T)) is None
            assert seen(core[kept] @ T, bad @ T).far > 0.01


def test_forbidden_actions_are_not_looked_at():
    phi = np.array([[[1.0, 0.0], [UNAVAILABLE, 0.0]]])
    for core in (np.eye(2), np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])):
        watch = HullWatch(Frame(core, 2), 0.9)
        watch.look(phi)
        assert watch.far == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("m", [3, 4, 9, 40])
@pytest.mark.parametrize("seed", range(5))
def test_general_cores_against_exact_distances(m, seed):
    """Up to 16 features are all measured. Dependent core features: the largest distance from the hull, found in another
    way in other white coordinates; independent ones: their coefficients tell. Features that round to single precision
    are inside."""
    rng = np.random.default_rng([m, seed])
    core = rng.normal(size=(m, 4))
    mixed = rng.dirichlet(np.full(m, 0.3), 8) @ core
    rows = mixed + 0.003 * rng.normal(size=(8, m)) @ core  # in the span, up to a percent outside
    far = seen(core, rows, 0.0).far  # a tolerance of 1%, below which all is measured
    if m > 4:
        white = np.linalg.inv(np.linalg.cholesky(core.T @ core))  # [4, 4]; sizes of columns drop out
        want = hull_distances(Frame(core @ white.T, 4), rows @ white.T).max()
        want /= np.linalg.norm(core @ white.T, axis=1).max()
    else:
        b = np.linalg.lstsq(core.T, rows.T, rcond=None)[0]  # [m, 8]
        want = max(np.maximum(-b, 0).sum(axis=0).max(), np.abs(b.sum(axis=0) - 1).max())
    assert far == pytest.approx(want, abs=2e-7)
    assert seen(core, mixed).far < 1e-7 and verdict(seen(core, mixed)) is None
    single = np.concatenate([core, mixed]).astype(np.float32).astype(float)
    assert verdict(seen(single[:m], single[m:], 0.9999)) is None
    assert seen(core[:3], rng.normal(size=(1, 4))).far > 0.01  # off the span


def test_the_quick_lower_bound_never_exceeds_the_distance_and_is_nearly_it_in_the_plane():
    """128 directions in two dimensions: the support function of one of them tells the distance to a per cent."""
    rng = np.random.default_rng(2)
    hull = coverage._Hull(Frame(rng.normal(size=(7, 2)), 2))
    inside = rng.dirichlet(np.ones(7), 5) @ hull.white
    z = 3 * rng.normal(size=(40, 2))
    exact = convex_coefficients(hull.white, z)[1]
    found, outside = hull._at_least(z), exact > 0.1
    assert outside.sum() > 30 and hull._at_least(inside).max() <= 1e-12
    assert (found <= exact + 1e-9).all() and (found >= 0.99 * exact)[outside].all()


def test_the_quick_lower_bound_is_the_distance_from_the_plane_of_the_core():
    """The corners of a square in the plane x3 = 1, and points above a place beside its centre."""
    square = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    hull = coverage._Hull(Frame(square, 3))
    normal = np.linalg.lstsq(hull.white, np.ones(4), rcond=None)[0]  # the plane is normal . z = 1
    foot = hull.white.T @ [0.1, 0.2, 0.3, 0.4]
    heights = np.array([0.01, 0.5, 4.0])
    z = foot + heights[:, None] * normal / np.linalg.norm(normal)
    np.testing.assert_allclose(hull._at_least(z), heights, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_redundant_cores_do_not_hide_a_gap(seed):
    """60 core features crowd on a part of a segment, where no size of coefficients tells inside from outside; among 4,000
    features that are inside, three that are not stick out in some direction."""
    rng = np.random.default_rng(seed)
    x = np.append(np.linspace(0.4, 0.6, 60), 1.0)
    core = np.stack([1 - x, x], axis=1)
    y = rng.uniform(0.4, 1.0, 4000)
    rows = np.stack([1 - y, y], axis=1)
    assert verdict(seen(core, rows)) is None
    rows[rng.choice(4000, 3)] = [0.75, 0.25]
    doubt = verdict(seen(core, rows))
    assert doubt is not None and doubt.status is Status.DOUBTFUL


@pytest.mark.parametrize("d", [10, 160])
@pytest.mark.parametrize("mass", [0.0, 0.5, 0.9, 1.1])
def test_a_redundant_core_pair_does_not_hide_a_gap(d, mass):
    """Unit vectors and one of them again: m > d, in any dimension."""
    core = np.vstack([np.eye(d), np.eye(d)[:1]])
    assert verdict(seen(core, mass * np.eye(d)[5:6])).status is Status.DOUBTFUL
    assert verdict(seen(core, np.full((1, d), 1 / d))) is None


@pytest.mark.parametrize("size", [1.0, 5e5, 1e7, 1.1e-7])
def test_a_large_column_does_not_blur_a_small_one(size):
    """Features 1 and x, x up to `size`: numbers of single precision, which may be off by rounding, column by column."""
    core = np.array([[1.0, 0.0], [1.0, size]])
    assert seen(core, np.array([[1.0, 1.05 * size]])).far == pytest.approx(0.05, rel=1e-3)
    middle = np.array([[1.0, np.float32(0.3 * size)]])
    assert verdict(seen(np.vstack([core, core.mean(axis=0)]), middle, 0.999)) is None
    assert verdict(seen(core, middle, 0.999)) is None


def test_the_tolerance_follows_the_horizon():
    core = np.array([[1.0, 0.0], [0.0, 1.0]])
    row = np.array([[1.005, -0.005]])
    assert verdict(seen(core, row, 0.4)) is None and verdict(seen(core, row, 0.6)) is not None
    assert HullWatch(Frame(core, 2), 0.99).tolerance == pytest.approx(COST * 0.01)
    assert "cost up to 0.01 of" in verdict(seen(core, row, 0.5001)).reason


def test_verdicts_join():
    core = np.eye(2)
    good, bad = seen(core, core), seen(core, 2 * core)
    diverged, missed = Verdict(Status.DIVERGED, "D."), Verdict(Status.NOT_REACHED, "N.")
    assert with_watch(None, good) is None and with_watch(missed, good) is missed
    for status in (Status.FINISHED, Status.REACHED):
        estimate = Verdict(status, "E.")
        assert with_watch(estimate, good) is estimate
        assert with_watch(None, bad) == with_watch(estimate, bad) == verdict(bad)
    assert with_watch(missed, bad).status is Status.DOUBTFUL and with_watch(missed, bad).reason.endswith("N.")
    assert with_watch(diverged, bad).status is Status.DIVERGED and with_watch(diverged, bad).reason.endswith(
        "D."
    )


def test_nearest_points_have_a_budget(monkeypatch):
    """An exact core of 60 dependent features in 20 dimensions, and a run of many asks: most of its features need a nearest
    point to be told inside. The budget ends, and a feature that sticks out is noticed after it, too."""
    rng = np.random.default_rng(0)
    core = rng.normal(size=(60, 20))
    watch = HullWatch(Frame(core, 20), 0.9)
    monkeypatch.setattr(coverage, "_NEAREST", 1e8)
    for _ in range(400):
        watch.look((rng.dirichlet(np.full(60, 0.2), 64) @ core)[:, None])
    assert verdict(watch) is None
    assert 0.9 * coverage._NEAREST < watch.work < 1.1 * coverage._NEAREST
    watch.look(1.2 * core[:5][:, None])
    assert verdict(watch) is not None


def test_a_core_that_is_too_large_is_not_called_covered(monkeypatch):
    monkeypatch.setattr(coverage, "LARGEST", 100)
    problem = coreplan.make("hard-linear")
    result = plan(problem, planner=planner("plug-in"), budget=400)
    assert np.isnan(result.trace["outside"]).all() and "not measured" in result.reason
    assert (
        result.status is Status.FINISHED
        and coreplan.check(problem, queries=400)["next states"].light == "grey"
    )


def test_looks_thin_out():
    """A long run of small asks pays for some 128 looks whenever its queries grow by a factor e."""
    watch, looks = HullWatch(Frame(np.eye(2), 2), 0.9), []
    watch.look = lambda phi: looks.append(1)  # type: ignore[method-assign]
    for t in range(1, 200_001):
        watch.see(t, np.eye(2)[None])
    assert 256 < len(looks) < 128 * (3 + np.log(200_000 / 128))


# Runs.


CASES = [("random-linear", j) for j in (0, 3, 7)] + [("river-linear", j) for j in (0, 9, 19)]
CASES += [("hard-linear", j) for j in range(11)]


def doubts_of(result):
    """Which doubts of the list a reason begins with; these short runs of Algorithm 1 hardly leave the uniform policy."""
    return [d.name for d in DOUBTS if result.reason.startswith(d.says.partition("{")[0]) and d.says[0] != "{"]


@pytest.mark.parametrize("name", WITH_CORE)
@pytest.mark.parametrize("spec", ["random-linear", "river-linear", "hard-linear"])
def test_no_planner_reports_success_without_an_extreme_point(name, spec):
    """One extreme pair of the core is dropped; of `hard-linear` (m = 11, d = 4) some stick out by 0.6% only."""
    problem = coreplan.make(spec)
    m = len(CoreSet.of(problem))
    for j in (j for s, j in CASES if s == spec):
        result = plan(problem, without(problem, j), planner(name), budget=50 * m)
        assert result.status is Status.DOUBTFUL, j
        assert "outside the convex hull" in result.reason and "Add core pairs" in result.reason
        assert result.trace["outside"][-1] > 0.001
    full = plan(problem, planner=planner(name), budget=50 * m)
    assert "hull" not in full.reason and full.trace["outside"][-1] < 1e-9
    assert full.status is Status.FINISHED or "near uniform" in doubts_of(full)


@pytest.mark.parametrize(("spec", "j"), [*CASES, ("inventory", 62), ("queue", 56)])
def test_check_says_so_too(spec, j):
    problem = coreplan.make(spec)
    row = coreplan.check(problem, without(problem, j), queries=4000)["next states"]
    assert row.light == "red" and "Add core pairs" in row.verdict


@pytest.mark.parametrize("name", WITH_CORE)
@pytest.mark.parametrize("kind", ["corners", "inner", "corners and inner"])
def test_cores_that_are_no_basis(name, kind):
    """Core pairs in the middle span the features, and are no core set; beside the corners they do no harm."""
    problem = coreplan.make("random-linear:compiled=false")
    states, actions = problem.core_pairs
    mixed = np.argsort(problem.features(problem.tabular().states).reshape(-1, 8).max(axis=1))[:12]
    inner = problem.tabular().states[mixed // 4], mixed % 4
    core = {
        "corners": CoreSet(states, actions),
        "inner": CoreSet(*inner),
        "corners and inner": CoreSet(np.append(states, inner[0]), np.append(actions, inner[1])),
    }[kind]
    result = plan(problem, core, planner(name), budget=50 * len(core))
    assert ("hull" in result.reason) == (kind == "inner"), result.reason
    assert result.status is (Status.FINISHED if kind != "inner" else Status.DOUBTFUL) or doubts_of(result)


def test_a_declared_radius_does_not_hide_a_gap():
    base = coreplan.make("random-linear:compiled=false")
    problem = dataclasses.replace(base, features=FunctionFeatures(base.features, base.n_actions, 8, 1e6))
    for name in WITH_CORE:
        if name != "primal-dual":  # its ball is made from the radius, and so loose a one makes no step
            assert plan(problem, without(problem, 0), planner(name), budget=400).status is Status.DOUBTFUL


@pytest.mark.parametrize("name", ["core-mirror", "primal-dual"])
def test_both_loops_look_at_the_same_asks(name, monkeypatch):
    """The pair of the last position is dropped, which few asks meet: what is seen of it, and when, is the same."""
    problem = coreplan.make("river-linear")
    runs = [plan(problem, without(problem, 19), planner(name), budget=8000)]
    monkeypatch.setattr(stepping, "make_loop", PythonLoop)
    runs.append(plan(problem, without(problem, 19), planner(name), budget=8000))
    np.testing.assert_array_equal(*(r.trace["outside"] for r in runs))
    assert len(np.unique(runs[0].trace["outside"])) > 2
    np.testing.assert_array_equal(*(r.policy.theta for r in runs))


def started_outside(x0):
    """Two core states that stay where they are; runs start at x0, and state 2 is no mixture of the others."""
    phi = np.eye(3)[:, None, :]
    return Problem(
        FunctionModel(1, lambda rng, n: np.full(n, x0), lambda rng, s, a: (np.full(len(s), 0.5), s)),
        FunctionFeatures(lambda s: phi[np.asarray(s)], 1, 3, 1.0),
        0.5,
        core_pairs=(np.arange(2), np.zeros(2, dtype=np.int64)),
    )


@pytest.mark.parametrize("name", WITH_CORE)
def test_initial_states_are_looked_at_and_remembered_by_a_resume(name, tmp_path):
    """PlugIn draws initial states with its first ask only: after a resume the checkpoint has to remember them."""
    assert plan(started_outside(0), planner=planner(name), budget=400).status is Status.FINISHED
    first = plan(started_outside(2), planner=planner(name), budget=400, out=tmp_path)
    assert first.status is Status.DOUBTFUL
    again = plan(started_outside(2), planner=planner(name), budget=800, out=tmp_path, resume=True)
    # PlugIn notices that this simulator is deterministic, and asks no more.
    assert again.queries > first.queries or name == "plug-in"
    assert again.status is Status.DOUBTFUL
