"""What the live view takes from a run, as a share of the processor time of the whole process.

    python benchmarks/live_view.py [--seconds 60]      # twice a minute; writes benchmarks/results/live_view.md

A browser's stand-in asks for the page every two seconds, as the page itself does. What the view takes is what the run's
thread spends on looking, and all that other threads of the process spend: a ratio within one run, so that it means the
same on a busy machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import coreplan

RESULTS = Path(__file__).parent / "results" / "live_view.md"
CASES = (("river-linear", "primal-dual"), ("inventory", "core-mirror"))
READER = """
import sys, time, urllib.request
mark = ""
while True:
    request = urllib.request.Request(sys.argv[1], headers={"If-None-Match": mark})
    try:
        mark = urllib.request.urlopen(request, timeout=20).headers["ETag"]
    except urllib.error.HTTPError:
        pass  # not modified
    except OSError:
        break
    time.sleep(2)
"""
HEAD = """# What the live view takes from a run

`python benchmarks/live_view.py`: see there what is measured.

| problem | planner | processor time of the run (s) | time on the clock (s) | pages | the view's share |
|---|---|---|---|---|---|
"""


class TimedView(coreplan.LiveView):
    """A view that counts what it takes from the run's thread."""

    looks = 0.0

    def see(self, *given) -> None:
        begin = time.thread_time()
        super().see(*given)
        self.looks += time.thread_time() - begin


def measured(name: str, planner: str, seconds: float) -> str:
    """A row of the table."""
    problem = coreplan.make(name)
    coreplan.plan(problem, planner=planner, budget=10**9, seconds=0.1, reality=0)  # compiles
    with TimedView(0) as view:
        reader = subprocess.Popen([sys.executable, "-c", READER, f"{view.url}content"])
        process, thread, clock = time.process_time(), time.thread_time(), time.monotonic()
        coreplan.plan(problem, planner=planner, budget=10**9, seconds=seconds, live=view, reality=0)
        process, thread = time.process_time() - process, time.thread_time() - thread
        clock = time.monotonic() - clock
        pages = view.body()[0]
    reader.kill()
    reader.wait()
    share = (process - thread + view.looks) / process
    return f"| `{name}` | `{planner}` | {process:.1f} | {clock:.1f} | {pages} | {share:.2%} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds = parser.parse_args().seconds
    rows = [measured(*case, seconds) for case in CASES]
    RESULTS.write_text(HEAD + "".join(rows))
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
