"""The page in a browser: what a reader sees, changes and types in. Skipped where Chromium is missing."""

import dataclasses
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

import coreplan
from coreplan.report import measure, write_report
from helpers.browser import chromium, opened

pytestmark = pytest.mark.long

PROBLEMS = ("random-linear", "mountain-car:features=none", "frozen-lake")
LARGEST = 2_000_000  # bytes


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(browser, tmp_path_factory):
    """The address of a page for each problem and for the comparison of two runs, and the plans."""
    folder, urls, plans = tmp_path_factory.mktemp("pages"), {}, {}
    for name in PROBLEMS:
        problem, out = coreplan.make(name), folder / name.partition(":")[0]
        plans[name] = coreplan.plan(
            problem, out=out, evaluate=True, certify=name == "random-linear" and 20_000
        )
        measure(out, problem, plans[name].policy, plans[name].core, queries=2_000)
        urls[name] = write_report(out, out / "report.html", problem).as_uri()
        assert (out / "report.html").stat().st_size < LARGEST
    other = folder / "primal-dual"
    coreplan.plan(
        coreplan.make("random-linear"), planner="primal-dual", budget=5_000, out=other, evaluate=True
    )
    urls["primal-dual"] = write_report(other, other / "report.html").as_uri()
    urls["both"] = write_report([folder / "random-linear", other], folder / "both.html").as_uri()
    return urls, plans


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", [*PROBLEMS, "primal-dual", "both"])
def test_it_opens_without_a_word_and_asks_nobody(browser, pages, name, scheme):
    with opened(browser, pages[0][name], scheme=scheme) as page:
        assert page.said == [] and page.asked == [pages[0][name]]
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == (scheme == "dark")
        page.click("#theme")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground


@pytest.mark.parametrize("name", [*PROBLEMS, "primal-dual", "both"])
def test_360_pixels_are_enough(browser, pages, name):
    with opened(browser, pages[0][name], width=360) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        for summary in page.query_selector_all("summary"):
            summary.click()
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360 and page.said == []


def test_names_that_are_markup_stay_text_in_a_browser(browser, tmp_path):
    """In tables, maps, legends, lists of choices and messages; and however long a word is, it makes no scroll bar."""
    image, script = "<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>"
    problem = dataclasses.replace(
        coreplan.make("river-swim"), name=image + script, state_names=[image + script],
        action_names=[image, script], reward_name=script + "'\"",
    )  # fmt: skip
    coreplan.plan(problem, budget=600, out=tmp_path, reality=0, evaluate=True)
    measure(tmp_path, problem, coreplan.load_policy(tmp_path, problem), queries=50)
    url = write_report(tmp_path, tmp_path / "report.html", problem, given=image + script).as_uri()
    with opened(browser, url, width=360) as page:
        shown = []
        page.on("dialog", lambda dialog: (shown.append(dialog.message), dialog.dismiss()))
        for summary in page.query_selector_all("summary"):
            summary.click()
        page.check("#map-sample")
        typed(page, [99])
        typed(page, [3])
        assert shown == [] and page.said == [] and page.asked == [url] and page.locator("img").count() == 0
        assert image in page.inner_text("#at-state") and script in page.inner_text("#certificate")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def typed(page, values):
    """Type a state in."""
    for i, value in enumerate(values):
        page.fill(f"#state-{i}", repr(value))
    page.wait_for_timeout(150)


def listed(page):
    """(probability, Q-value) of each action, as the page lists them."""
    rows = page.query_selector_all("#at-state tbody tr")
    return np.array(
        [[float(cell.inner_text()) for cell in row.query_selector_all("td.number")] for row in rows]
    )


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("random-linear", [[0], [7], [123]]),
        ("mountain-car:features=none", [[-0.5, 0.0], [0.1, 0.03], [-1.1, -0.02]]),
        ("frozen-lake", [[0], [6], [14]]),
    ],
)
def test_what_it_computes_at_a_state_is_what_the_policy_does(browser, pages, name, states):
    """The page writes five significant digits."""
    policy = pages[1][name].policy
    with opened(browser, pages[0][name]) as page:
        assert "on a grid" not in page.inner_text("#policy")
        for state in states:
            typed(page, state)
            x = np.array(state[0] if name != "mountain-car:features=none" else state)
            assert np.allclose(
                listed(page), np.stack([policy.probabilities(x), policy.q_values(x)], axis=1), rtol=1e-4
            )
        assert page.said == []


def test_a_random_policy_draws_with_its_probabilities(browser, pages):
    policy = coreplan.load_policy(pages[0]["primal-dual"].removeprefix("file://").replace("/report.html", ""))
    assert np.isfinite(policy.scale)
    with opened(browser, pages[0]["primal-dual"]) as page:
        typed(page, [42])
        assert np.allclose(listed(page)[:, 0], policy.probabilities(np.array(42)), atol=1e-5)


def test_the_map_is_the_policys(browser, pages):
    """Every cell of the table under the map, against the policy at the state of its middle."""
    policy = pages[1]["mountain-car:features=none"].policy
    with opened(browser, pages[0]["mountain-car:features=none"]) as page:
        page.click("#map-numbers summary")
        rows = page.eval_on_selector_all(
            "#map-numbers tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.innerText))"
        )
    assert len(rows) >= 12 * 12  # finer where the page is quick
    states = np.array([[float(x), float(v)] for x, v, _, _ in rows])
    q = policy.q_values(states)
    assert np.allclose([float(score) for *_, score in rows], q.max(axis=1), rtol=2e-3)
    names = coreplan.make("mountain-car:features=none").names.as_dict()["action"] or [
        f"action {a}" for a in range(3)
    ]
    same = np.array([names[a] for a in q.argmax(axis=1)]) == np.array([action for _, _, action, _ in rows])
    assert same.mean() > 0.99  # coordinates are written with five digits, and some lie on a border


def test_the_controls_change_the_picture(browser, pages):
    with opened(browser, pages[0]["mountain-car:features=none"]) as page:

        def changed(what, do):
            before = page.inner_html(what)
            do()
            page.wait_for_timeout(200)
            assert page.inner_html(what) != before

        changed("#map-action", lambda: page.select_option("#map-x", "1"))
        changed("#map-score", lambda: page.check("#map-core"))
        changed("#map-action", lambda: page.check("#map-sample"))
        changed("#readout", lambda: page.press("#map-action", "ArrowRight"))
        changed("#at-state", lambda: page.click("#map-score", position={"x": 120, "y": 60}))
        changed("#core-view svg", lambda: page.select_option("#core-y", "2"))
        assert page.said == []
    with opened(browser, pages[0]["frozen-lake"]) as page:
        assert page.input_value("#map-columns") == "4"
        changed("#map-action", lambda: page.fill("#map-columns", "8"))


def test_a_state_that_the_features_do_not_know(browser, pages):
    with opened(browser, pages[0]["frozen-lake"]) as page:
        typed(page, [99])
        assert "do not know this state" in page.inner_text("#readout") and page.said == []


@pytest.mark.parametrize("name", [*PROBLEMS, "both"])
def test_the_keyboard_alone_reaches_everything(browser, pages, name):
    with opened(browser, pages[0][name]) as page:
        every = """
            [...document.querySelectorAll("a[href], button, select, input, summary, [tabindex='0']")]
                .filter(e => e.checkVisibility() && !e.disabled)
        """
        page.evaluate(f"({every}).forEach((e, i) => e.dataset.seen = '')")
        count = page.evaluate(f"({every}).length")
        for _ in range(count + 3):
            page.keyboard.press("Tab")
            page.evaluate("document.activeElement.dataset && (document.activeElement.dataset.seen = 'yes')")
        left = page.evaluate(
            f"({every}).filter(e => e.dataset.seen !== 'yes').map(e => e.outerHTML.slice(0, 80))"
        )
        assert left == [] and count >= 5
        opened_now = "[...document.querySelectorAll('details')].map(e => e.open)"
        before = page.evaluate(opened_now)
        page.locator("summary").first.focus()
        page.keyboard.press("Enter")
        assert page.evaluate(opened_now) == [not before[0], *before[1:]]


def test_nothing_else_can_be_run_in_it(browser, pages):
    """What a test itself evaluates may use eval in some versions of Chromium, so the page's own clock calls it here."""
    evaluated = (
        "new Promise(done => setTimeout(() => { try { done(eval('1')) } catch (e) { done(e.name) } }))"
    )
    with opened(browser, pages[0]["random-linear"]) as page:
        assert page.evaluate(evaluated) == "EvalError"
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.x = 1'}))"
        )
        assert page.evaluate("window.x") is None
        assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"


def test_print_is_light_and_without_controls(browser, pages):
    with opened(browser, pages[0]["random-linear"], scheme="dark") as page:
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not page.is_visible("nav") and not page.is_visible("#theme") and page.is_visible("#map-action")


def test_charts_are_there_without_scripts(browser, pages):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages[0]["primal-dual"])
    assert page.locator("#convergence svg path").count() >= 4 and page.is_visible("noscript p")
    context.close()


def until(page, happened, seconds):
    """Wait for something. (`wait_for_function` would have the page evaluate a text, which its policy forbids.)"""
    for _ in range(10 * seconds):
        if happened():
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"it did not happen within {seconds} s")


def test_the_live_view_follows_a_run_to_its_end(browser):
    command = "plan river-linear --planner primal-dual --budget 20000000 --rollouts 0 --reality 0 --live"
    run = subprocess.Popen(
        [sys.executable, "-m", "coreplan", *shlex.split(command), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+/", run.stderr.readline()).group()
        with opened(browser, url) as page:
            page.wait_for_selector("#convergence .chart", timeout=120_000)
            counts = [page.inner_text(".verdict")]
            until(page, lambda: page.inner_text(".verdict") != counts[0], 120)
            until(page, lambda: "The run has ended" in page.inner_text("body"), 240)
            assert {u.removeprefix(url) for u in page.asked} <= {"", "content", "favicon.ico"}
            told = [
                text for text in page.said if "ERR_CONNECTION" not in text
            ]  # it asks until nobody answers
            assert told == []
        assert run.wait(timeout=120) == 0
    finally:
        run.kill()
        run.communicate()
