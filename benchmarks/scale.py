"""Where is the bottleneck at 1,000 workers and 10^9 queries? A simulation of the scheduler: benchmarks/results/scale.md.

    python benchmarks/scale.py        # a minute, without any cluster

First the costs of the main process are measured here, with the very code of a run: to send a task to a worker process and
take it back, and per query to check answers, compute features, and keep it in the query log, each by itself. Then the
scheduler is simulated, event by event: asks of some size are cut into blocks, blocks grouped into tasks of `TASK` seconds as
`simulate/elsewhere/engine.py` does, twice as many tasks on their way as there are workers; one main process that sends a
task, or takes one back, at a time, in the measured time; workers that take as long as the task's queries, and `LATENCY` for
the way there and back. An ask ends when its last task is back, and the next one waits for it: so idle workers at the end of
asks, a busy main process, and grouping that follows the clock are all in it. What is not: the network's bandwidth, workers
that are slower than others, and planners whose own computing takes long. A second simulation has no ends of asks, as if the
next ask were known and sent before the answers to this one are back.

Where one thing limits, the exact rate is known; the simulation is compared with that first.
"""

from __future__ import annotations

import heapq
import statistics
import time
from pathlib import Path

import numpy as np

import coreplan
from coreplan.executors import processes
from coreplan.simulate import Simulator, logging_to, using
from coreplan.simulate.ask import Ask
from coreplan.simulate.elsewhere.engine import TASK, Engine

RESULTS = Path(__file__).resolve().parent / "results" / "scale.md"
LATENCY = 1e-3  # seconds on the way, both ways together: a cluster's network and its scheduler
ASK = 65_536  # pairs of an ask, as `PlugIn` makes them
PLACES = 128


def sender() -> Engine:
    """Two worker processes that are sent everything, in tasks of one block."""
    engine = processes(2)
    engine.pays = lambda queries, chains: True
    engine.together = lambda queries_per_chain, chains: 1
    return engine


def corridor(block: int) -> coreplan.Problem:
    def step(rng, x, a):
        y = np.where(
            (a == 1) & (rng.random(len(x)) < 0.8), np.minimum(x + 1, PLACES - 1), np.maximum(x - 1, 0)
        )
        return (y == PLACES - 1) * 1.0, y

    model = coreplan.FunctionModel(2, lambda rng, n: rng.integers(PLACES, size=n), step, block=block)
    return coreplan.Problem(model, coreplan.features.one_hot(PLACES, 2), 0.9, name="corridor")


def seconds_of(block: int, queries: int, engine: Engine | None, log: Path | None = None) -> float:
    """The CPU time of asks with so many queries, the median of five."""
    problem, found = corridor(block), []
    core = coreplan.CoreSet.of(problem)
    for turn in range(5):
        with using(engine), logging_to(log and log.with_suffix(f".{turn}"), problem, 0):
            simulator = Simulator(problem, core, 0)
            ask = Ask(core_index=np.resize(np.arange(len(core)), queries), sweep=0)
            begin = time.process_time()
            simulator.answer(ask)
            found.append(time.process_time() - begin)
    return statistics.median(found)


def measured(folder: Path) -> dict[str, float]:
    """Seconds of the main process: per task, and per query with and without a log."""
    few, many, n = 256, 4096, ASK
    seconds_of(few, n, None)  # compiles
    plain_few, plain_many = (seconds_of(block, n, None) for block in (few, many))
    engine = sender()
    sent = seconds_of(few, n, engine)
    engine.shut()
    logged = seconds_of(many, n, None, folder / "q.log")
    return {
        "task": max(sent - plain_few, 0.0) / (n / few),
        "query": plain_many / n,
        "log": max(logged - plain_many, 0.0) / n,
    }


def simulated(workers: int, cost: float, block: int, ask: int, *, per_task: float, per_query: float) -> float:
    """Seconds of one ask, event by event."""
    blocks = -(-ask // block)
    together = max(min(int(TASK / (cost * block)), -(-blocks // (2 * workers))), 1)
    sizes = [min(together, blocks - i) * block for i in range(0, blocks, together)]
    clock, flying, free = (
        0.0,
        [],
        [0.0] * workers,
    )  # of the main process; tasks that will be back; when workers are free
    heapq.heapify(free)
    sent = back = 0
    while back < len(sizes):
        if sent < len(sizes) and len(flying) < 2 * workers and not (flying and flying[0][0] <= clock):
            clock += per_task / 2
            start = max(clock + LATENCY / 2, heapq.heappop(free))
            heapq.heappush(free, start + sizes[sent] * cost)
            heapq.heappush(flying, (start + sizes[sent] * cost + LATENCY / 2, sizes[sent]))
            sent += 1
        else:
            ready, size = heapq.heappop(flying)
            clock = max(clock, ready) + per_task / 2 + size * per_query
            back += 1
    return clock


def limits(workers: int, cost: float, per_task: float, per_query: float, block: int) -> float:
    """Queries per second at most: what workers can do, or what the main process can."""
    return min(workers / cost, 1.0 / (per_query + per_task / max(block, TASK / cost)))


def duration(seconds: float) -> str:
    """In words."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} s"


def table(costs: dict[str, float]) -> list[str]:
    rows = []
    per_query = costs["query"] + costs["log"]
    for cost in (1e-4, 2e-3, 0.1, 1.0):
        for workers in (2, 8, 64, 1000):
            block = int(np.clip(0.02 / cost, 1, 4096))  # of 20 ms, as docs/scale.md advises
            most = max(ASK, 4 * workers)
            one = simulated(workers, cost, block, most, per_task=costs["task"], per_query=per_query)
            ten = simulated(workers, cost, block, 10 * most, per_task=costs["task"], per_query=per_query)
            ahead = 10 * most / ten
            rate, best = most / one, limits(workers, cost, costs["task"], per_query, block)
            what = (
                "workers"
                if rate > 0.9 * workers / cost
                else "the main process"
                if best < workers / cost
                else "ends of asks"
            )
            rows.append(
                f"| {cost:g} s | {workers:,} | {block} | {rate:,.0f} | {rate * cost / workers:.0%} "
                f"| {ahead * cost / workers:.0%} | {what} | {duration(1e9 / rate)} |"
            )
    return rows


def checked(costs: dict[str, float]) -> float:
    """The largest difference, in parts of the exact answer, where that is known: long asks with one limit."""
    worst = 0.0
    for workers, cost, block in ((8, 2e-3, 10), (64, 0.1, 1), (1000, 1e-4, 200)):
        ask = 3_000_000 if cost < 1e-3 else 200_000 if cost < 0.1 else 60_000
        one = simulated(workers, cost, block, ask, per_task=costs["task"], per_query=costs["query"])
        worst = max(worst, abs(ask / one / limits(workers, cost, costs["task"], costs["query"], block) - 1.0))
    return worst


def main() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        costs = measured(Path(folder))
    rows, worst = table(costs), checked(costs)
    RESULTS.write_text("\n".join([
        "# Many workers", "", "`python benchmarks/scale.py`: what it measures and what it simulates is said there.", "",
        f"Measured in the main process, CPU time: {1e6 * costs['task']:.0f} microseconds per task, "
        f"{1e6 * costs['query']:.2f} per query for checks and features (256 of them, one-hot), {1e6 * costs['log']:.2f} per "
        f"query for the log. Assumed: {1e3 * LATENCY:g} ms on the way, asks of {ASK:,} pairs. Where the exact rate is "
        f"known, the simulation is within {worst:.0%} of it.", "",
        "| a query takes | workers | block | queries per second | workers are busy | if asks had no ends | what limits "
        "| 10^9 queries take |",
        "|---|---|---|---|---|---|---|---|", *rows, "",
    ]))  # fmt: skip
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
