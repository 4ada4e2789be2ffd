"""Where is the bottleneck at 1,000 workers and 10^9 queries? A simulation of the scheduler: benchmarks/results/scale.md.

    python benchmarks/scale.py        # a minute, without any cluster

First the costs of the main process are measured here, with the very code of a run: to send a task to a worker process and
take it back, and per query to check answers, compute features, and keep it in the query log, each by itself. Then the
scheduler is simulated, event by event: asks of some size are cut into blocks, blocks grouped into tasks of `TASK` seconds as
`simulate/elsewhere/engine.py` does, twice as many tasks on their way as there are workers; one main process that sends a
task, or takes one back, at a time, in the measured time; workers that take as long as the task's queries, and `LATENCY` for
the way there and back. An ask ends when its last task is back. What comes next is known, so that up to twice as many of
its tasks as there are workers are sent when none of this ask is left to send, as `simulate/elsewhere/batch.py` does; in a
second simulation the next ask waits, as it does where the answers decide it. So idle workers at the end of asks, a busy main
process, and grouping that follows the clock are all in it. What is not: the network's bandwidth, workers that are slower
than others, and planners whose own computing takes long.

What a task costs the main process is also measured with 2,000 tasks on their way, to workers that do nothing: it must not
grow with their number.

Where one thing limits, the exact rate is known; the simulation is compared with that first.
"""

from __future__ import annotations

import heapq
import statistics
import time
from collections import deque
from concurrent.futures import Executor, Future
from pathlib import Path

import numpy as np

import coreplan
from coreplan.base import simulator_stream
from coreplan.executors import processes
from coreplan.simulate import Simulator, logging_to, using
from coreplan.simulate.ask import Ask
from coreplan.simulate.elsewhere.batch import Batch
from coreplan.simulate.elsewhere.engine import TASK, Engine
from coreplan.simulate.elsewhere.task import Call, Chain

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


class Idle(Executor):
    """Workers that do nothing: the answers to every task are those to the first, once all that may be on their way are."""

    def __init__(self, most: int) -> None:
        self.most, self.held, self.answer = most, deque(), None

    def submit(self, function, *arguments):
        self.answer = self.answer or function(*arguments)
        self.held.append(Future())
        if len(self.held) > self.most:
            self.held.popleft().set_result(self.answer)
        return self.held[-1]


def with_many(workers: int, tasks: int) -> float:
    """Seconds of the main process per task with twice as many tasks on their way as there are workers."""
    problem = corridor(4)
    stream = simulator_stream(0, 0)
    chain = Chain(stream, (Call(pairs=np.arange(4), states=None, actions=None, noise=None),))
    executor = Idle(2 * workers - 1)
    engine = coreplan.executors.given(executor, workers)
    engine.together = lambda queries_per_chain, chains: 1
    parcel = engine.parcel(problem.model, coreplan.CoreSet.of(problem))
    batch = Batch(engine, parcel, [chain] * tasks, lost=lambda n: None, name=str)
    begin = time.process_time()
    waited = tasks - 2 * workers  # the last ones are released by nobody
    for k in range(waited):
        batch.take(k)
    return (time.process_time() - begin) / waited


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
        "few": with_many(2, 4000),
        "many": with_many(1000, 20_000),
    }


def simulated(
    workers: int, cost: float, block: int, ask: int, *, per_task: float, per_query: float, asks: int = 1,
    early: bool = True,
) -> float:  # fmt: skip
    """Seconds of so many asks, event by event; `early`: the next ask is known before the answers are back."""
    blocks = -(-ask // block)
    together = max(min(int(TASK / (cost * block)), -(-blocks // (2 * workers))), 1)
    sizes = [min(together, blocks - i) * block for i in range(0, blocks, together)]
    clock, free = 0.0, [0.0] * workers  # of the main process; when workers are free
    flying: list[tuple[float, int, int]] = []  # tasks: when they will be back, of which ask, their queries
    heapq.heapify(free)
    sent, back = [0] * (asks + 1), [0] * asks
    for now in range(asks):
        while back[now] < len(sizes):
            to = now if sent[now] < len(sizes) else now + 1  # of which ask the next task is
            room = len(flying) < 2 * workers and not (flying and flying[0][0] <= clock)
            most = len(sizes) if to == now else min(2 * workers, len(sizes)) if early and to < asks else 0
            if room and sent[to] < most:
                clock += per_task / 2
                start = max(clock + LATENCY / 2, heapq.heappop(free))
                size = sizes[sent[to]]
                heapq.heappush(free, start + size * cost)
                heapq.heappush(flying, (start + size * cost + LATENCY / 2, to, size))
                sent[to] += 1
            else:
                ready, of, size = heapq.heappop(flying)
                clock = max(clock, ready) + per_task / 2 + size * per_query
                back[of] += 1
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
            known, waits = (
                simulated(
                    workers,
                    cost,
                    block,
                    most,
                    per_task=costs["task"],
                    per_query=per_query,
                    asks=10,
                    early=early,
                )
                for early in (True, False)
            )
            waiting = 10 * most / waits
            rate, best = 10 * most / known, limits(workers, cost, costs["task"], per_query, block)
            what = (
                "workers"
                if rate > 0.9 * workers / cost
                else "the main process"
                if best < workers / cost
                else "ends of asks"
            )
            rows.append(
                f"| {cost:g} s | {workers:,} | {block} | {rate:,.0f} | {rate * cost / workers:.0%} "
                f"| {waiting * cost / workers:.0%} | {what} | {duration(1e9 / rate)} |"
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
        f"To workers that do nothing, a task takes {1e6 * costs['few']:.0f} microseconds with 4 tasks on their way, and "
        f"{1e6 * costs['many']:.0f} with 2,000.", "",
        "| a query takes | workers | block | queries per second | workers are busy | if each ask waits | what limits "
        "| 10^9 queries take |",
        "|---|---|---|---|---|---|---|---|", *rows, "",
    ]))  # fmt: skip
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
