"""The live view: who may read it, which port it takes, what it takes from the run, and that it ends."""

import http.client
import json
import socket
import time
import warnings
from pathlib import Path

import pytest

import coreplan
from coreplan import CoreplanWarning, InputError
from coreplan.report import LiveView
from coreplan.report.live import SHARE, Purse, own_time
from helpers.html import Page, safe


def get(view, path="/", host=None, **headers):
    """The status, the headers and the text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", view.port, timeout=10)
    try:
        connection.putrequest("GET", path, skip_host=True)
        for name, value in ({"Host": host or f"127.0.0.1:{view.port}"} | headers).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def test_a_run_is_seen_while_it_goes_on():
    """Whenever it shows itself: the progress object asks the server in the middle of the run."""
    seen = []

    class Watch:
        def update(self, queries):
            seen.append((queries, get(view, "/content")[2]))

        def close(self):
            pass

    with LiveView(0) as view:
        view.purse.spent = -1e9  # whatever it costs
        view.wait = 0.0
        problem = coreplan.make("river-linear")
        coreplan.plan(problem, planner="sampled-lp", budget=3_000, live=view, progress=Watch(), reality=0)
    page = Page("".join(seen[-1][1]))
    assert seen and page.data("run")["record"]["planner"] == "sampled-lp"
    assert page.data("run")["trace"]["queries"][0] == 0 and "The run is going on" in page.text


def test_the_run_is_the_same_with_and_without_a_view():
    problem = coreplan.make("river-linear")
    with LiveView(0) as view:
        seen = coreplan.plan(problem, planner="core-mirror", budget=2_000, live=view)
    alone = coreplan.plan(problem, planner="core-mirror", budget=2_000)
    assert seen.policy.theta.tobytes() == alone.policy.theta.tobytes() and seen.queries == alone.queries


def test_only_this_machine_may_read_it():
    with LiveView(0) as view:
        assert get(view)[0] == 200 and get(view, host=f"localhost:{view.port}")[0] == 200
        for host in ("evil.example", f"evil.example:{view.port}", "127.0.0.1:1", "127.0.0.1", ""):
            status, _, text = get(view, host=host or " ")
            assert status == 403 and "coreplan" not in text, host
        assert view.url == f"http://127.0.0.1:{view.port}/"
        assert get(view, "/../run.json")[0] == 404 and get(view, "/etc/passwd")[0] == 404


def test_its_page_asks_this_server_only():
    with LiveView(0) as view:
        _, headers, text = get(view)
    page = Page(text)
    safe(page)
    assert page.policy["connect-src"] == ["'self'"]
    assert headers["X-Frame-Options"] == "DENY" and headers["Cache-Control"] == "no-store"


def test_a_port_in_use_picks_another():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with LiveView(taken.getsockname()[1]) as view:
            assert view.port != taken.getsockname()[1] and get(view)[0] == 200


def test_it_ends_with_its_block():
    with LiveView(0) as view:
        port = view.port
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=2):
        pass


def test_unchanged_content_is_not_sent_again():
    with LiveView(0) as view:
        coreplan.plan(coreplan.make("river-swim"), budget=600, live=view, reality=0)
        status, headers, text = get(view, "/content")
        assert status == 200 and "river-swim" in text
        assert get(view, "/content", **{"If-None-Match": headers["ETag"]})[::2] == (304, "")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_the_purse_never_gives_more_than_its_share():
    """Whoever asks however often for something of whatever cost: a cost that fits when it was last seen."""
    clock = Clock()
    purse, taken = Purse(clock), 0.0
    for k in range(20_000):
        clock.now += 0.01
        cost = 0.001 * (1 + k % 37)
        if purse.allows(cost):
            purse.pay(cost)
            taken += cost
        assert taken <= SHARE * clock.now
    assert taken > 0.9 * SHARE * clock.now
    assert SHARE < 0.02


def test_time_that_others_take_is_not_the_runs(monkeypatch, tmp_path):
    (tmp_path / "schedstat").write_text("5 3000000000 2\n")
    real = Path
    monkeypatch.setattr("coreplan.report.live.Path", lambda name: tmp_path / real(name).name)
    assert own_time() == pytest.approx(time.monotonic() - 3.0, abs=1.0)
    (tmp_path / "schedstat").write_text("none")
    assert own_time() == pytest.approx(time.monotonic(), abs=1.0)


def test_a_view_that_fails_is_given_up_and_the_run_goes_on():
    class Broken:
        calls = 0

        def weights(self, state):
            raise KeyError("nothing")

    with LiveView(0) as view, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run = type("Run", (), {"planner": Broken(), "core": 3, "problem": None})()
        view.see(run, dict)
        view.see(run, dict)
    assert [w.category for w in said] == [CoreplanWarning] and "not updated any more" in str(said[0].message)


@pytest.mark.parametrize("wrong", [3, "http", object()])
def test_a_view_that_is_none_is_refused_before_the_first_query(wrong):
    with pytest.raises(InputError, match="live"):
        coreplan.plan(coreplan.make("river-swim"), budget=600, live=wrong)


@pytest.mark.parametrize("port", [-1, 65_536, 1.5, "x"])
def test_a_port_is_a_port(port):
    with pytest.raises(InputError, match="port"):
        LiveView(port)


def test_its_data_are_json():
    with LiveView(0) as view:
        coreplan.plan(coreplan.make("river-swim"), budget=600, live=view, reality=0)
        page = Page(get(view, "/content")[2])
    assert json.dumps(page.data("run"))
