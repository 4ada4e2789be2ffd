"""In a notebook results show themselves: the figures of their text form, every text escaped."""

import dataclasses

import pytest

import coreplan
from coreplan.base import known
from coreplan.cli import show

NASTY = "<script>alert('1')</script> & <b>"


@pytest.fixture(scope="module")
def problem():
    return coreplan.make("random-linear")


@pytest.fixture(scope="module")
def plan(problem):
    return coreplan.plan(problem, budget=400, evaluate=True, certify=2_000)


@pytest.fixture(scope="module")
def report(problem):
    return coreplan.check(problem, queries=1_000)


def test_a_plan_shows_what_print_shows(plan):
    page = plan._repr_html_()
    lines = str(plan).splitlines()
    assert len(lines) > 8
    for line in lines:
        assert line.startswith(plan.sentence[:20]) or (line[:10].strip() in page and line[10:] in page), line
    assert plan.sentence in page


def test_a_certificate_shows_what_its_command_shows(plan, capsys):
    page = plan.certificate._repr_html_().replace("&lt;", "<").replace("&#x27;", "'")
    show.certificate(plan.certificate)
    printed = capsys.readouterr().out
    for name, text in plan.certificate.rows:
        assert name in page and text in page
        assert name in printed and text.split()[0] in printed
    assert known(plan.certificate.lower) in page and known(plan.certificate.gap) in page
    assert plan.certificate.title in page and plan.certificate.sentence in page


def test_an_evaluation_shows_its_text_and_what_it_knows_besides(plan):
    found = plan.evaluation
    page = found._repr_html_()
    assert str(found) in page and f"{found.optimum:.4f}, gap {found.gap:.4f}, sub {found.sub:.4f}" in page
    rolled = coreplan.evaluate(coreplan.make("pendulum"), 1, rollouts=20)
    page = rolled._repr_html_()
    assert str(rolled) in page and f"{rolled.queries:,}" in page and "optimum" not in page


def test_a_report_shows_every_row(report):
    page = report._repr_html_()
    for row in report.rows:
        assert f" {row.light}</span>" in page and row.name in page and known(row.value) in page


def test_texts_of_others_are_escaped(plan, report):
    spoilt = [
        dataclasses.replace(plan, problem_name=NASTY, reason=NASTY, no_verdict=NASTY, baseline_name=NASTY),
        dataclasses.replace(plan.certificate, assumes=(NASTY,)),
        dataclasses.replace(report, rows=(dataclasses.replace(report.rows[0], name=NASTY, verdict=NASTY),)),
    ]
    for thing in spoilt:
        page = thing._repr_html_()
        assert "<script" not in page and "<b>" not in page
        assert "&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt; &amp; &lt;b&gt;" in page
