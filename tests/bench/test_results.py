"""What a table says, from rows written by hand; and its way through a file."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreplan import FileError, InputError, Results
from coreplan.bench import PICTURES, Row
from coreplan.bench.comparing.row import COLUMNS
from coreplan.bench.comparing.statistics import interquartile_mean
from coreplan.bench.comparing.table import read_rows

SUBS = {"a": [0.2, 0.1, 0.3, 0.4], "b": [0.02, 0.01, 0.03, 0.04]}


def rows(planner, subs, problem="p", budget=100, status="finished"):
    return [
        Row(problem, planner, "default", seed, budget, budget, 0.5, 20.0, 0.5, 0.5, 0.5, 0.1, sub, status)
        for seed, sub in enumerate(subs)
    ]


def refused(planner):
    return Row("p", planner, "default", 0, 100).ended("refused", "It needs a core set.")


@pytest.fixture
def table():
    later = [row for name, subs in SUBS.items() for row in rows(name, np.array(subs) / 10, budget=1000)]
    return Results([*rows("a", SUBS["a"]), *rows("b", SUBS["b"]), *later, refused("c")])


def test_cells_are_medians_and_quartiles_over_seeds(table):
    cell = table.cells()[0]
    assert (cell.planner, cell.budget, cell.what, cell.runs, cell.failed) == ("a", 100, "sub", 4, 0)
    assert (cell.median, cell.low, cell.high) == pytest.approx((0.25, 0.175, 0.325))
    assert str(table.cells()[-1]) == "It needs a core set."
    assert "It needs a core set." in str(table)


def test_overall(table):
    found = {one.planner: one for one in table.overall(level=0.03)}
    assert found["a"].tasks == 2 and found["c"].tasks == 0 and found["c"].mean is None
    scores = np.array([SUBS["a"], np.array(SUBS["a"]) / 10]).T
    assert found["a"].mean.value == pytest.approx(interquartile_mean(scores))
    assert found["a"].mean.low <= found["a"].mean.value <= found["a"].mean.high
    assert found["a"].reached == {"p": 1000} and found["b"].reached == {"p": 100} and found["c"].reached == {}


def test_improvement_is_over_common_tasks(table):
    assert table.improvement("b", "a").value == 1.0
    assert table.improvement("a", "a").value == 0.5
    with pytest.raises(InputError, match="no task in common"):
        table.improvement("a", "c")
    with pytest.raises(InputError, match="must be one of a, b, c"):
        table.improvement("a", "d")


def test_a_failure_counts_as_the_uniform_policy_and_a_refusal_as_nothing():
    failed = [dataclasses.replace(row, value=None, sub=None, status="failed") for row in rows("a", [0.0] * 4)]
    table = Results([*failed, *rows("b", [0.5] * 4), refused("c")])
    found = {one.planner: one.mean for one in table.overall()}
    assert found["a"].value == 1.0 and found["b"].value == 0.5 and found["c"] is None
    assert table.improvement("b", "a").value == 1.0


def test_pictures_show_what_is_in_the_table(table):
    figure = table.plot("sub")
    (axes,) = figure.axes
    lines = {line.get_label(): line.get_xydata() for line in axes.get_lines()}
    assert lines.keys() == {"a", "b"}
    assert lines["a"] == pytest.approx(np.array([[100, 0.25], [1000, 0.025]]))
    assert axes.get_xscale() == axes.get_yscale() == "log"
    shares = {line.get_label(): line.get_ydata() for line in table.plot("profile").axes[0].get_lines()}
    assert shares["a"][-1] == 1.0 and (shares["a"] <= shares["b"]).all()
    for what in PICTURES:
        table.plot(what)
    with pytest.raises(InputError, match="no run of this comparison gave a policy"):
        Results([refused("c")]).plot()
    with pytest.raises(InputError, match="nothing to draw"):
        Results([refused("c")]).plot("mean")


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20)
unit, large = st.none() | st.floats(0, 1), st.none() | st.floats(0, 1e9)
whole = st.integers(0, 2**62)
settings = st.dictionaries(
    texts, st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | texts, max_size=3
)


@given(
    st.builds(
        Row, problem=texts, planner=texts, tuning=texts, seed=whole, budget=whole.map(lambda n: n + 1),
        queries=st.none() | whole, seconds=large, memory=large, value=unit, low=unit, high=unit, gap=unit,
        sub=st.none() | st.floats(-1e9, 1e9), status=texts.map(lambda t: t + "x"), reason=texts, settings=settings,
        version=texts,
    )
)  # fmt: skip
def test_rows_come_back_from_a_file_as_they_were(tmp_path_factory, row):
    path = tmp_path_factory.mktemp("table") / "results.csv"
    Results([row, row]).save(path)
    assert read_rows(path) == [row, row]


def test_the_columns_are_a_format():
    """Whoever changes them raises `FORMAT`."""
    assert COLUMNS == (
        "problem", "planner", "tuning", "seed", "budget", "queries", "seconds", "memory", "value", "low", "high", "gap",
        "sub", "status", "reason", "settings", "version", "format",
    )  # fmt: skip


def test_values_that_no_run_can_have_are_refused(tmp_path, table):
    path = tmp_path / "results.csv"
    for spoiled in ({"value": 7.0}, {"sub": math.nan}, {"budget": 0}, {"status": ""}):
        Results([dataclasses.replace(table.rows[0], **spoiled)]).save(path)
        with pytest.raises(FileError, match="is damaged"):
            Results.load(path)
