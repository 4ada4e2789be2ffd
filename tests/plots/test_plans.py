"""Figures of plans and certificates show the run's own numbers, and change nothing besides."""

import dataclasses
import os
import re
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import coreplan
from coreplan import InputError
from coreplan.planners import CoreMirror
from coreplan.run import TRACE_FILE, Trace
from helpers.places import ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    problem = coreplan.make("random-linear")
    coreplan.plan(problem, planner=CoreMirror(), budget=2_000, out=folder, evaluate=True, certify=2_000)
    return folder


@pytest.fixture(scope="module")
def plan(folder):
    return coreplan.load_run(folder)


def lines(figure):
    """The lines of a figure by their label: x and y."""
    return {line.get_label(): line.get_xydata().T for line in figure.axes[0].get_lines()}


def test_the_curve_is_the_trace_in_the_runs_folder(folder, plan):
    trace = Trace.from_csv((folder / TRACE_FILE).read_text())
    x, y = lines(plan.plot())["policy"]
    assert len(x) > 100
    np.testing.assert_array_equal(x, trace["queries"])
    np.testing.assert_array_equal(y, trace["value"])


def test_levels_are_what_the_plan_knows(plan):
    drawn = lines(plan.plot())
    found = {name.partition(" (")[0].rstrip("0123456789. "): y for name, (_, y) in drawn.items()}
    for name, value in {
        "optimum": plan.evaluation.optimum,
        "uniform policy": plan.evaluation.uniform,
        "lower bound": plan.certificate.lower,
        "upper bound": plan.certificate.upper,
    }.items():
        assert set(found[name]) == {value}, name


def test_rollouts_stand_with_their_interval_at_the_last_row(plan):
    (bars,) = plan.plot().axes[0].containers
    ((low, high),) = [segment[:, 1] for segment in bars[2][0].get_segments()]
    earned = plan.earned
    np.testing.assert_allclose([low, high], [earned.low, earned.high])
    np.testing.assert_allclose(bars[0].get_xydata()[0], [plan.trace["queries"][-1], earned.value])


def test_the_gap_is_the_optimum_minus_the_value_on_logarithmic_axes(plan):
    figure = plan.plot("gap")
    x, y = lines(figure)["policy"]
    gap, after = plan.evaluation.optimum - plan.trace["value"], plan.trace["queries"] > 0
    np.testing.assert_array_equal(y, gap[after & (gap > 0)])
    np.testing.assert_array_equal(x, plan.trace["queries"][after & (gap > 0)])
    assert figure.axes[0].get_xscale() == figure.axes[0].get_yscale() == "log"


def test_returns_are_the_values_in_the_users_units(plan):
    costs = dataclasses.replace(plan.evaluation, units=(-50.0, 20.0))
    plan = dataclasses.replace(plan, evaluation=costs, reality=None, certificate=None)
    problem = dataclasses.replace(coreplan.make("random-linear"), reward_name="profit in $")
    assert (
        plan.plot(units="returns", problem=problem).axes[0].get_ylabel()
        == r"expected discounted profit in \$"
    )
    drawn = lines(plan.plot(units="returns"))
    np.testing.assert_allclose(drawn["policy"][1], -50 + 70 * plan.trace["value"])
    np.testing.assert_allclose(drawn["uniform policy"][1], -50 + 70 * costs.uniform)
    gap = lines(plan.plot("gap", units="returns", logarithmic=False))["policy"][1]
    np.testing.assert_allclose(gap, 70 * (costs.optimum - plan.trace["value"]))


def test_any_column_of_the_trace_can_be_drawn(plan):
    figure = plan.plot("theta_norm")
    np.testing.assert_array_equal(lines(figure)["policy"][1], plan.trace["theta_norm"])
    assert figure.axes[0].get_ylabel() == "theta norm"


def test_a_bound_far_above_does_not_flatten_the_curve(plan):
    far = dataclasses.replace(plan.certificate, upper=1.0)
    figure = dataclasses.replace(plan, certificate=far).plot()
    low, high = figure.axes[0].get_ylim()
    known = [*plan.trace["value"], plan.evaluation.optimum, plan.earned.high]
    assert max(known) < high < 1.0 and low < min(known)
    assert "upper bound 1 (above)" in lines(figure)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"what": "values"}, "must be one of value, gap,"),
        ({"units": "euros"}, "must be one of normalised, returns"),
        ({"logarithmic": "yes"}, "must be True or False"),
        ({"ax": 3}, "must be axes of Matplotlib"),
    ],
)
def test_mistakes_are_explained(plan, arguments, said):
    with pytest.raises(InputError, match=said):
        plan.plot(**arguments)


def test_what_is_not_known_cannot_be_drawn(plan):
    unknown = Trace.of(
        ["queries", "seconds", "error", "value"], np.array([[0.0, 0, 1, np.nan], [9, 1, 1, np.nan]])
    )
    bare = dataclasses.replace(plan, trace=unknown, evaluation=None, certificate=None, reality=None)
    with pytest.raises(InputError, match="another column of the trace: error"):
        bare.plot()
    with pytest.raises(InputError, match="need an evaluation"):
        dataclasses.replace(plan, evaluation=None, certificate=None, reality=None).plot(units="returns")
    with pytest.raises(InputError, match="where the optimum is known"):
        dataclasses.replace(plan, evaluation=None, certificate=None).plot("gap")
    with pytest.raises(InputError, match="nothing to draw"):
        dataclasses.replace(plan, trace=Trace()).plot()


def test_a_certificate_shows_both_bounds_and_says_which_is_not_proved(plan):
    found = plan.certificate
    drawn = lines(found.plot())
    assert set(drawn["lower bound"][0]) == {found.lower} and set(drawn["upper bound"][0]) == {found.upper}
    assert drawn["value"][0] == [found.exact.value] and drawn["optimum"][0] == [found.exact.optimum]
    assert "upper bound, not proved" in lines(dataclasses.replace(found, holds=False).plot())
    assert "upper bound" not in lines(dataclasses.replace(found, holds=None, upper=None).plot())


def test_axes_of_the_users_own_are_drawn_on_in_their_style(plan):
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plan.plot(ax=left) is figure and plan.certificate.plot(ax=right) is figure
    assert left.get_ylabel() == "normalised value" and right.get_xlabel() == "normalised value"
    assert left.spines["top"].get_visible()


def test_settings_of_matplotlib_stay_as_they_were(plan, tmp_path):
    before = dict(matplotlib.rcParams)
    plan.plot().savefig(tmp_path / "a.pdf")
    assert dict(matplotlib.rcParams) == before


def test_files_are_vectors_with_fonts_that_journals_take(plan, tmp_path):
    plan.plot().savefig(tmp_path / "a.pdf")
    page = (tmp_path / "a.pdf").read_bytes()
    assert b"/Type3" not in page and re.search(rb"/Subtype ?/(TrueType|CIDFontType2)", page)
    assert b"/Subtype /Image" not in page


def test_a_notebook_is_given_svg_and_the_same_plan_the_same_bytes(plan):
    first, second = plan.plot()._repr_svg_(), plan.plot()._repr_svg_()
    assert first.startswith("<?xml") and "<svg" in first and first == second


def run_python(code, **environment):
    variables = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "MPLBACKEND")}
    variables["PYTHONPATH"] = str(ROOT / "src")
    return subprocess.run(
        [sys.executable, "-c", code], env=variables | environment, capture_output=True, text=True, check=False
    )


def test_no_display_no_pyplot_and_nothing_imported_before_the_first_figure(folder):
    done = run_python(
        "import sys, coreplan\n"
        f"plan = coreplan.load_run({str(folder)!r})\n"
        "assert not any(m.startswith('matplotlib') for m in sys.modules)\n"
        "plan.plot()._repr_svg_(), plan.certificate.plot()\n"
        "assert 'matplotlib.pyplot' not in sys.modules",
        MPLBACKEND="tkagg",
    )
    assert done.returncode == 0, done.stderr


def test_without_matplotlib_the_extra_is_named(plan, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (plan.plot, plan.certificate.plot, plan.policy.plot):
        with pytest.raises(InputError, match=r"pip install 'coreplan\[plot\]'"):
            draw()
