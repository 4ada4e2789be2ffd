"""The page: its order, its numbers, and that nothing a user wrote can become markup or a script."""

import base64
import dataclasses
import json
import re
import shlex
import shutil
from itertools import pairwise

import numpy as np
import pytest

import coreplan
from coreplan import InputError
from coreplan.judge.assumptions import Measurement
from coreplan.report import Facts, facts_of, measure, write_report
from coreplan.report.charts import Level, Line, Span, line_chart, span_picture
from coreplan.report.comparison import differences
from coreplan.report.lights import MEANING, checks
from coreplan.report.markup import json_block, table
from coreplan.report.packing import packed
from coreplan.report.sample import draw_sample
from coreplan.report.sections import broken, spans, trajectories
from coreplan.report.ticks import amount, compact, labels, ticks
from coreplan.report.words import verdict
from helpers.html import Page, safe
from helpers.runs import numpy_problem

ORDER = ["certificate", "convergence", "checks", "policy", "core", "trajectories", "settings"]
COLOURS = ["green", "amber", "grey", "red"] * 3
EVIL = "</script><script>alert(1)</script><!-- <b onclick=x> & ' \" \u2028"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "river"
    problem = coreplan.make("river-linear")
    found = coreplan.plan(
        problem, planner="core-mirror", budget=2_000, out=folder, evaluate=True, certify=20_000
    )
    measure(folder, problem, found.policy, found.core, queries=2_000)
    return folder, found


def page_of(*runs, problem=None):
    file = write_report(list(runs), runs[0] / "page.html", problem)
    text = file.read_text()
    file.unlink()
    return Page(text)


def test_sections_stand_in_the_order_of_a_readers_questions(run):
    page = page_of(run[0])
    assert page.ids("section") == ORDER
    assert page.text.index("The policy is worth") < page.text.index("How good the policy is")
    safe(page)
    levels = [int(tag[1]) for tag, _ in page.elements if tag in ("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1 and all(b <= a + 1 for a, b in pairwise(levels))  # no level is left out


def test_the_verdict_has_value_certificate_queries_and_what_it_assumes(run):
    folder, plan = run
    text, c = page_of(folder).text, plan.certificate
    for said in (f"{plan.evaluation.value:.4f}", f"at least {c.lower:.4f}", f"no policy more than {c.upper:.4f}",
                 f"{plan.queries:,} queries", "assuming that the core set is exact"):  # fmt: skip
        assert said in text, said


def test_the_numbers_in_the_page_are_those_of_the_files(run):
    folder, plan = run
    page = page_of(folder)
    data = page.data("run")
    for name in ("evaluation", "certificate", "check"):
        written = json.loads((folder / f"{name}.json").read_text())
        assert data[name].items() <= written.items(), name
    assert data["record"] == json.loads((folder / "run.json").read_text())
    for column in plan.trace.columns:
        shown = [np.nan if v is None else v for v in data["trace"][column]]
        assert np.array_equal(shown, plan.trace[column], equal_nan=True), column


def test_the_table_under_the_convergence_has_every_row(run):
    folder, plan = run
    page = page_of(folder)
    assert f"The numbers: {len(plan.trace)} rows of trace.csv" in page.text
    for value in plan.trace["value"][[0, -1]]:
        assert f"{value:.6g}" in page.text


def test_the_command_makes_the_same_run(run, tmp_path):
    """Typed as it stands in the page."""
    from typer.testing import CliRunner

    from coreplan.cli import app

    text = page_of(run[0]).text.replace("\\", "")
    command = re.search(r"coreplan plan river-linear [^<]*?NEW_FOLDER", text).group().split()
    done = CliRunner().invoke(app, [*command[1:-1], str(tmp_path / "again"), "--report-queries", "0"])
    assert done.exit_code == 0, done.output
    again = coreplan.load_run(tmp_path / "again")
    assert again.policy.theta.tobytes() == run[1].policy.theta.tobytes() and again.queries == run[1].queries


def test_a_run_of_another_planner_has_its_weights_in_the_page(run):
    core = page_of(run[0]).data("explorer")["core"]
    weights = facts_of(run[0]).weights
    assert sorted(core["weights"]) == pytest.approx(sorted(weights)) and core["total"] == len(weights)
    assert core["weights"] == sorted(core["weights"], reverse=True)


def test_what_users_wrote_stays_text(tmp_path):
    """Names, reasons, settings: wherever a record may hold a text, it holds a script."""
    problem = dataclasses.replace(numpy_problem(), name="<b>mine</b>")
    coreplan.plan(problem, budget=2_000, out=tmp_path, reality=0)
    record = json.loads((tmp_path / "run.json").read_text())
    record |= dict.fromkeys(("reason", "next", "no_verdict", "picked", "baseline", "status", "planner"), EVIL)
    record |= {"settings": {EVIL: EVIL}, "machine": {EVIL: [EVIL]}}
    record["names"] = {"state": [EVIL], "action": [EVIL] * 4, "reward": EVIL}
    (tmp_path / "run.json").write_text(json.dumps(record))
    (tmp_path / "evaluation.json").write_text('{"' + EVIL.replace('"', "'") + '": 1}')
    page = page_of(tmp_path, problem=problem)
    safe(page)
    assert not [
        tag for tag, _ in page.elements if tag == "b" and page.elements.count(("b", {"onclick": "x"}))
    ]
    assert "alert(1)" in page.text and "<b>mine</b>" in page.text
    both = page_of(tmp_path, tmp_path, problem=problem)
    safe(both)
    assert len([1 for a, _ in both.scripts if a.get("type") is None]) == len(
        [1 for a, _ in page.scripts if a.get("type") is None]
    )


def test_no_text_ends_a_block_of_data():
    block = json_block("x", {EVIL: [EVIL, float("nan"), float("inf"), 1.5]})
    inside = block.removesuffix("</script>")
    assert "</" not in inside and "<!--" not in inside and "\u2028" not in inside
    assert Page(block).data("x") == {EVIL: [EVIL, None, None, 1.5]}


def test_numbers_are_packed_and_exact():
    """Unpacked here as `scores.js` does it; browsers compare what pages then compute with the policy."""

    def unpacked(value):
        if isinstance(value, list):
            return [unpacked(part) for part in value]
        if not isinstance(value, dict):
            return value
        if not isinstance(value.get("packed"), str):
            return {name: unpacked(part) for name, part in value.items()}
        rows = np.frombuffer(base64.b64decode(value["packed"]), f"<{value['type']}")
        return (rows.reshape(-1, value["width"]) if value["width"] else rows).tolist()

    rng = np.random.default_rng(0)
    given = {
        "theta": rng.normal(size=700).tolist(), "few": [1, 2], "none": [], "words": ["a"] * 600, "nothing": None,
        "tree": {
            f"{low} to {high}": [[low, high], *rng.integers(low, high, size=(600, 2)).tolist()]
            for low, high in ((0, 255), (0, 256), (0, 2**16), (-1, 3), (0, 2**31 - 1), (0, 2**31), (-(2**40), 0))
        },
        "masks": [[True, False]] * 600, "uneven": [[1], [1, 2]] * 300, "rows": rng.normal(size=(2, 600)).tolist(),
    }  # fmt: skip
    short = packed(given)
    assert json.loads(json.dumps(unpacked(short))) == given
    kinds = {name: part["type"] for name, part in short["tree"].items() if isinstance(part, dict)}
    assert list(kinds.values()) == ["u1", "u2", "i4", "i4", "i4"]


def test_lights_that_may_be_wrong_come_first_and_every_row_has_a_meaning():
    rows = [
        Measurement(name, 1.0, light, "so.")
        for name, light in zip(MEANING, ["green", "amber", "grey", "red"] * 3, strict=True)
    ]
    text = Page(str(checks(Facts("run", check=coreplan.judge.Report(tuple(rows), 10))))).text
    places = [text.rindex(word) for word in ("does not hold", "take care", "not resolved", "holds")]
    assert places == sorted(places)
    assert all(meaning in text and f"{name}: 1" in text for name, meaning in MEANING.items())


def test_the_rows_of_check_have_meanings(run):
    for problem in ("river-linear", "mountain-car:features=none", "queue-network-cut:features=polynomial"):
        assert {
            row.name for row in coreplan.check(coreplan.make(problem), queries=500).rows
        } <= MEANING.keys()


def test_a_bound_that_says_nothing_does_not_stretch_the_picture(run):
    folder, plan = run
    vacuous = dataclasses.replace(plan.certificate, upper=1.0)
    facts = facts_of(folder)
    facts.certificate = vacuous
    assert "which says nothing" in verdict(facts)
    (row,) = [row for row in spans(facts) if row.name == "upper bound"]
    assert row.outside and "says nothing" in row.note


def test_a_run_that_was_killed_shows_its_trace_and_how_it_goes_on(run, tmp_path):
    for name in ("run.json", "checkpoint.npz"):
        shutil.copy(run[0] / name, tmp_path / name)
    record = json.loads((tmp_path / "run.json").read_text()) | {"status": "running", "queries": 0}
    (tmp_path / "run.json").write_text(json.dumps(record))
    page = page_of(tmp_path)
    shown = page.data("run")["trace"]["queries"]
    assert shown == run[1].trace["queries"].tolist() and f"{int(shown[-1]):,} queries" in page.text
    assert "has not come to its end and has no policy yet" in page.text and "not ended" in page.text
    assert page.data("explorer")["core"]["total"] == len(run[1].core)  # whose picture needs no policy
    assert f"coreplan plan river-linear --out {tmp_path} --resume" in " ".join(
        page.text.replace("\\", "").split()
    )
    assert "coreplan certify" not in page.text  # there is no policy to certify


def test_a_certificate_that_cannot_be_read_is_not_said_to_be_missing(run, tmp_path):
    for name in ("run.json", "policy.npz", "evaluation.json"):
        shutil.copy(run[0] / name, tmp_path / name)
    assert "there is no certificate" in page_of(tmp_path).text
    (tmp_path / "certificate.json").write_text("{")
    assert "the certificate cannot be read" in page_of(tmp_path).text


def test_numbers_stand_in_columns_of_numbers_and_what_is_not_known_is_a_dash():
    page = Page(str(table(["run", "value"], [["a", None], ["b", 0.5], ["c", float("nan")]])))
    cells = [attributes.get("class") for tag, attributes in page.elements if tag in ("td", "th")]
    assert cells == [None, "number"] * 4 and page.text.split()[2:] == ["a", "\u2013", "b", "0.5", "c"]


def test_amounts_below_each_other_line_up():
    assert [amount(v) for v in (311.32, 310.0, -99.6, 12_345.0, 2e7, 0.0)] == [
        "311.32", "310.00", "-99.600", "12,345", "2e+07", "0.0000",
    ]  # fmt: skip


def test_two_long_trajectories_are_drawn_rather_than_five_short_ones():
    problem = coreplan.make("river-swim")
    policy = coreplan.SoftmaxPolicy(np.zeros(12), 1.0, problem.features)
    shapes = {
        queries: [len(t.actions) for t in draw_sample(problem, policy, queries=queries).trajectories]
        for queries in (1, 40, 400, 1000)
    }
    assert shapes == {1: [1], 40: [20] * 2, 400: [200] * 2, 1000: [200] * 5}


@pytest.mark.parametrize("status", ["running", "failed", "finished", "no such status", 3, None])
def test_an_unfinished_run_says_what_is_missing(tmp_path, status):
    (tmp_path / "run.json").write_text(
        json.dumps({"status": status, "problem": "river-linear", "settings": 3})
    )
    page = page_of(tmp_path)
    safe(page)
    assert "What is missing" in page.text and "There is no policy.npz" in page.text
    assert [name for name in page.ids("section") if name != "missing"] == ORDER


def test_a_policy_that_cannot_act_here_says_how_it_could(tmp_path):
    coreplan.plan(numpy_problem(), budget=2_000, out=tmp_path, reality=0)
    text = page_of(tmp_path).text
    assert "coreplan report" in text and "--problem FILE.py:NAME" in text


def test_features_of_ones_own_are_shown_on_a_grid(tmp_path):
    """With the scores that the policy itself gives there."""

    def phi(states):
        out = np.zeros((len(states), 2, 4))
        out[:, 0, :2], out[:, 1, 2:] = states, states**2
        return out

    problem = coreplan.Problem(
        coreplan.FunctionModel(2, lambda rng, n: rng.random((n, 2)), lambda rng, x, a: (x[:, 0], x)),
        coreplan.FunctionFeatures(phi, 2, 4, radius=2.0), discount=0.9, name="own",
    )  # fmt: skip
    coreplan.plan(problem, planner="grow", budget=1_000, out=tmp_path, reality=0)
    policy = coreplan.load_policy(tmp_path, problem)
    data = page_of(tmp_path, problem=problem).data("explorer")
    (grid,) = data["grids"]
    assert data["spec"] is None and (grid["x"], grid["y"]) == (0, 1)
    q = np.array(grid["q"]).reshape(len(grid["ys"]), len(grid["xs"]), 2)
    i, j = 3, 7
    expected = phi(np.array([[grid["xs"][j], grid["ys"][i]]]))[0] @ policy.theta
    assert q[i, j] == pytest.approx(expected, rel=1e-4)


def test_several_runs_are_compared(run, tmp_path):
    problem = coreplan.make("river-linear")
    coreplan.plan(problem, budget=4_000, seed=7, out=tmp_path / "other", evaluate=True)
    runs = [facts_of(run[0]), facts_of(tmp_path / "other")]
    found = differences(runs)
    assert (
        found["seed"] == [0, 7] and found["planner"] == ["core-mirror", "plug-in"] and "problem" not in found
    )
    counts = [dataclasses.replace(f, record=f.record | {"logged_queries": n}) for n, f in enumerate(runs)]
    assert "logged_queries" not in differences(counts)  # it was found, and not set
    page = page_of(run[0], tmp_path / "other")
    safe(page)
    assert page.ids("section") == ["rows", "differences", "convergence"]
    assert [r["evaluation"]["value"] for r in page.data("runs")] == [f.evaluation.value for f in runs]
    alike = page_of(tmp_path / "other", shutil.copytree(tmp_path / "other", tmp_path / "copy"))
    assert ", by less than 0.0001, but intervals overlap, or values are the same." in alike.text


def test_charts_place_numbers_where_they_belong():
    """A line from corner to corner, in drawings of 1,000 by 1,000; y grows upwards, with a margin of 5%."""
    chart = line_chart(
        "t", "x", [Line("a", [0.0, 5.0, 10.0], [0.0, float("nan"), 1.0])], [Level("l", 0.5, "optimum")]
    )
    (line, dots) = re.findall(r'<path d="(M[^"]+)" class="(?:line|dots) s0"', chart)
    assert line == "M0.0 954.5M1000.0 45.5" and dots == "M0.0 954.5h0M1000.0 45.5h0"
    assert 'd="M0 500.0H1000"' in chart


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-3, 7), (1e-9, 3e-9), (0, 10**12), (0.61, 0.64), (-5, -4.9)]
)
def test_ticks_are_few_round_and_inside(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 5 and all(low - 1e-9 * abs(low) <= t <= high + 1e-9 * abs(high) for t in found)
    assert len({compact(t) for t in found}) == len(found)


@pytest.mark.parametrize(("low", "high"), [(0.05689, 0.0569), (0, 1), (123_456.7, 123_457.1), (2.0, 2.0)])
def test_labels_of_an_axis_tell_its_ticks_apart(low, high):
    marks = ticks(low, high)
    texts = labels(marks)
    assert len(set(texts)) == len(marks)
    assert [float(t.replace("k", "e3")) for t in texts] == pytest.approx(marks, rel=1e-4)


def test_values_that_look_alike_stay_beside_each_other():
    """A picture of two values that four decimals do not tell apart spans at least .002."""
    rows = [
        Span(name=n, value=v, low=None, high=None, style="policy", cells=(), note="")
        for n, v in zip("ab", (0.05689, 0.0569), strict=True)
    ]
    places = [float(x) for x in re.findall(r'<circle cx="([\d.]+)%"', span_picture(rows, ("", ""), None))]
    assert places[1] - places[0] == pytest.approx(100 * 0.00001 / 0.002, abs=0.01)


def test_a_long_command_is_broken_before_its_options():
    words = [
        "coreplan",
        "plan",
        "my file.py:p",
        *(w for k in range(9) for w in ("--set", f"name{k}=a value")),
    ]
    lines = broken(shlex.join(words)).splitlines()
    assert len(lines) > 2 and all(len(line) <= 80 for line in lines)
    assert all(line.strip().startswith("--set 'name") for line in lines[1:])
    assert shlex.split("".join(line.removesuffix("\\") for line in lines)) == words


def test_a_default_run_has_curves_and_no_empty_column(tmp_path):
    """It ends long before its budget of ten million is spent."""
    plan = coreplan.plan(numpy_problem(), planner="plug-in", epsilon="1%", out=tmp_path, reality=0)
    assert len(plan.trace) > 3 and np.isnan(plan.trace["value"]).all()
    page = page_of(tmp_path)
    assert "length of theta" in page.text and "has no curve" not in page.text
    assert "normalised value" not in page.text.partition("How the run converged")[2].partition("Whether")[0]


def test_degenerate_ranges_have_a_tick():
    assert ticks(2.0, 2.0) == [2.0] and len(ticks(0.0, float("inf"))) == 1


def test_nothing_to_write_about_is_refused(tmp_path):
    with pytest.raises(InputError, match="at least one run"):
        write_report([], tmp_path / "x.html")
    with pytest.raises(InputError, match="must be a Problem"):
        write_report(tmp_path, tmp_path / "x.html", 3)


def test_the_table_under_the_trajectories_has_the_steps_that_are_drawn(run):
    """In `river-linear` later steps than ln .05 / ln .95 = 58.4 weigh less than a twentieth."""
    facts = facts_of(run[0])
    page = Page(str(trajectories(facts)))
    drawn = sum(min(len(t.actions), 59) for t in facts.sample.trajectories)
    assert facts.number("discount") == 0.95 and f"The numbers: the {drawn} steps that are drawn" in page.text
    assert sum(tag == "tr" for tag, _ in page.elements) == 1 + drawn
