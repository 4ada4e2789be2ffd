"""The page of a run that is going on, served on this machine only.

A run shows itself to the view at every row of its trace; a thread serves the page. Both take time from the run, so both
ask a purse first: it holds 1.2% of the time that the run has had. What does not fit waits, and the page is a little
older.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from ..base import CoreplanWarning, InputError, as_count, text_of
from ..run import Run, Trace
from .facts import Facts
from .page import document, run_body

PORT = 8765
SHARE = 0.012  # of the run's time; what cannot be counted, such as starting threads, comes on top
_HOST = "127.0.0.1"
_FIRST_GUESS = 0.2  # seconds that a whole page may take
_LEAST = 1.0  # seconds between two looks at the run


def own_time() -> float:
    """Seconds that pass, without those that the main thread waited for a processor which others used (Linux tells them).

    On a busy machine a second of the view's work takes several from the run, so a share of the time on the wall would be
    too much.
    """
    try:
        waited = int(Path("/proc/self/schedstat").read_bytes().split()[1])  # nanoseconds
    except (OSError, ValueError, IndexError):
        waited = 0
    return time.monotonic() - 1e-9 * waited


class Purse:
    """The seconds that a view may take from its run: a fixed share of those that have passed."""

    def __init__(self, clock: Callable[[], float] = own_time) -> None:
        self.clock, self.begin, self.spent = clock, clock(), 0.0

    def allows(self, cost: float) -> bool:
        """Whether so many seconds are left."""
        return self.spent + cost <= SHARE * (self.clock() - self.begin)

    def pay(self, cost: float) -> None:
        self.spent += cost


class LiveView:
    """A server of the page of a run. `with LiveView() as view: plan(..., live=view)`; it ends with the block.

    Parameters
    ----------
    port: of 127.0.0.1; where it is in use, another one is taken. `url` says which.
    given: how the problem was named on the command line, for the commands that the page quotes.
    """

    def __init__(self, port: int = PORT, *, given: str = "") -> None:
        port = as_count("LiveView", least=0, port=port)
        if port > 65_535:
            raise InputError(f"`LiveView(port=...)` must be a port, from 0 to 65535; got {port}.")
        self.given, self.purse, self.wait = given, Purse(), _LEAST
        self._lock = threading.Lock()
        self._facts: Facts | None = None
        self._looked, self._look_cost, self._page_cost, self._light_cost = (
            float("-inf"),
            0.0,
            _FIRST_GUESS,
            0.02,
        )
        self._whole = ""  # the last whole page's content, with the policy
        self._body, self._version, self._shown = "", 0, -1
        self._failed = False
        self._server = self._bound(port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{_HOST}:{self.port}/"

    @property
    def port(self) -> int:
        """The port that it took."""
        return self._server.server_port

    @property
    def hosts(self) -> tuple[str, str]:
        """How a browser on this machine names this server."""
        return f"{_HOST}:{self.port}", f"localhost:{self.port}"

    def see(self, run: Run, record: Callable[[], dict[str, Any]]) -> None:
        """Look at the run as it is, if a second has passed and the purse allows it. Whatever goes wrong, the run goes on."""
        now = time.monotonic()
        due = self._facts is None or (now - self._looked >= self.wait and self.purse.allows(self._look_cost))
        if self._failed or not due:
            return
        begin = time.thread_time()
        try:
            facts = _snapshot(run, record(), self.given)
        except Exception as error:  # whatever it is, the run goes on
            self._failed = True
            warnings.warn(
                f"The live view is not updated any more: {type(error).__name__}: {text_of(error)}. The run goes on.",
                CoreplanWarning,
                stacklevel=2,
            )
            return
        self._looked, self._look_cost = now, time.thread_time() - begin
        self.purse.pay(self._look_cost)
        with self._lock:
            self._facts, self._version = facts, self._version + 1

    def body(self) -> tuple[int, str]:
        """The content of the page and its number. The policy's maps cost most, and come when the purse allows them.

        Whoever asks pays.
        """
        with self._lock:
            facts, version = self._facts, self._version
            if facts is None or version == self._shown:
                return self._shown, self._body
            whole = self.purse.allows(self._page_cost)
            if not whole and not self.purse.allows(self._light_cost) and self._body:
                return self._shown, self._body
            begin = time.thread_time()
            self._body = str(run_body(facts, maps=whole))
            cost = time.thread_time() - begin
            if whole:
                self._page_cost = cost
            else:
                self._light_cost = cost
            self._shown = version
            return self._shown, self._body

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _bound(self, port: int) -> ThreadingHTTPServer:
        """A server on this port of the loopback interface, or on another one if it is in use."""
        handler = type("Handler", (_Handler,), {"view": self})
        for choice in (port, 0):
            try:
                return _Server((_HOST, choice), handler)
            except OSError as error:
                failure = error
        raise InputError(f"No port of {_HOST} can be served on: {failure.strerror or failure}.")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a browser that keeps a connection open does not hold up the end of a run

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    """Answers GET of the page and of its content, to whoever asks for this very host."""

    view: LiveView
    timeout = 10  # seconds for a client to say what it wants
    server_version, sys_version = "coreplan", ""

    def do_GET(self) -> None:
        begin = time.thread_time()
        self._get()
        self.view.purse.pay(time.thread_time() - begin)

    def _get(self) -> None:
        if self.headers.get("Host") not in self.view.hosts:
            # Else a page of somebody else's, whose name leads here, could read this one.
            self._answer(403, "text/plain", "This view is for this machine only.\n")
        elif self.path == "/":
            self._answer(200, "text/html", _shell())
        elif self.path == "/content":
            version, body = self.view.body()
            mark = f'"{version}"'
            if self.headers.get("If-None-Match") == mark:
                self._answer(304, "text/html", "", mark)
            else:
                self._answer(200, "text/html", body, mark)
        else:
            self._answer(404, "text/plain", "There is nothing here but the page at /.\n")

    def _answer(self, code: int, kind: str, text: str, mark: str = "") -> None:
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        if mark:
            self.send_header("ETag", mark)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal is the run's."""


def _shell() -> str:
    """The page before its content is there."""
    return document("coreplan, live", live=True)


def _described(run: Run) -> dict[str, Any]:
    """What a run without a folder does not write down anywhere."""
    problem, planner = run.problem, run.planner
    return {
        "problem": problem.name, "planner": planner.name, "settings": planner.settings(), "seed": run.simulator.seed,
        "block": run.simulator.block, "discount": problem.discount, "reward_range": list(problem.reward_range),
    }  # fmt: skip


def _snapshot(run: Run, record: dict[str, Any], given: str) -> Facts:
    """What is known of a run that is going on, as values that will not change."""
    weights = run.planner.weights(run.loop.state) if run.core is not None else None
    core = run.planner.core(run.loop.state) or run.core
    fits = core is not None and weights is not None and len(weights) == len(core)
    facts = Facts(name="live", path="NEW_FOLDER", given=given, running=True)
    facts.record, facts.policy, facts.problem = _described(run) | record, run.policy(), run.problem
    facts.trace = Trace.of(list(run.trace.columns), run.trace.rows)
    facts.core, facts.weights = core, weights.copy() if fits and weights is not None else None
    return facts
